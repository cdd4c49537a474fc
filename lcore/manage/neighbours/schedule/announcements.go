// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"net/netip"
	"slices"
	"time"
)

// Announcements tell the RoCE hosts that the bridge has an address, so that a host that knows it by an earlier bridge's
// MAC address sends to this bridge at once, and not only when its neighbour entry has timed out.
type Announcements struct {
	planned  []announcement
	by       time.Time // when they are sent, ready or not
	last     time.Time // when some were sent last
	defended map[netip.Addr]time.Time
}

type announcement struct {
	ip   netip.Addr
	at   time.Time // when it is sent next
	left int       // how often still
}

const (
	announcements4 = 2               // RFC 5227 §1.1, ANNOUNCE_NUM
	announceEvery4 = 2 * time.Second // ANNOUNCE_INTERVAL
	announcements6 = 3               // RFC 4861 §10, MAX_NEIGHBOR_ADVERTISEMENT
	announceEvery6 = time.Second     // RETRANS_TIMER

	// announceMost are sent each announcePause, not to overrun the hosts and the worker's ring.
	announceMost  = 32
	announcePause = 100 * time.Millisecond
	// announceBy is when a bridge that does not get ready sends announcements: a node that is off must not delay
	// those of others.
	announceBy = 5 * time.Second
)

// Begin sends what is planned in five seconds at the latest.
func (a *Announcements) Begin(now time.Time) { a.by = now.Add(announceBy) }

// Plan schedules announcements of an address.
func (a *Announcements) Plan(ip netip.Addr) {
	x := announcement{ip: ip, left: announcements6}
	if ip.Is4() {
		x.left = announcements4
	}
	a.planned = append(a.planned, x)
}

// Drop cancels the announcements of addresses that are gone.
func (a *Announcements) Drop(gone func(netip.Addr) bool) {
	a.planned = slices.DeleteFunc(a.planned, func(x announcement) bool { return gone(x.ip) })
}

// Clear cancels all announcements.
func (a *Announcements) Clear() { a.planned = nil }

// Tick sends what is due, once the bridge is ready. announce reports false when an address is not to be announced yet,
// or when that could not be sent; then it stays due.
func (a *Announcements) Tick(now time.Time, ready func() bool, announce func(netip.Addr) bool) {
	if len(a.planned) == 0 || now.Sub(a.last) < announcePause || !ready() && now.Before(a.by) {
		return
	}
	a.last = now
	sent, open := 0, a.planned[:0]
	for _, x := range a.planned {
		if sent < announceMost && !x.at.After(now) && announce(x.ip) {
			sent++
			x.left--
			x.at = now.Add(announceEvery6)
			if x.ip.Is4() {
				x.at = now.Add(announceEvery4)
			}
		}
		if x.left > 0 {
			open = append(open, x)
		}
	}
	a.planned = open
}

// Defend announces an address that another station has claimed by broadcast, but no more often than each ten seconds,
// so that two stations that both defend an address do not fill the wire (RFC 5227 §2.4 (c)). It reports whether it did.
func (a *Announcements) Defend(ip netip.Addr, now time.Time, announce func(netip.Addr) bool) bool {
	if now.Sub(a.defended[ip]) < defendEvery || !announce(ip) {
		return false
	}
	if a.defended == nil {
		a.defended = map[netip.Addr]time.Time{}
	}
	a.defended[ip] = now
	return true
}

// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"time"

	"causeway/lcore/frame"
)

// An announcement tells the hosts of the RoCE side that the bridge has an address, so that who knows it by the MAC
// address of an earlier bridge sends to this one at once, and not only when that has failed him.
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

	announceMost = 32 // at a time, each houseEvery: for the hosts' sake, and not to overrun the worker's ring
	// announceBy is when a bridge that does not get ready announces what it has: a node that is off must not keep
	// the others waiting.
	announceBy = 5 * time.Second
)

// planAnnouncements plans those of the bridge's own addresses and of its nodes'. Hosts know no old MAC address of the
// link-local one, which is made of the MAC address.
func (l *Loop) planAnnouncements(now time.Time) {
	l.announceFrom = now.Add(announceBy)
	for _, p := range l.cfg.Addresses {
		l.planAnnouncement(p.Addr())
	}
	for _, n := range l.cfg.Nodes {
		for _, ip := range n.addrs() {
			l.planAnnouncement(ip)
		}
	}
}

func (l *Loop) planAnnouncement(ip netip.Addr) {
	a := announcement{ip: ip, left: announcements6}
	if ip.Is4() {
		a.left = announcements4
	}
	l.announcements = append(l.announcements, a)
}

// sendAnnouncements sends what is due, once the bridge bridges. A node that the subnet does not have is announced
// when it appears: until then its address may be somebody else's.
func (l *Loop) sendAnnouncements(now time.Time) {
	if len(l.announcements) == 0 || now.Sub(l.announcedAt) < houseEvery || !l.isReady() && now.Before(l.announceFrom) {
		return
	}
	l.announcedAt = now
	sent, open := 0, l.announcements[:0]
	for _, a := range l.announcements {
		if sent < announceMost && !a.at.After(now) && l.isThere(a.ip) && l.announceAddress(a.ip) {
			sent++
			a.left--
			a.at = now.Add(announceEvery6)
			if a.ip.Is4() {
				a.at = now.Add(announceEvery4)
			}
		}
		if a.left > 0 {
			open = append(open, a)
		}
	}
	l.announcements = open
}

func (l *Loop) announceAddress(ip netip.Addr) bool {
	if !l.sendAnnouncement(ip) {
		return false
	}
	l.count.AddressesAnnounced++
	return true
}

// sendAnnouncement tells all hosts that the bridge has an address.
func (l *Loop) sendAnnouncement(ip netip.Addr) bool {
	build := frame.AppendNAAnnouncement
	if ip.Is4() {
		build = frame.AppendARPAnnouncement
	}
	return l.send(l.workers[0], build(nil, l.link, ip))
}

// setDrained leaves the nodes to another bridge, or takes them back: then everybody is to hear of it once all is joined.
func (l *Loop) setDrained(drained bool) {
	if l.drained == drained {
		return
	}
	l.drained, l.wasReady, l.announcements = drained, false, nil
	if !drained {
		l.planAnnouncements(time.Now())
	}
}

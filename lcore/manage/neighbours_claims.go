// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"time"

	"causeway/lcore/frame"
	"causeway/tables"
)

// Two stations that claim one address. Who came first is asked, at his own MAC address: if he still answers, he keeps the
// address; if not, it has moved. So a spare that takes over a dead host's address has it half a second later, and nobody
// takes it from a host that lives. This is the rule of RFC 6620 (first come, first served), with its times; for IPv4
// it is what RFC 5227 §2.4 leaves to the holder to defend.

const (
	claimAsk  = 250 * time.Millisecond // between the two questions to the holder (RFC 6620, T_WAIT)
	claimAsks = 2                      // TENT_LT, 500 ms, in all
	// defendEvery is how long a refused claim stays refused, and how often at most an address is defended
	// (RFC 5227 §1.1, DEFEND_INTERVAL).
	defendEvery = 10 * time.Second
	// flapTime is within what time a return to the MAC address before is a flap and not a move.
	flapTime = time.Minute
)

// A claim is another MAC address for a known host, while the host is asked at the one that it is known by.
type claim struct {
	host  tables.Host // as it would be
	asked int
}

// A turnedAway is a claim that was not let pass.
type turnedAway struct {
	mac   frame.MAC
	until time.Time
}

// contest notes that a host, known by old, is claimed by another MAC address. It changes nothing yet.
func (l *Loop) contest(old, claimed tables.Host, now time.Time) {
	n := l.neighbours.of[old.IP]
	switch mac := frame.MAC(claimed.MAC); {
	case n == nil:
	case n.claim != nil && n.claim.host.MAC == claimed.MAC:
		n.claim.host = claimed
	case n.claim != nil, n.refused.mac == mac && now.Before(n.refused.until):
		l.conflict(old, claimed.MAC)
	default:
		n.claim = &claim{host: claimed}
		l.neighbours.lookAt(n, now)
	}
}

// judgeClaim asks the holder of a claimed address, and lets the address move when he has not answered. It returns how many
// questions it took.
func (l *Loop) judgeClaim(n *neighbour, h tables.Host, now time.Time) int {
	if n.claim.asked < claimAsks {
		if !l.askAt(frame.Link{MAC: l.cfg.MAC, VID: h.VLAN}, h.MAC, n.ip) {
			l.neighbours.lookAt(n, now.Add(houseEvery))
			return askMost
		}
		n.claim.asked++
		l.neighbours.lookAt(n, now.Add(claimAsk))
		return 1
	}
	moved := n.claim.host
	n.claim = nil
	n.heard, n.asked = now, 0
	l.neighbours.lookAt(n, now.Add(refreshUsed))
	l.noteHost(moved, h, true, true)
	return 0
}

// refuseClaim ends a claim whose holder has spoken.
func (l *Loop) refuseClaim(n *neighbour, now time.Time) {
	by := frame.MAC(n.claim.host.MAC)
	n.claim, n.refused = nil, turnedAway{by, now.Add(defendEvery)}
	l.neighbours.lookAt(n, now.Add(refreshUsed))
	if h, _, known := l.tables.FindHost(n.ip); known {
		l.conflict(h, by)
	}
}

// conflict counts that somebody wanted a living host's address.
func (l *Loop) conflict(h tables.Host, by frame.MAC) {
	l.count.HostConflicts++
	if l.mayLog("host_conflict", 1) {
		l.log.Warn("host_conflict", "ip", h.IP, "stays", frame.MAC(h.MAC), "claimed_by", by,
			"note", "two stations use one address, or one of them pretends to; the first keeps it while it answers")
	}
}

// noteMove counts that a host has moved, and whether it did so before: two stations take turns.
func (l *Loop) noteMove(ip netip.Addr, from, to frame.MAC, now time.Time) {
	l.count.HostsMoved++
	event := "host_moved"
	if n := l.neighbours.of[ip]; n != nil {
		if n.was == to && now.Sub(n.movedAt) < flapTime {
			l.count.HostFlaps++
			event = "host_flapping"
		}
		n.was, n.movedAt = from, now
	}
	if l.mayLog(event, 1) {
		l.log.Warn(event, "ip", ip, "from", from, "to", to)
	}
}

// spoofed counts that somebody on Ethernet claims what is not his. Where ARP or ND said so, hosts have heard it too:
// then one announcement puts it right, but no more than one each defendEvery, so that two who both think that they are
// right do not fill the wire (RFC 5227 §2.4 (c)).
func (l *Loop) spoofed(ip netip.Addr, by frame.MAC, heardByAll bool) {
	l.count.Spoofs++
	if l.mayLog("address_claimed", 1) {
		l.log.Warn("address_claimed", "ip", ip, "claimed_by", by, "note", "the configuration says whose it is")
	}
	now := time.Now()
	if !heardByAll || !l.isThere(ip) || now.Sub(l.defended[ip]) < defendEvery {
		return
	}
	if l.sendAnnouncement(ip) {
		l.defended[ip] = now
		l.count.AddressesDefended++
	}
}

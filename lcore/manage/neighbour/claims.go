// SPDX-License-Identifier: Apache-2.0

package neighbour

import (
	"net/netip"
	"time"

	"causeway/lcore/frame"
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

// A Place is where a host is said to be.
type Place struct {
	MAC     frame.MAC
	VLAN    uint16
	Version uint8 // of RoCE
}

// A claim is another place for a host, while the host is asked at the one where it is known to be.
type claim struct {
	to    Place
	asked int
}

// A turnedAway is a claim that was not let pass.
type turnedAway struct {
	mac   frame.MAC
	until time.Time
}

// IsContested reports whether another MAC address claims a host's address.
func (n *Host) IsContested() bool { return n.claim != nil }

// Contest notes that another MAC address claims a host's address; nothing changes yet. It reports whether the claim is refused
// without asking: because the host spoke up against it not long ago, or because a third one has claimed the address.
func (b *Book) Contest(ip netip.Addr, to Place, now time.Time) (refused bool) {
	n := b.of[ip]
	switch {
	case n == nil:
	case n.claim != nil && n.claim.to.MAC == to.MAC:
		n.claim.to = to
	case n.claim != nil, n.refused.mac == to.MAC && now.Before(n.refused.until):
		return true
	default:
		n.claim = &claim{to: to}
		b.lookAt(n, now)
	}
	return false
}

// Judge says what is to be done about a host that is due and whose address is claimed: AskAlone, or Rest, when it has not
// answered: then the host has moved to where it returns.
func (b *Book) Judge(n *Host, now time.Time) (Step, Place) {
	if n.claim.asked < claimAsks {
		n.wait = claimAsk
		return AskAlone, Place{}
	}
	to := n.claim.to
	n.claim, n.Heard, n.Asked = nil, now, 0
	b.lookAt(n, now.Add(refreshUsed))
	return Rest, to
}

// Moved notes that a host has another MAC address, and reports whether it had that one not long ago: two stations take turns.
func (b *Book) Moved(ip netip.Addr, from, to frame.MAC, now time.Time) (flaps bool) {
	n := b.of[ip]
	if n == nil {
		return false
	}
	flaps = n.was == to && now.Sub(n.movedAt) < flapTime
	n.was, n.movedAt = from, now
	return flaps
}

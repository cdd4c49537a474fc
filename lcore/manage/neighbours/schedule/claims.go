// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"net/netip"
	"time"

	"causeway/lcore/frame"
)

// Two stations that claim one address. The first one, the holder, is probed at its MAC address: if it answers, it keeps
// the address; if not, the address has moved. So a spare that takes over a dead host's address has it half a second
// later, and no station takes it from a live host. This is the rule of RFC 6620 (first come, first served), with its
// times; for IPv4 RFC 5227 §2.4 leaves it to the holder to defend its address.
//
// A holder that has only ever answered is not believed that much. A host with two ports in one subnet answers for both
// addresses at both MAC addresses, unless it is told not to (Linux: arp_ignore): who sends data from an address and answers
// for it, too, has it.

const (
	claimAsk  = 250 * time.Millisecond // between the two probes of the holder (RFC 6620, T_WAIT)
	claimAsks = 2                      // TENT_LT, 500 ms, in all
	// defendEvery is how long a rejected claim stays rejected, and how often at most an address is defended
	// (RFC 5227 §1.1, DEFEND_INTERVAL).
	defendEvery = 10 * time.Second
	// flapTime is the time within which a return to the MAC address before is a flap and not a move.
	flapTime = time.Minute
	// preferTime is how long after data its sender's answer counts.
	preferTime = 3 * time.Second
)

// A Place is where a host is, or is claimed to be.
type Place struct {
	MAC     frame.MAC
	VLAN    uint16
	Version uint8 // of RoCE
}

// A claim is another place for a host, while the holder is probed.
type claim struct {
	to    Place
	asked int
}

// A rejectedClaim is one whose holder has answered.
type rejectedClaim struct {
	mac   frame.MAC
	until time.Time
}

// IsContested reports whether another MAC address claims a host's address.
func (n *Host) IsContested() bool { return n.claim != nil }

// Contest notes that another MAC address claims a host's address, by data or not; nothing changes yet. It reports whether the claim is
// rejected without a probe: because the holder answered not long ago, or because a third station has claimed the
// address.
func (hs *Hosts) Contest(ip netip.Addr, to Place, data bool, now time.Time) (rejected bool) {
	n := hs.of[ip]
	if n != nil && data {
		n.sends, n.sentAt = to, now
	}
	switch {
	case n == nil:
	case n.claim != nil && n.claim.to.MAC == to.MAC:
		n.claim.to = to
	case n.claim != nil, n.rejected.mac == to.MAC && now.Before(n.rejected.until):
		return true
	default:
		n.claim = &claim{to: to}
		hs.lookAt(n, now)
	}
	return false
}

// Judge says what to do about a host that is due and whose address is claimed: Probe; or Rest when it has not answered:
// then the host has moved to the Place that Judge returns.
func (hs *Hosts) Judge(n *Host, now time.Time) (Step, Place) {
	if n.claim.asked < claimAsks {
		n.wait = claimAsk
		return Probe, Place{}
	}
	to := n.claim.to
	hs.settle(n, now)
	return Rest, to
}

func (hs *Hosts) settle(n *Host, now time.Time) {
	n.claim, n.Heard, n.Asked = nil, now, 0
	hs.lookAt(n, now.Add(refreshUsed))
}

// Prefer reports whether data from a host's address have come from a MAC address lately, which claims it: then the host has moved
// there.
func (hs *Hosts) Prefer(ip netip.Addr, mac frame.MAC, now time.Time) (Place, bool) {
	n := hs.of[ip]
	if n == nil || n.sends.MAC != mac || now.Sub(n.sentAt) >= preferTime {
		return Place{}, false
	}
	to := n.sends
	n.sends = Place{}
	hs.settle(n, now)
	return to, true
}

// Moved notes that a host has another MAC address, and reports whether it had that one not long ago.
func (hs *Hosts) Moved(ip netip.Addr, from, to frame.MAC, now time.Time) (flaps bool) {
	n := hs.of[ip]
	if n == nil {
		return false
	}
	flaps = n.was == to && now.Sub(n.movedAt) < flapTime
	n.was, n.movedAt = from, now
	return flaps
}

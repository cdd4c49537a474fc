// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"net/netip"
	"slices"
	"time"
)

// SetGuests makes these the groups that the segment shares with others. Other Groups have them; these report them on
// the RoCE side, have the port receive them, and learn none of their addresses. Set comes next.
func (g *Groups) SetGuests(guests []Group, now time.Time) {
	was := g.guests
	g.guests, g.filter.stale = slices.Clone(guests), true
	for _, x := range guests {
		if x.ToIB && !leads(was, x.IP) {
			g.host.Join(x.IP, x.Sources, g.workerOf(x.MGID), now)
		}
	}
	for _, x := range was {
		if x.ToIB && !g.isGuest(x.IP) {
			g.entries.leave(x.IP)
		}
	}
}

// isGuest reports whether an address is that of a shared group whose messages go to InfiniBand.
func (g *Groups) isGuest(ip netip.Addr) bool { return leads(g.guests, ip) }

func leads(guests []Group, ip netip.Addr) bool {
	return slices.ContainsFunc(guests, func(x Group) bool { return x.ToIB && x.IP == ip })
}

// SetEthMTU changes the largest IP packet, which bounds the datagrams of groups of plain UDP.
func (g *Groups) SetEthMTU(mtu int) {
	if mtu == g.entries.ethMTU {
		return
	}
	g.entries.ethMTU = mtu
	for _, m := range g.groups {
		if m.open && !m.gone && m.UDPPort != 0 {
			g.entries.open(m)
		}
	}
}

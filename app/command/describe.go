// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"net/netip"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
)

// ends returns who sends a packet and whom it is for, as far as its beginning says: IP addresses, or GIDs.
func ends(s *lcore.Sight) (from, to netip.Addr) {
	if s.IB != nil {
		return gidAddr(s.IB.SGID), gidAddr(s.IB.DGID)
	}
	if s.Door != lcore.RoCEDoor {
		return from, to
	}
	f, _ := frame.Open(s.Data) // it may be cut off; its headers are there
	switch {
	case f.IPv4 != nil:
		return f.IPv4.Src(), f.IPv4.Dst()
	case f.IPv6 != nil:
		return f.IPv6.Src(), f.IPv6.Dst()
	case f.Type == frame.TypeRoCEv1:
		if g, ok := ib.AsGRH(f.Payload); ok {
			return gidAddr(g.SGID()), gidAddr(g.DGID())
		}
	}
	return from, to
}

// gidAddr returns a GID as an address, that of IPv4 as such; the zero Addr for none.
func gidAddr(g ib.GID) netip.Addr {
	if g.IsZero() {
		return netip.Addr{}
	}
	return g.Addr()
}

// describe says in a few words what a packet is.
func describe(s *lcore.Sight) string {
	from, to := ends(s)
	name := func(a netip.Addr) string {
		if !a.IsValid() {
			return "?"
		}
		return a.String()
	}
	text := name(from) + " > " + name(to)
	if x := s.IB; x != nil && x.Known {
		if !from.IsValid() && !to.IsValid() {
			text = fmt.Sprintf("LID %v > %v", x.SLID, x.DLID)
		}
		text += fmt.Sprintf(" QPN %v, peer %v", x.QPN, x.Peer)
	}
	return text
}

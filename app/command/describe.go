// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"net/netip"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
)

// endpoints returns the source and destination of a packet, IP addresses or GIDs, as far as its headers have them.
func endpoints(s *lcore.MirroredPacket) (from, to netip.Addr) {
	if s.IB != nil {
		return gidAddr(s.IB.SGID), gidAddr(s.IB.DGID)
	}
	if s.Side != lcore.RoCESide {
		return from, to
	}
	f, _ := frame.Open(s.Data) // a truncated frame still has its headers
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

// gidAddr returns a GID as an address, an IPv4-mapped one as IPv4; the zero Addr for the zero GID.
func gidAddr(g ib.GID) netip.Addr {
	if g.IsZero() {
		return netip.Addr{}
	}
	return g.Addr()
}

// describe returns a short description of a packet.
func describe(s *lcore.MirroredPacket) string {
	from, to := endpoints(s)
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

// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"

	"causeway/lcore/frame"
)

// handle takes one frame that a worker put aside.
func (l *Loop) handle(w Worker, o Odd) {
	f, fault := frame.Open(o.Data)
	if fault != "" {
		l.malformed(fault.Counter())
		if o.Held != nil { // cannot be: the worker took the same frame apart
			o.Held.Refuse(RefuseSource)
		}
		return
	}
	switch {
	case o.Held != nil:
		l.standInFor(f, o.Held)
	case f.Type == frame.TypeRoCEv1 || f.IsIP() && f.Protocol() == frame.ProtoUDP:
		l.handleMAD(w, o.Data)
	case f.Type == frame.TypeARP:
		l.handleARP(w, f)
		l.sidr.heard = true
	case f.IPv4 != nil && f.Protocol() == frame.ProtoIGMP:
		p, fault := frame.ParseIGMP(f.IPv4, f.Payload)
		l.handleMembership(f, p, fault)
	case f.IPv4 != nil && f.Protocol() == frame.ProtoICMP:
		l.handleEcho(w, f)
	case f.IPv6 != nil && f.Protocol() == frame.ProtoHopByHop:
		p, fault := frame.ParseMLD(f.IPv6, f.Payload)
		l.handleMembership(f, p, fault)
	case f.IPv6 != nil:
		l.handleICMPv6(w, f)
		l.sidr.heard = true
	default:
		l.count.NotForUs++
	}
}

// send has worker w send a frame. That it could not is counted, and whoever waits for it asks again.
func (l *Loop) send(w Worker, b []byte) bool {
	if err := w.Send(b); err != nil {
		l.count.SendFailed++
		return false
	}
	return true
}

// isOwn reports whether a is an address of the bridge.
func (l *Loop) isOwn(a netip.Addr) bool {
	for _, p := range l.cfg.Addresses {
		if p.Addr() == a {
			return true
		}
	}
	return a.IsLinkLocalUnicast() && a == l.cfg.MAC.LinkLocal()
}

// own returns the first address of the bridge's whose prefix fits, or else.
func (l *Loop) own(fits func(netip.Prefix) bool, otherwise netip.Addr) netip.Addr {
	for _, p := range l.cfg.Addresses {
		if fits(p) {
			return p.Addr()
		}
	}
	return otherwise
}

// answersFor reports whether the bridge answers for a: its own address, or that of a node on the other side.
func (l *Loop) answersFor(a netip.Addr) bool { return l.isOwn(a) || l.nodes[a] }

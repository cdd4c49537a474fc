// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"causeway/app/e2e/ibswitch/sma"
	"causeway/app/e2e/ibswitch/smp"
	"causeway/ibside/ib"
)

// effect is what is to be done after a Set of PortInfo, without the lock.
type effect struct {
	port  *Port
	what  sma.Effect // on its link
	event string
}

// relaySubnet relays a subnet management packet, or has the agent answer it.
func (s *Switch) relaySubnet(p *Port, packet []byte) {
	parsed, _ := ib.ParsePacket(packet)
	view, ok := smp.As(parsed.Payload) // not of the zero Packet that comes with a fault
	if !ok {
		p.drop(dropSMP)
		return
	}
	s.mu.Lock()
	e := s.manage(p, &parsed, view.Clone(), packet)
	present := e.port != nil && e.port.present()
	s.mu.Unlock()
	if e.event != "" {
		s.config.Event(e.event)
	}
	switch e.what {
	case sma.Retrain:
		e.port.link.Retrain()
	case sma.Disable, sma.Enable:
		e.port.link.Plug(present)
	}
}

// manage decides what becomes of an SMP. The caller holds the lock.
func (s *Switch) manage(p *Port, parsed *ib.Packet, m smp.SMP, packet []byte) effect {
	own := s.ports[0].Info.LID
	switch {
	case !p.Up():
		p.drop(dropLink)
	case parsed.DLID != ib.LIDPermissive && (own == 0 || parsed.DLID != own):
		s.subnetByLID(p, parsed.DLID, packet)
	case !m.Directed():
		if parsed.DLID == ib.LIDPermissive {
			p.drop(dropSMPRoute)
			break
		}
		return s.serveSubnet(p, parsed, m)
	default:
		return s.step(p, parsed, m, m.Route(p.number, uint8(len(s.ports)-1)))
	}
	return effect{}
}

// step takes an SMP with a directed route one step on.
func (s *Switch) step(p *Port, parsed *ib.Packet, m smp.SMP, step smp.Step) effect {
	switch step.Action {
	case smp.Deliver:
		return s.serveSubnet(p, parsed, m)
	case smp.Relay:
		s.subnetByPort(s.ports[step.Port], m.Packet(ib.LIDPermissive, ib.LIDPermissive))
	case smp.ByLID:
		if step.DLID == s.ports[0].Info.LID {
			return s.serveSubnet(p, parsed, m)
		}
		s.subnetByLID(p, step.DLID, m.Packet(s.ports[0].Info.LID, step.DLID))
	default:
		p.drop(dropSMPRoute)
	}
	return effect{}
}

// subnetByPort puts an SMP on a port's queue, whatever its state, if there is a link.
func (s *Switch) subnetByPort(to *Port, packet []byte) {
	if !to.Up() {
		to.drop(dropLink)
		return
	}
	to.put(packet, to.management)
}

// subnetByLID relays an SMP by the forwarding table.
func (s *Switch) subnetByLID(from *Port, dlid ib.LID, packet []byte) {
	to, why := s.lookUp(dlid)
	if why == kept && to.number == 0 {
		why = dropNoRoute // the switch does not write to itself
	}
	if why != kept {
		from.drop(why)
		return
	}
	s.subnetByPort(to, packet)
}

// serveSubnet has the agent take an SMP, and sends the response.
func (s *Switch) serveSubnet(p *Port, parsed *ib.Packet, m smp.SMP) effect {
	zero := s.ports[0]
	zero.sent.Add(1)
	if m.MAD().Method() == smp.MethodTrapRepress {
		s.repressed(m)
		return effect{}
	}
	var e effect
	if !smp.Serve(m, func(m smp.SMP, set bool) uint16 { return s.attribute(m, set, p, &e) }) {
		return e // a response, or a trap: there is no subnet manager here
	}
	zero.received.Add(1)
	if !m.Directed() {
		s.subnetByLID(zero, parsed.SLID, m.Packet(zero.Info.LID, parsed.SLID))
		return e
	}
	switch step := m.Return(uint8(len(s.ports) - 1)); step.Action {
	case smp.Deliver: // no hops: to where it came from
		s.subnetByPort(p, m.Packet(ib.LIDPermissive, ib.LIDPermissive))
	default:
		s.step(zero, parsed, m, step)
	}
	return e
}

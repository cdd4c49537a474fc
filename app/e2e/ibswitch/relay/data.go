// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"causeway/app/e2e/ibswitch/smp"
	"causeway/ibside/ib"
)

// relayData relays a packet that is not of subnet management.
func (s *Switch) relayData(p *Port, lrh ib.LRH, packet []byte) {
	pkey, payload := transport(lrh, packet)
	s.mu.RLock()
	own, why := false, kept
	switch {
	case p.Info.State != smp.Active:
		why = dropInState
	case p.Info.Enforcement&smp.EnforceInbound != 0 && !p.Accepts(pkey):
		why = dropPKeyIn
	case lrh.DLID().IsMulticast():
		why = s.toGroup(p, lrh.DLID(), packet, pkey, payload)
	default:
		var to *Port
		if to, why = s.lookUp(lrh.DLID()); why == kept {
			own = to.number == 0
			to.pass(packet, pkey, payload)
		}
	}
	s.mu.RUnlock()
	if why != kept {
		p.drop(why)
	}
	if own {
		s.serveGeneral(packet)
	}
}

// transport returns what a switch looks at behind the LRH and GRH: the P_Key, and how long the payload is.
func transport(lrh ib.LRH, packet []byte) (pkey ib.PKey, payload int) {
	b := packet[ib.LRHLen : len(packet)-ib.ICRCLen-ib.VCRCLen]
	if lrh.LNH() == ib.LNHGlobal {
		b = b[ib.GRHLen:]
	}
	bth, _ := ib.AsBTH(b)
	payload = len(b) - ib.BTHLen - bth.PadCnt()
	switch bth.OpCode() {
	case ib.OpUDSendOnly:
		payload -= ib.DETHLen
	case ib.OpUDSendOnlyImm:
		payload -= ib.DETHLen + ib.ImmDtLen
	}
	return bth.PKey(), payload
}

// lookUp returns the port that a unicast packet leaves by: port 0 for the switch's own LID. The caller holds the lock.
func (s *Switch) lookUp(dlid ib.LID) (*Port, drop) {
	if dlid != 0 && dlid == s.ports[0].Info.LID {
		return s.ports[0], kept
	}
	if int(dlid) >= linearCap {
		return nil, dropNoRoute
	}
	n := int(s.linear[dlid])
	if n == 0 || n >= len(s.ports) {
		return nil, dropNoRoute
	}
	return s.ports[n], kept
}

// toGroup relays a multicast to the ports of its group, but for the one that it came by. The caller holds the lock.
func (s *Switch) toGroup(from *Port, mlid ib.LID, packet []byte, pkey ib.PKey, payload int) drop {
	i := int(mlid - ib.MLIDFirst)
	if i >= multicastCap {
		return dropNoRoute
	}
	n := uint64(0)
	for _, to := range s.ports[1:] {
		if to != from && s.multicast[i].has(to.number) {
			to.pass(packet, pkey, payload)
			n++
		}
	}
	if n == 0 {
		return dropNoMember
	}
	from.copies.Add(n - 1)
	return kept
}

// pass puts a packet on the port's queue, if it may leave by this port. Port 0 takes it at once: its agents do the
// rest. The caller holds the lock.
func (p *Port) pass(packet []byte, pkey ib.PKey, payload int) {
	switch {
	case p.number == 0:
		p.countOut(packet)
	case p.Info.State != smp.Active:
		p.drop(dropOutState)
	case p.Info.Enforcement&smp.EnforceOutbound != 0 && !p.Passes(pkey):
		p.drop(dropPKeyOut)
	case payload > p.Info.NeighborMTU.Bytes():
		p.drop(dropMTU)
	case p.loses():
		p.drop(dropAsked)
	default:
		p.put(packet, p.data)
	}
}

// originate relays a packet of the switch's own agents, as if it came by port 0.
func (s *Switch) originate(packet []byte) {
	s.ports[0].Receive(packet)
}

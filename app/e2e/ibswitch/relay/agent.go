// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"encoding/binary"
	"fmt"

	"causeway/app/e2e/ibswitch/smp"
	"causeway/ibside/ib"
)

// attribute gets or sets an attribute of the switch, for a request that came by a port. The caller holds the lock.
func (s *Switch) attribute(m smp.SMP, set bool, by *Port, e *effect) uint16 {
	mod, data := m.MAD().AttrMod(), m.Data()
	switch m.MAD().AttrID() {
	case smp.AttrNodeInfo:
		if set {
			return smp.StatusBadAttribute
		}
		smp.NodeInfo{
			Type: smp.TypeSwitch, Ports: uint8(len(s.ports) - 1), Node: s.config.GUID, Port: s.config.GUID,
			PartitionCap: s.info.EnforcementCap, LocalPort: by.number,
		}.Put(data)
		return smp.StatusOK
	case smp.AttrNodeDescription:
		if set {
			return smp.StatusBadAttribute
		}
		smp.PutDescription(data, s.config.Description)
		return smp.StatusOK
	case smp.AttrSwitchInfo:
		return s.switchInfo(data, set)
	case smp.AttrPortInfo:
		return s.portInfo(mod, data, set, by, e)
	case smp.AttrPKeyTable:
		return s.onPort(mod>>16, func(p *Port) uint16 { return p.PKeyTable(mod&0xffff, data, set) })
	case smp.AttrGUIDInfo:
		return s.ports[0].GUIDInfo(mod, data, set)
	case smp.AttrSLToVL: // every SL is on VL 0
		return s.onPort(mod&0xff, func(*Port) uint16 { clear(data); return smp.StatusOK })
	case smp.AttrVLArbitration:
		return s.onPort(mod&0xffff, func(*Port) uint16 { clear(data); return smp.StatusOK })
	case smp.AttrLinearFDB:
		return s.linearBlock(mod, data, set)
	case smp.AttrMulticastFDB:
		return s.multicastBlock(mod, data, set)
	}
	return smp.StatusBadAttribute
}

// onPort does something with a port, if there is one of that number.
func (s *Switch) onPort(number uint32, f func(*Port) uint16) uint16 {
	if number >= uint32(len(s.ports)) {
		return smp.StatusBadValue
	}
	return f(s.ports[number])
}

func (s *Switch) portInfo(number uint32, data []byte, set bool, by *Port, e *effect) uint16 {
	return s.onPort(number, func(p *Port) uint16 {
		before := p.Info.State
		what, status := p.PortInfo(data, set, by.number)
		*e = effect{port: p, what: what}
		if now := p.Info.State; now != before {
			e.event = fmt.Sprintf("port %d %s %v, was %v: set", p.number, p.name, now, before)
		}
		return status
	})
}

func (s *Switch) switchInfo(data []byte, set bool) uint16 {
	status := smp.StatusOK
	if set {
		wanted := smp.ParseSwitchInfo(data)
		if wanted.LinearTop < linearCap {
			s.info.LinearTop = wanted.LinearTop
		} else {
			status = smp.StatusBadValue
		}
		s.info.DefaultPort, s.info.LifeTime = wanted.DefaultPort, wanted.LifeTime
		s.info.DefaultMulticastPrimary = wanted.DefaultMulticastPrimary
		s.info.DefaultMulticastNotPrimary = wanted.DefaultMulticastNotPrimary
		if wanted.PortStateChange { // written to clear it
			s.info.PortStateChange = false
		}
	}
	s.info.Put(data)
	return status
}

func (s *Switch) linearBlock(block uint32, data []byte, set bool) uint16 {
	if block >= linearCap/smp.LinearFDBBlock {
		return smp.StatusBadValue
	}
	entries := s.linear[block*smp.LinearFDBBlock:][:smp.LinearFDBBlock]
	if set {
		copy(entries, data)
	}
	copy(data, entries)
	return smp.StatusOK
}

// multicastBlock has 32 groups' ports of one position: in the modifier's upper four bits.
func (s *Switch) multicastBlock(mod uint32, data []byte, set bool) uint16 {
	block, position := mod&0x1ff, mod>>28
	if block >= multicastCap/smp.MulticastFDBBlock || 16*position >= uint32(len(s.ports)) {
		return smp.StatusBadValue
	}
	entries := s.multicast[block*smp.MulticastFDBBlock:][:smp.MulticastFDBBlock]
	for i := range entries {
		if set {
			entries[i][position] = binary.BigEndian.Uint16(data[2*i:])
		}
		binary.BigEndian.PutUint16(data[2*i:], entries[i][position])
	}
	return smp.StatusOK
}

// ownLIDs returns the switch's LID and the subnet manager's; false when it has not set both.
func (s *Switch) ownLIDs() (own, manager ib.LID, ok bool) {
	i := &s.ports[0].Info
	return i.LID, i.SMLID, i.LID.IsUnicast() && i.SMLID.IsUnicast()
}

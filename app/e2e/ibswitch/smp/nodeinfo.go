// SPDX-License-Identifier: Apache-2.0

package smp

import (
	"encoding/binary"

	"causeway/ibside/ib"
)

// Types of nodes.
const (
	TypeAdapter = 1
	TypeSwitch  = 2
)

// NodeInfo is §14.2.5.3, in host order.
type NodeInfo struct {
	Type         uint8
	Ports        uint8 // without port 0
	Node, Port   ib.GUID
	PartitionCap uint16
	LocalPort    uint8 // that the request came by
}

// Put writes the attribute.
func (n NodeInfo) Put(b []byte) {
	clear(b[:DataLen])
	b[0], b[1], b[2], b[3] = 1, 1, n.Type, n.Ports // of the base and of the class: version 1
	binary.BigEndian.PutUint64(b[4:], uint64(n.Node))
	binary.BigEndian.PutUint64(b[12:], uint64(n.Node))
	binary.BigEndian.PutUint64(b[20:], uint64(n.Port))
	binary.BigEndian.PutUint16(b[28:], n.PartitionCap)
	b[36] = n.LocalPort
}

// PutDescription writes a NodeDescription.
func PutDescription(b []byte, text string) {
	clear(b[:DataLen])
	copy(b[:DataLen], text)
}

// SwitchInfo is §14.2.5.4, in host order.
type SwitchInfo struct {
	LinearCap, MulticastCap    uint16
	LinearTop                  uint16
	DefaultPort                uint8
	DefaultMulticastPrimary    uint8
	DefaultMulticastNotPrimary uint8
	LifeTime                   uint8 // 5 bits
	PortStateChange            bool
	EnforcementCap             uint16 // P_Keys of a port
	Inbound, Outbound          bool   // P_Keys can be enforced
}

const (
	switchInfoChange   = 0x04
	switchInfoInbound  = 0x80
	switchInfoOutbound = 0x40
)

// Put writes the attribute.
func (s SwitchInfo) Put(b []byte) {
	clear(b[:DataLen])
	binary.BigEndian.PutUint16(b, s.LinearCap)
	binary.BigEndian.PutUint16(b[4:], s.MulticastCap)
	binary.BigEndian.PutUint16(b[6:], s.LinearTop)
	b[8], b[9], b[10] = s.DefaultPort, s.DefaultMulticastPrimary, s.DefaultMulticastNotPrimary
	b[11] = s.LifeTime<<3 | flag(s.PortStateChange, switchInfoChange)
	binary.BigEndian.PutUint16(b[14:], s.EnforcementCap)
	b[16] = flag(s.Inbound, switchInfoInbound) | flag(s.Outbound, switchInfoOutbound)
}

// ParseSwitchInfo reads the attribute, DataLen bytes.
func ParseSwitchInfo(b []byte) SwitchInfo {
	return SwitchInfo{
		LinearCap: binary.BigEndian.Uint16(b), MulticastCap: binary.BigEndian.Uint16(b[4:]), LinearTop: binary.BigEndian.Uint16(b[6:]),
		DefaultPort: b[8], DefaultMulticastPrimary: b[9], DefaultMulticastNotPrimary: b[10],
		LifeTime: b[11] >> 3, PortStateChange: b[11]&switchInfoChange != 0,
		EnforcementCap: binary.BigEndian.Uint16(b[14:]), Inbound: b[16]&switchInfoInbound != 0, Outbound: b[16]&switchInfoOutbound != 0,
	}
}

func flag(set bool, bit uint8) uint8 {
	if set {
		return bit
	}
	return 0
}

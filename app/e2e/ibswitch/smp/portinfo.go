// SPDX-License-Identifier: Apache-2.0

package smp

import (
	"encoding/binary"

	"causeway/ibside/ib"
)

// State is a PortState (§7.2.7); zero in a Set is no change.
type State uint8

// The states.
const (
	NoChange State = iota
	Down
	Init
	Armed
	Active
)

func (s State) String() string {
	if s > Active {
		return "?"
	}
	return [...]string{"no change", "down", "init", "armed", "active"}[s]
}

// PortPhysicalState; zero in a Set is no change.
const (
	PhysicalPolling  = 2
	PhysicalDisabled = 3
	PhysicalLinkUp   = 5
)

// PortInfo's CapabilityMask.
const (
	CapTrap             = 1 << 3
	CapSLMapping        = 1 << 6
	CapSystemImageGUID  = 1 << 11
	CapClientReregister = 1 << 25
)

// Bits of PortInfo.Enforcement.
const (
	EnforceInbound  = 8
	EnforceOutbound = 4
)

// PortInfo is §14.2.5.6, in host order.
type PortInfo struct {
	MKey                                      uint64
	Prefix                                    uint64
	LID, SMLID                                ib.LID
	Capabilities                              uint32
	MKeyLease                                 uint16
	LocalPort                                 uint8 // that the request came by
	WidthEnabled, WidthSupported, WidthActive uint8
	SpeedSupported, SpeedActive, SpeedEnabled uint8
	State                                     State
	Physical, DownDefault                     uint8
	MKeyProtect, LMC                          uint8
	NeighborMTU, MTUCap                       ib.MTU
	SMSL                                      ib.SL
	VLCap, OperationalVLs                     uint8
	VLHighLimit                               uint8
	StallAndLife                              uint8 // VLStallCount 3, HOQLife 5
	Enforcement                               uint8 // 4 bits: of P_Keys in and out, of raw packets in and out
	MKeyViolations                            uint16
	PKeyViolations, QKeyViolations            uint16
	GUIDCap                                   uint8
	Reregister                                bool
	SubnetTimeout, ResponseTime               uint8
	ErrorLimits                               uint8
}

// Put writes the attribute.
func (p PortInfo) Put(b []byte) {
	clear(b[:DataLen])
	binary.BigEndian.PutUint64(b, p.MKey)
	binary.BigEndian.PutUint64(b[8:], p.Prefix)
	binary.BigEndian.PutUint16(b[16:], uint16(p.LID))
	binary.BigEndian.PutUint16(b[18:], uint16(p.SMLID))
	binary.BigEndian.PutUint32(b[20:], p.Capabilities)
	binary.BigEndian.PutUint16(b[26:], p.MKeyLease)
	copy(b[28:], []byte{
		p.LocalPort, p.WidthEnabled, p.WidthSupported, p.WidthActive,
		p.SpeedSupported<<4 | uint8(p.State)&15,
		p.Physical<<4 | p.DownDefault&15,
		p.MKeyProtect<<6 | p.LMC&7,
		p.SpeedActive<<4 | p.SpeedEnabled&15,
		uint8(p.NeighborMTU)<<4 | uint8(p.SMSL)&15,
		p.VLCap << 4,
		p.VLHighLimit,
		0, 0, // no VL arbitration
		uint8(p.MTUCap) & 15,
		p.StallAndLife,
		p.OperationalVLs<<4 | p.Enforcement&15,
	})
	binary.BigEndian.PutUint16(b[44:], p.MKeyViolations)
	binary.BigEndian.PutUint16(b[46:], p.PKeyViolations)
	binary.BigEndian.PutUint16(b[48:], p.QKeyViolations)
	b[50] = p.GUIDCap
	b[51] = flag(p.Reregister, 0x80) | p.SubnetTimeout&31
	b[52] = p.ResponseTime & 31
	b[53] = p.ErrorLimits
}

// ParsePortInfo reads the attribute, DataLen bytes.
func ParsePortInfo(b []byte) PortInfo {
	return PortInfo{
		MKey: binary.BigEndian.Uint64(b), Prefix: binary.BigEndian.Uint64(b[8:]),
		LID: ib.LID(binary.BigEndian.Uint16(b[16:])), SMLID: ib.LID(binary.BigEndian.Uint16(b[18:])),
		Capabilities: binary.BigEndian.Uint32(b[20:]), MKeyLease: binary.BigEndian.Uint16(b[26:]),
		LocalPort: b[28], WidthEnabled: b[29], WidthSupported: b[30], WidthActive: b[31],
		SpeedSupported: b[32] >> 4, State: State(b[32] & 15),
		Physical: b[33] >> 4, DownDefault: b[33] & 15,
		MKeyProtect: b[34] >> 6, LMC: b[34] & 7,
		SpeedActive: b[35] >> 4, SpeedEnabled: b[35] & 15,
		NeighborMTU: ib.MTU(b[36] >> 4), SMSL: ib.SL(b[36] & 15),
		VLCap: b[37] >> 4, VLHighLimit: b[38], MTUCap: ib.MTU(b[41] & 15), StallAndLife: b[42],
		OperationalVLs: b[43] >> 4, Enforcement: b[43] & 15,
		MKeyViolations: binary.BigEndian.Uint16(b[44:]),
		PKeyViolations: binary.BigEndian.Uint16(b[46:]), QKeyViolations: binary.BigEndian.Uint16(b[48:]),
		GUIDCap: b[50], Reregister: b[51]&0x80 != 0, SubnetTimeout: b[51] & 31, ResponseTime: b[52] & 31, ErrorLimits: b[53],
	}
}

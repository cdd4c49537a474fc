// SPDX-License-Identifier: Apache-2.0

// Package sma is what the subnet management agents of a switch and of a channel adapter have in common: a port as a
// subnet manager sets it (IBTA vol 1 §14.2.5). Its owner has the lock.
package sma

import (
	"encoding/binary"
	"slices"

	"causeway/app/e2e/ibswitch/smp"
	"causeway/ibside/ib"
)

// Kind is what a port belongs to, which decides which fields of PortInfo it has.
type Kind uint8

// The kinds.
const (
	Adapter    Kind = iota // a channel adapter's port
	External               // a switch's port with a link
	Management             // a switch's port 0, not an enhanced one
)

const (
	// PKeys is the length of a port's P_Key table.
	PKeys = 16

	widths       = 3 // 1x and 4x
	width4x      = 2
	speeds       = 7 // SDR, DDR, QDR
	speedQDR     = 4
	onlyVL0      = 1
	responseTime = 16 // 4.096 us * 2^16

	linkLocalPrefix = 0xfe80000000000000
)

// Port is a port's attributes.
type Port struct {
	Info  smp.PortInfo
	PKeys [PKeys]ib.PKey
	GUIDs []ib.GUID // none: a port without an address of its own

	kind Kind
}

// NewPort returns a port of a kind, as it is before a subnet manager comes.
func NewPort(kind Kind, guid ib.GUID) Port {
	p := Port{kind: kind, Info: smp.PortInfo{
		State: smp.Down, Physical: smp.PhysicalPolling, DownDefault: smp.PhysicalPolling,
		WidthEnabled: widths, WidthSupported: widths, WidthActive: width4x,
		SpeedSupported: speeds, SpeedEnabled: speeds, SpeedActive: speedQDR,
		NeighborMTU: ib.MTU4096, MTUCap: ib.MTU4096, VLCap: onlyVL0, OperationalVLs: onlyVL0, ResponseTime: responseTime,
	}}
	p.PKeys[0] = ib.PKeyDefault
	switch kind {
	case Adapter:
		p.GUIDs = make([]ib.GUID, ib.GUIDsPerBlock)
		p.Info.Capabilities = smp.CapSLMapping | smp.CapSystemImageGUID | smp.CapClientReregister
	case Management:
		p.GUIDs = make([]ib.GUID, 1)
		p.Info.Capabilities = smp.CapTrap | smp.CapSLMapping | smp.CapSystemImageGUID
		p.Info.State, p.Info.Physical = smp.Active, smp.PhysicalLinkUp
	}
	if len(p.GUIDs) > 0 {
		p.GUIDs[0] = guid
		p.Info.GUIDCap = uint8(len(p.GUIDs))
		p.Info.Prefix = linkLocalPrefix
		p.Info.SMLID = ib.LIDPermissive
	}
	return p
}

// LinkChanged follows the link: one that comes up waits in Init for a subnet manager. It reports whether the state
// changed.
func (p *Port) LinkChanged(up bool) bool {
	state := smp.Down
	switch {
	case up:
		state, p.Info.Physical = smp.Init, smp.PhysicalLinkUp
	case p.Info.Physical != smp.PhysicalDisabled:
		p.Info.Physical = smp.PhysicalPolling
	}
	changed := p.Info.State != state
	p.Info.State = state
	return changed
}

// Up reports whether the link is.
func (p *Port) Up() bool { return p.Info.Physical == smp.PhysicalLinkUp }

// PKeyTable gets or sets a block of the P_Key table.
func (p *Port) PKeyTable(block uint32, data []byte, set bool) uint16 {
	if block != 0 {
		return smp.StatusBadValue
	}
	for i := 0; set && i < PKeys; i++ {
		p.PKeys[i] = ib.PKey(binary.BigEndian.Uint16(data[2*i:]))
	}
	clear(data)
	for i, k := range p.PKeys {
		binary.BigEndian.PutUint16(data[2*i:], uint16(k))
	}
	return smp.StatusOK
}

// GUIDInfo gets or sets a block of the GUID table. The first entry is the port's own, and stays.
func (p *Port) GUIDInfo(block uint32, data []byte, set bool) uint16 {
	if block != 0 || len(p.GUIDs) == 0 {
		return smp.StatusBadValue
	}
	for i := 1; set && i < len(p.GUIDs); i++ {
		p.GUIDs[i] = ib.GUID(binary.BigEndian.Uint64(data[8*i:]))
	}
	clear(data)
	for i, g := range p.GUIDs {
		binary.BigEndian.PutUint64(data[8*i:], uint64(g))
	}
	return smp.StatusOK
}

// Accepts reports whether a switch's port takes packets with a P_Key from its link: of a partition that it has an entry
// of. A limited member's packets have a limited P_Key, and so has its switch's port; whom it may send to is checked at
// the other end.
func (p *Port) Accepts(k ib.PKey) bool {
	return slices.ContainsFunc(p.PKeys[:], func(own ib.PKey) bool { return k.Valid() && own&0x7fff == k&0x7fff })
}

// Passes reports whether a switch's port sends packets with a P_Key to its link: those that the port there would take.
func (p *Port) Passes(k ib.PKey) bool {
	return slices.ContainsFunc(p.PKeys[:], func(own ib.PKey) bool { return own.Matches(k) })
}

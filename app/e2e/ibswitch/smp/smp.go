// SPDX-License-Identifier: Apache-2.0

// Package smp has the datagrams of subnet management: subnet management packets (SMPs), how a node passes on those with
// a directed route, and their attributes in host order. Sections are those of IBTA vol 1.
//
//	MAD header 24 | M_Key 8 | DrSLID 2 | DrDLID 2 | reserved 28 | attribute 64 | initial path 64 | return path 64
package smp

import (
	"encoding/binary"
	"slices"

	"causeway/ibside/ib"
)

// Attributes (§14.2.5).
const (
	AttrNotice          = 0x0002
	AttrNodeDescription = 0x0010
	AttrNodeInfo        = 0x0011
	AttrSwitchInfo      = 0x0012
	AttrGUIDInfo        = 0x0014
	AttrPortInfo        = 0x0015
	AttrPKeyTable       = 0x0016
	AttrSLToVL          = 0x0017
	AttrVLArbitration   = 0x0018
	AttrLinearFDB       = 0x0019
	AttrMulticastFDB    = 0x001b
)

// Methods that ib has not (§13.4.5).
const (
	MethodTrap         = 0x05
	MethodTrapRepress  = 0x07
	ClassVersion       = 1
	DataLen            = 64
	PKeysPerBlock      = 32
	LinearFDBBlock     = 64 // entries of a block
	MulticastFDBBlock  = 32
	MulticastPositions = 16 // of 16 ports each
)

// Status of a response (§13.4.7).
const (
	StatusOK           uint16 = 0x0000
	StatusBadVersion   uint16 = 0x0004
	StatusBadMethod    uint16 = 0x0008
	StatusBadAttribute uint16 = 0x000c // the method does not go with the attribute, or there is none
	StatusBadValue     uint16 = 0x001c // of the attribute or its modifier
)

const (
	offMethod      = 3
	offStatus      = 4
	offHopPointer  = 6
	offHopCount    = 7
	offDrSLID      = 32
	offDrDLID      = 34
	offData        = 64
	offInitialPath = 128
	offReturnPath  = 192

	directionBit = 0x80 // of the status: a directed-route SMP on its way back
	maxHops      = 63
)

// SMP is a view of a subnet management packet, in wire order. It aliases its MAD, and unlike other views it can be
// written to: each node on a directed route does.
type SMP []byte

// As returns b as an SMP; false when b is not a MAD's length, or of another class.
func As(b []byte) (SMP, bool) {
	if len(b) != ib.MADLen {
		return nil, false
	}
	m := SMP(b)
	if c := m.MAD().Class(); c != ib.ClassSubnLID && c != ib.ClassSubnDirected {
		return nil, false
	}
	return m, m.MAD().BaseVersion() == 1
}

// MAD returns the header.
func (m SMP) MAD() ib.MAD { return ib.MAD(m[:ib.MADHdrLen]) }

// Clone returns a copy that may be written to.
func (m SMP) Clone() SMP { return slices.Clone(m) }

// Directed reports whether the SMP has a directed route.
func (m SMP) Directed() bool { return m.MAD().Class() == ib.ClassSubnDirected }

// Returns reports whether a directed-route SMP is on its way back.
func (m SMP) Returns() bool { return m[offStatus]&directionBit != 0 }

// Data returns the attribute.
func (m SMP) Data() []byte { return m[offData : offData+DataLen] }

// HopPointer and HopCount say how far a directed-route SMP has come, and how far it goes.
func (m SMP) HopPointer() uint8 { return m[offHopPointer] }

// HopCount returns the number of hops.
func (m SMP) HopCount() uint8 { return m[offHopCount] }

// DrSLID and DrDLID are the ends of the directed part of a route, permissive when that is all of it.
func (m SMP) DrSLID() ib.LID { return ib.LID(binary.BigEndian.Uint16(m[offDrSLID:])) }

// DrDLID returns the destination of what follows the directed part.
func (m SMP) DrDLID() ib.LID { return ib.LID(binary.BigEndian.Uint16(m[offDrDLID:])) }

// respond turns a request into its response, in place; the attribute is the caller's.
func (m SMP) respond(status uint16) {
	m[offMethod] = ib.MethodGetResp
	binary.BigEndian.PutUint16(m[offStatus:], status)
	if m.Directed() {
		m[offStatus] |= directionBit
	}
}

// Attribute carries out a Get or Set of m's attribute, in place. It returns the status.
type Attribute func(m SMP, set bool) uint16

// Serve turns a request into its response, in place. It reports false when m is none, and so has none.
func Serve(m SMP, attribute Attribute) bool {
	h := m.MAD()
	switch {
	case h.IsResponse() || h.Method() == MethodTrap || h.Method() == MethodTrapRepress:
		return false
	case h.ClassVersion() != ClassVersion:
		m.respond(StatusBadVersion)
	case h.Method() != ib.MethodGet && h.Method() != ib.MethodSet:
		m.respond(StatusBadMethod)
	default:
		m.respond(attribute(m, h.Method() == ib.MethodSet))
	}
	return true
}

// Packet makes the packet of an SMP. Virtual lane 15 and queue pair 0 are for nothing else.
func (m SMP) Packet(slid, dlid ib.LID) []byte {
	p := ib.Packet{
		VL: ib.VLSubnetManagement, SLID: slid, DLID: dlid, OpCode: ib.OpUDSendOnly, PKey: ib.PKeyDefault, DestQP: ib.QP0, Payload: m,
	}
	return p.AppendTo(make([]byte, 0, ib.LRHLen+ib.BTHLen+ib.DETHLen+ib.ICRCLen+ib.VCRCLen+ib.MADLen))
}

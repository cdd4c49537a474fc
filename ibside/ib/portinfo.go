// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// PortInfoRecordLen is the length of a PortInfoRecord: the port's LID and number, and its PortInfo.
const PortInfoRecordLen = 68

// Components of a PortInfoRecord (IBTA vol 1 §15.2.5.3) that a query can name. The LID is any of the port's.
const (
	PortInfoLID uint64 = 1 << iota
	PortInfoPortNum
)

const (
	portInfoLID     = 0
	portInfoPortNum = 2
	portInfoPrefix  = 12 // from here on as in the PortInfo, 4 bytes later
	portInfoBaseLID = 20
	portInfoSMLID   = 22
	portInfoState   = 36 // speed 4, state 4
	portInfoLMC     = 38 // M_Key protection 2, reserved 3, LMC 3
	portInfoSMSL    = 40 // neighbour's MTU 4, SM's SL 4
)

// PortInfoRecord is a view of an SA PortInfoRecord (IBTA vol 1 §14.2.5.6, §15.2.5.3), in wire order, of which only some
// fields are read. It aliases its packet.
type PortInfoRecord []byte

// AsPortInfoRecord returns the first PortInfoRecordLen bytes of b; false when b is too short.
func AsPortInfoRecord(b []byte) (PortInfoRecord, bool) {
	if len(b) < PortInfoRecordLen {
		return nil, false
	}
	return PortInfoRecord(b[:PortInfoRecordLen:PortInfoRecordLen]), true
}

// LID returns the LID that the record was asked for by, or the base LID.
func (r PortInfoRecord) LID() LID { return LID(binary.BigEndian.Uint16(r[portInfoLID:])) }

// PortNum returns the number of the port at its node.
func (r PortInfoRecord) PortNum() uint8 { return r[portInfoPortNum] }

// Prefix returns the subnet prefix of the port's GIDs.
func (r PortInfoRecord) Prefix() uint64 { return binary.BigEndian.Uint64(r[portInfoPrefix:]) }

// BaseLID returns the first of the port's LIDs.
func (r PortInfoRecord) BaseLID() LID { return LID(binary.BigEndian.Uint16(r[portInfoBaseLID:])) }

// SMLID returns the LID of the master subnet manager.
func (r PortInfoRecord) SMLID() LID { return LID(binary.BigEndian.Uint16(r[portInfoSMLID:])) }

// State returns the state of the port; 4 is active.
func (r PortInfoRecord) State() uint8 { return r[portInfoState] & 0x0f }

// LMC returns how many low bits of the LID are free: the port has 1<<LMC LIDs.
func (r PortInfoRecord) LMC() uint8 { return r[portInfoLMC] & MaxLMC }

// SMSL returns the service level to send to the subnet manager with.
func (r PortInfoRecord) SMSL() SL { return SL(r[portInfoSMSL] & 0x0f) }

// PortInfoFields is what is read of a PortInfoRecord, in host order.
type PortInfoFields struct {
	LID     LID
	PortNum uint8
	Prefix  uint64
	BaseLID LID
	SMLID   LID
	State   uint8
	LMC     uint8
	SMSL    SL
}

// Fields returns all that PutPortInfoRecord writes.
func (r PortInfoRecord) Fields() PortInfoFields {
	return PortInfoFields{
		LID: r.LID(), PortNum: r.PortNum(), Prefix: r.Prefix(), BaseLID: r.BaseLID(), SMLID: r.SMLID(), State: r.State(),
		LMC: r.LMC(), SMSL: r.SMSL(),
	}
}

// PutPortInfoRecord writes f into the first PortInfoRecordLen bytes of b, all other fields zero, and returns the view.
func PutPortInfoRecord(b []byte, f PortInfoFields) PortInfoRecord {
	r := PortInfoRecord(b[:PortInfoRecordLen:PortInfoRecordLen])
	clear(r)
	binary.BigEndian.PutUint16(r[portInfoLID:], uint16(f.LID))
	r[portInfoPortNum] = f.PortNum
	binary.BigEndian.PutUint64(r[portInfoPrefix:], f.Prefix)
	binary.BigEndian.PutUint16(r[portInfoBaseLID:], uint16(f.BaseLID))
	binary.BigEndian.PutUint16(r[portInfoSMLID:], uint16(f.SMLID))
	r[portInfoState] = f.State & 0x0f
	r[portInfoLMC] = f.LMC & MaxLMC
	r[portInfoSMSL] = uint8(f.SMSL) & 0x0f
	return r
}

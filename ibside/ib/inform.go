// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// InformInfoLen is the length of an InformInfo.
const InformInfoLen = 36

// Traps of the subnet manager, for subscriptions (IBTA vol 1 §14.4.10).
const (
	TrapGIDInService    = 64
	TrapGIDOutOfService = 65
	TrapGroupCreated    = 66
	TrapGroupDeleted    = 67
	TrapLinkState       = 128 // of one of a switch's links
	TrapCapability      = 144 // a port's capability mask or description changed
)

// Wildcards of an InformInfo.
const (
	InformAllLIDs      LID    = 0xffff
	InformAllTypes     uint16 = 0xffff
	InformAllProducers uint32 = 0xffffff
	ProducerSM         uint32 = 4
)

const (
	informGID       = 0
	informLIDBegin  = 16
	informLIDEnd    = 18 // then reserved 16
	informGeneric   = 22
	informSubscribe = 23
	informType      = 24
	informTrap      = 26
	informQPN       = 28 // QPN 24, reserved 3, RespTime 5
	informProducer  = 32 // reserved 8, producer type 24
)

// InformInfo is a view of a subscription to notices (IBTA vol 1 §13.4.8.3), in wire order. It aliases its packet.
type InformInfo []byte

// AsInformInfo returns the first InformInfoLen bytes of b; false when b is too short.
func AsInformInfo(b []byte) (InformInfo, bool) {
	if len(b) < InformInfoLen {
		return nil, false
	}
	return InformInfo(b[:InformInfoLen:InformInfoLen]), true
}

// GID returns the port whose notices are wanted; zero: those of the LID range.
func (h InformInfo) GID() GID { return GID(h[informGID:informLIDBegin]) }

// LIDBegin returns the first LID of the range, InformAllLIDs for all.
func (h InformInfo) LIDBegin() LID { return LID(binary.BigEndian.Uint16(h[informLIDBegin:])) }

// LIDEnd returns the last LID of the range.
func (h InformInfo) LIDEnd() LID { return LID(binary.BigEndian.Uint16(h[informLIDEnd:])) }

// IsGeneric reports whether Trap is one of the standard's.
func (h InformInfo) IsGeneric() bool { return h[informGeneric] == 1 }

// Subscribe reports whether h begins a subscription; otherwise it ends one.
func (h InformInfo) Subscribe() bool { return h[informSubscribe] == 1 }

// Type returns the notice type, InformAllTypes for all.
func (h InformInfo) Type() uint16 { return binary.BigEndian.Uint16(h[informType:]) }

// Trap returns the trap number.
func (h InformInfo) Trap() uint16 { return binary.BigEndian.Uint16(h[informTrap:]) }

// QPN returns where the notices are wanted.
func (h InformInfo) QPN() QPN { return QPN(binary.BigEndian.Uint32(h[informQPN:]) >> 8) }

// RespTime returns how long an answer may take: 4.096 µs times 2 to this.
func (h InformInfo) RespTime() uint8 { return h[informQPN+3] & 0x1f }

// Producer returns the type of node that sends the notices, InformAllProducers for all.
func (h InformInfo) Producer() uint32 { return binary.BigEndian.Uint32(h[informProducer:]) & 0xffffff }

// Fields returns all fields.
func (h InformInfo) Fields() InformInfoFields {
	return InformInfoFields{
		GID: h.GID(), LIDBegin: h.LIDBegin(), LIDEnd: h.LIDEnd(), IsGeneric: h.IsGeneric(), Subscribe: h.Subscribe(),
		Type: h.Type(), Trap: h.Trap(), QPN: h.QPN(), RespTime: h.RespTime(), Producer: h.Producer(),
	}
}

// InformInfoFields are the fields of an InformInfo. Numbers are cut to their bits.
type InformInfoFields struct {
	GID                  GID
	LIDBegin, LIDEnd     LID
	IsGeneric, Subscribe bool
	Type, Trap           uint16
	QPN                  QPN
	RespTime             uint8
	Producer             uint32
}

// PutInformInfo writes an InformInfo to b, which has room for it.
func PutInformInfo(b []byte, f InformInfoFields) InformInfo {
	h := InformInfo(b[:InformInfoLen:InformInfoLen])
	clear(h)
	copy(h[informGID:], f.GID[:])
	binary.BigEndian.PutUint16(h[informLIDBegin:], uint16(f.LIDBegin))
	binary.BigEndian.PutUint16(h[informLIDEnd:], uint16(f.LIDEnd))
	h[informGeneric], h[informSubscribe] = bit(f.IsGeneric, 1), bit(f.Subscribe, 1)
	binary.BigEndian.PutUint16(h[informType:], f.Type)
	binary.BigEndian.PutUint16(h[informTrap:], f.Trap)
	binary.BigEndian.PutUint32(h[informQPN:], uint32(f.QPN)<<8|uint32(f.RespTime&0x1f))
	binary.BigEndian.PutUint32(h[informProducer:], f.Producer&0xffffff)
	return h
}

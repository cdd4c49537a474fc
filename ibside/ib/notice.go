// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// Lengths of a Notice, and of the part of it that each trap fills in its own way.
const (
	NoticeLen     = 80
	NoticeDataLen = 54
)

const (
	noticeType      = 0 // generic 1, type 7
	noticeProducer  = 1 // producer type 24
	noticeTrap      = 4
	noticeIssuerLID = 6
	noticeCount     = 8 // toggle 1, count 15
	noticeData      = 10
	noticeIssuerGID = 64
)

const (
	noticeDataGID     = 6 // traps 64 to 67
	noticeDataSwitch  = 0 // trap 128
	noticeDataPortLID = 2 // trap 144
)

// Notice is a view of a notice (IBTA vol 1 §13.4.8.2), in wire order, as the SA reports it: with the GID of the issuer.
// It aliases its packet.
type Notice []byte

// AsNotice returns the first NoticeLen bytes of b; false when b is too short.
func AsNotice(b []byte) (Notice, bool) {
	if len(b) < NoticeLen {
		return nil, false
	}
	return Notice(b[:NoticeLen:NoticeLen]), true
}

// IsGeneric reports whether Trap is one of the standard's.
func (n Notice) IsGeneric() bool { return n[noticeType]&0x80 != 0 }

// Type returns the severity of the notice, 7 bits.
func (n Notice) Type() uint8 { return n[noticeType] & 0x7f }

// Producer returns the type of node that gave the notice, or the vendor, 24 bits.
func (n Notice) Producer() uint32 { return binary.BigEndian.Uint32(n[noticeType:]) & 0xffffff }

// Trap returns the trap number.
func (n Notice) Trap() uint16 { return binary.BigEndian.Uint16(n[noticeTrap:]) }

// IssuerLID returns the port that gave the notice.
func (n Notice) IssuerLID() LID { return LID(binary.BigEndian.Uint16(n[noticeIssuerLID:])) }

// Toggle returns the bit that alternates between a notice and the next.
func (n Notice) Toggle() bool { return n[noticeCount]&0x80 != 0 }

// Count returns how many notices wait at the issuer, 15 bits.
func (n Notice) Count() uint16 { return binary.BigEndian.Uint16(n[noticeCount:]) & 0x7fff }

// Data returns the details of the trap.
func (n Notice) Data() [NoticeDataLen]byte { return [NoticeDataLen]byte(n[noticeData:]) }

// IssuerGID returns the port that gave the notice.
func (n Notice) IssuerGID() GID { return GID(n[noticeIssuerGID:]) }

// NoticeFields is a Notice in host order; Data stays as it is on the wire.
type NoticeFields struct {
	IsGeneric bool
	Type      uint8
	Producer  uint32
	Trap      uint16
	IssuerLID LID
	Toggle    bool
	Count     uint16
	Data      [NoticeDataLen]byte
	IssuerGID GID
}

// GID returns the port that joined or left the subnet (traps 64, 65), or the group that was created or deleted (66,
// 67); zero with other traps.
func (f *NoticeFields) GID() GID {
	if !f.IsGeneric || f.Trap < TrapGIDInService || f.Trap > TrapGroupDeleted {
		return GID{}
	}
	return GID(f.Data[noticeDataGID:])
}

// LID returns the switch with a link that changed (trap 128), or the port whose capabilities changed (144); zero with
// other traps.
func (f *NoticeFields) LID() LID {
	switch {
	case f.IsGeneric && f.Trap == TrapLinkState:
		return LID(binary.BigEndian.Uint16(f.Data[noticeDataSwitch:]))
	case f.IsGeneric && f.Trap == TrapCapability:
		return LID(binary.BigEndian.Uint16(f.Data[noticeDataPortLID:]))
	}
	return 0
}

// Fields returns all that PutNotice writes.
func (n Notice) Fields() NoticeFields {
	return NoticeFields{
		IsGeneric: n.IsGeneric(), Type: n.Type(), Producer: n.Producer(), Trap: n.Trap(), IssuerLID: n.IssuerLID(),
		Toggle: n.Toggle(), Count: n.Count(), Data: n.Data(), IssuerGID: n.IssuerGID(),
	}
}

// PutNotice writes f into the first NoticeLen bytes of b and returns the view. Too large values lose their upper bits.
func PutNotice(b []byte, f NoticeFields) Notice {
	n := Notice(b[:NoticeLen:NoticeLen])
	binary.BigEndian.PutUint32(n[noticeType:], f.Producer&0xffffff)
	n[noticeType] = bit(f.IsGeneric, 0x80) | f.Type&0x7f
	binary.BigEndian.PutUint16(n[noticeTrap:], f.Trap)
	binary.BigEndian.PutUint16(n[noticeIssuerLID:], uint16(f.IssuerLID))
	binary.BigEndian.PutUint16(n[noticeCount:], f.Count&0x7fff)
	n[noticeCount] |= bit(f.Toggle, 0x80)
	copy(n[noticeData:], f.Data[:])
	copy(n[noticeIssuerGID:], f.IssuerGID[:])
	return n
}

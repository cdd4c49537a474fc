// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// BTHLen is the length of a Base Transport Header.
const BTHLen = 12

// The opcodes the bridge knows (IBTA vol 1 §9.2, Annex A10.3.2 and A17.9.3).
const (
	OpUDSendOnly    = 0x64
	OpUDSendOnlyImm = 0x65
	OpCN            = 0x80 // congestion notification of InfiniBand
	OpCNP           = 0x81 // congestion notification packet of RoCEv2
)

const (
	bthOpCode = 0
	bthFlags  = 1 // SE 1, M 1, PadCnt 2, TVer 4
	bthPKey   = 2
	bthECN    = 4 // FECN 1, BECN 1, reserved 6: none of them in the ICRC
	bthDestQP = 4 // the lower 24 bits of this word
	bthPSN    = 8 // A 1, reserved 7, PSN 24
	mask24    = 1<<24 - 1
)

// BTH is a view of a Base Transport Header (IBTA vol 1 §9.2), in wire order. It aliases its packet.
type BTH []byte

// AsBTH returns the first BTHLen bytes of b as a BTH; false when b is too short.
func AsBTH(b []byte) (BTH, bool) {
	if len(b) < BTHLen {
		return nil, false
	}
	return BTH(b[:BTHLen:BTHLen]), true
}

// OpCode returns the opcode; its top three bits are the transport, 011 being unreliable datagram.
func (h BTH) OpCode() uint8 { return h[bthOpCode] }

// Solicited returns SE, the solicited event bit.
func (h BTH) Solicited() bool { return h[bthFlags]&0x80 != 0 }

// PadCnt returns how many bytes of pad are between payload and ICRC, 0 to 3.
func (h BTH) PadCnt() int { return int(h[bthFlags] >> 4 & 3) }

// TVer returns the transport version; 0 is the only one there is.
func (h BTH) TVer() uint8 { return h[bthFlags] & 0x0f }

// PKey returns the partition key.
func (h BTH) PKey() PKey { return PKey(binary.BigEndian.Uint16(h[bthPKey:])) }

// FECN reports whether the packet met congestion on its way.
func (h BTH) FECN() bool { return h[bthECN]&0x80 != 0 }

// BECN reports whether the packet's receiver is told that its own packets meet congestion.
func (h BTH) BECN() bool { return h[bthECN]&0x40 != 0 }

// DestQP returns the destination QPN.
func (h BTH) DestQP() QPN { return QPN(binary.BigEndian.Uint32(h[bthDestQP:]) & mask24) }

// PSN returns the packet sequence number. Nothing checks it in a datagram.
func (h BTH) PSN() uint32 { return binary.BigEndian.Uint32(h[bthPSN:]) & mask24 }

// BTHFields is a BTH in host order. TVer is always written 0.
type BTHFields struct {
	OpCode     uint8
	Solicited  bool
	MigReq     bool
	PadCnt     int
	PKey       PKey
	FECN, BECN bool
	DestQP     QPN
	AckReq     bool
	PSN        uint32
}

// PutBTH writes f into the first BTHLen bytes of b and returns the view. Too large values lose their upper bits.
func PutBTH(b []byte, f BTHFields) BTH {
	h := BTH(b[:BTHLen:BTHLen])
	h[bthOpCode] = f.OpCode
	h[bthFlags] = bit(f.Solicited, 0x80) | bit(f.MigReq, 0x40) | uint8(f.PadCnt&3)<<4
	binary.BigEndian.PutUint16(h[bthPKey:], uint16(f.PKey))
	binary.BigEndian.PutUint32(h[bthDestQP:], uint32(f.DestQP)&mask24)
	h[bthECN] = bit(f.FECN, 0x80) | bit(f.BECN, 0x40)
	binary.BigEndian.PutUint32(h[bthPSN:], f.PSN&mask24)
	h[bthPSN] = bit(f.AckReq, 0x80)
	return h
}

func bit(set bool, b uint8) uint8 {
	if set {
		return b
	}
	return 0
}

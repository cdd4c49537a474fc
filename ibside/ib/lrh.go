// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// LRHLen is the length of a Local Route Header.
const LRHLen = 8

// What follows the LRH (IBTA vol 1 §7.7).
const (
	LNHLocal  = 2 // a BTH
	LNHGlobal = 3 // a GRH, then a BTH
)

// VLSubnetManagement is the virtual lane of subnet management packets; no data goes there.
const VLSubnetManagement = 15

const (
	lrhVL     = 0 // VL 4, LVer 4
	lrhSL     = 1 // SL 4, reserved 2, LNH 2
	lrhDLID   = 2
	lrhPktLen = 4 // reserved 5, PktLen 11
	lrhSLID   = 6
)

// LRH is a view of a Local Route Header (IBTA vol 1 §7.7), in wire order. It aliases its packet.
type LRH []byte

// AsLRH returns the first LRHLen bytes of b as an LRH; false when b is too short.
func AsLRH(b []byte) (LRH, bool) {
	if len(b) < LRHLen {
		return nil, false
	}
	return LRH(b[:LRHLen:LRHLen]), true
}

// VL returns the virtual lane; each hop chooses it anew from the SL.
func (h LRH) VL() uint8 { return h[lrhVL] >> 4 }

// LVer returns the link version; 0 is the only one there is.
func (h LRH) LVer() uint8 { return h[lrhVL] & 0x0f }

// SL returns the service level.
func (h LRH) SL() SL { return SL(h[lrhSL] >> 4) }

// LNH returns what follows: one of the LNH constants.
func (h LRH) LNH() uint8 { return h[lrhSL] & 3 }

// DLID returns the destination LID.
func (h LRH) DLID() LID { return LID(binary.BigEndian.Uint16(h[lrhDLID:])) }

// SLID returns the source LID.
func (h LRH) SLID() LID { return LID(binary.BigEndian.Uint16(h[lrhSLID:])) }

// PktLenWords returns the length in 4-byte words, from the LRH to the end of the ICRC; the VCRC is not counted.
func (h LRH) PktLenWords() int { return int(binary.BigEndian.Uint16(h[lrhPktLen:]) & 0x7ff) }

// LRHFields is an LRH in host order. LVer is always written 0.
type LRHFields struct {
	VL          uint8
	SL          SL
	LNH         uint8
	DLID, SLID  LID
	PktLenWords int
}

// PutLRH writes f into the first LRHLen bytes of b and returns the view. Too large values lose their upper bits.
func PutLRH(b []byte, f LRHFields) LRH {
	h := LRH(b[:LRHLen:LRHLen])
	h[lrhVL] = f.VL << 4
	h[lrhSL] = uint8(f.SL)<<4 | f.LNH&3
	binary.BigEndian.PutUint16(h[lrhDLID:], uint16(f.DLID))
	binary.BigEndian.PutUint16(h[lrhPktLen:], uint16(f.PktLenWords)&0x7ff)
	binary.BigEndian.PutUint16(h[lrhSLID:], uint16(f.SLID))
	return h
}

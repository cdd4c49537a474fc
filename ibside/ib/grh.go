// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// GRHLen is the length of a Global Route Header.
const GRHLen = 40

const (
	grhIPVer      = 6    // the header has the shape of IPv6
	grhNxtHdrIBTA = 0x1b // a BTH follows
)

const (
	grhWord0   = 0 // IPVer 4, TClass 8, FlowLabel 20
	grhPayLen  = 4
	grhNxtHdr  = 6
	grhHopLmt  = 7
	grhSGID    = 8
	grhDGID    = 24
	flowLabels = 1<<20 - 1
)

// GRH is a view of a Global Route Header (IBTA vol 1 §8.3), in wire order. It aliases its packet.
// RoCEv1 begins with the same header (Annex A16).
type GRH []byte

// AsGRH returns the first GRHLen bytes of b as a GRH; false when b is too short.
func AsGRH(b []byte) (GRH, bool) {
	if len(b) < GRHLen {
		return nil, false
	}
	return GRH(b[:GRHLen:GRHLen]), true
}

func (h GRH) word0() uint32 { return binary.BigEndian.Uint32(h[grhWord0:]) }

// IPVer returns the version; anything but 6 is not a GRH.
func (h GRH) IPVer() uint8 { return h[grhWord0] >> 4 }

// TClass returns the traffic class: DSCP in the upper six bits, ECN in the lower two.
func (h GRH) TClass() uint8 { return uint8(h.word0() >> 20) }

// FlowLabel returns the 20-bit flow label.
func (h GRH) FlowLabel() uint32 { return h.word0() & flowLabels }

// PayLen returns the bytes from the BTH to the end of the ICRC.
func (h GRH) PayLen() int { return int(binary.BigEndian.Uint16(h[grhPayLen:])) }

// NxtHdr returns what follows; 0x1B is a BTH.
func (h GRH) NxtHdr() uint8 { return h[grhNxtHdr] }

// HopLimit returns HopLmt. 0 and 1 keep the packet in its subnet, and multicast really is sent with 0:
// it must not become an IPv4 TTL as it is.
func (h GRH) HopLimit() uint8 { return h[grhHopLmt] }

// SGID returns the source GID.
func (h GRH) SGID() GID { return GID(h[grhSGID:grhDGID]) }

// DGID returns the destination GID.
func (h GRH) DGID() GID { return GID(h[grhDGID:GRHLen]) }

// IsBTHNext reports whether h is a version 6 header that a BTH follows.
func (h GRH) IsBTHNext() bool { return h.IPVer() == grhIPVer && h.NxtHdr() == grhNxtHdrIBTA }

// GRHFields is a GRH in host order. IPVer is always written 6 and NxtHdr 0x1B.
type GRHFields struct {
	TClass     uint8
	FlowLabel  uint32
	PayLen     int // bytes, BTH to ICRC inclusive
	HopLimit   uint8
	SGID, DGID GID
}

// Fields returns all that PutGRH writes.
func (h GRH) Fields() GRHFields {
	return GRHFields{
		TClass: h.TClass(), FlowLabel: h.FlowLabel(), PayLen: h.PayLen(), HopLimit: h.HopLimit(),
		SGID: h.SGID(), DGID: h.DGID(),
	}
}

// PutGRH writes f into the first GRHLen bytes of b and returns the view. Too large values lose their upper bits.
func PutGRH(b []byte, f GRHFields) GRH {
	h := GRH(b[:GRHLen:GRHLen])
	binary.BigEndian.PutUint32(h[grhWord0:], grhIPVer<<28|uint32(f.TClass)<<20|f.FlowLabel&flowLabels)
	binary.BigEndian.PutUint16(h[grhPayLen:], uint16(f.PayLen))
	h[grhNxtHdr] = grhNxtHdrIBTA
	h[grhHopLmt] = f.HopLimit
	copy(h[grhSGID:], f.SGID[:])
	copy(h[grhDGID:], f.DGID[:])
	return h
}

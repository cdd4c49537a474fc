// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"encoding/binary"
	"time"
)

// LinkTypeERF is the pcap link type of captures whose packets are ERF records. InfiniBand has one of its own, 247, but
// Wireshark cannot read it; ibdump too writes ERF.
const LinkTypeERF = 197

const (
	erfHdrLen = 16

	erfTypeIB     = 21 // LRH to VCRC
	erfFlagVarLen = 0x04

	// erfMaxPacket is what PktLen of the LRH can say, and the VCRC.
	erfMaxPacket = 4*0x7ff + VCRCLen
)

const (
	erfTime  = 0 // 2^-32 s since 1970, little-endian
	erfType  = 8
	erfFlags = 9
	erfRLen  = 10
	erfWLen  = 14 // after 16 bits of loss counter
)

// AppendERF appends one ERF record (Endace Extensible Record Format, type 21) with ibPacket, LRH to VCRC, captured at
// t, to b, and returns the longer slice. A packet larger than InfiniBand allows is truncated.
func AppendERF(b []byte, t time.Time, ibPacket []byte) []byte {
	ibPacket = ibPacket[:min(len(ibPacket), erfMaxPacket)]
	pad := -len(ibPacket) & 7 // a record is a multiple of 8 bytes long
	var h [erfHdrLen]byte
	// Rounded up, so that a reader, who rounds down, gets the same nanosecond.
	fraction := (uint64(t.Nanosecond())<<32 + 1e9 - 1) / 1e9
	binary.LittleEndian.PutUint64(h[erfTime:], uint64(t.Unix())<<32|fraction)
	h[erfType] = erfTypeIB
	h[erfFlags] = erfFlagVarLen
	binary.BigEndian.PutUint16(h[erfRLen:], uint16(erfHdrLen+len(ibPacket)+pad))
	binary.BigEndian.PutUint16(h[erfWLen:], uint16(len(ibPacket)))
	b = append(b, h[:]...)
	b = append(b, ibPacket...)
	return append(b, make([]byte, pad)...)
}

// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"encoding/binary"
	"hash/crc32"
)

// Lengths of the two CRC fields.
const (
	ICRCLen = 4
	VCRCLen = 2
)

// absentLRH is the eight bytes of ones with which a RoCE ICRC begins, instead of an LRH (IBTA vol 1 Annex A16, A17).
var absentLRH = crc32.ChecksumIEEE([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})

// maskedHeaders is how many leading bytes any rule below may touch: LRH, GRH and five bytes of BTH.
const maskedHeaders = LRHLen + GRHLen + 5

// A mask forces bits of one header byte to ones before they are fed to the CRC: the fields a switch or
// router may change on the way.
type mask struct {
	off  int
	bits byte
}

// The variant fields of each encapsulation (IBTA vol 1 §7.8.1 and Annexes A16, A17). The whole fifth byte
// of the BTH is one: FECN, BECN and the six reserved bits.
var (
	variantLocal = []mask{{0, 0xf0}, {LRHLen + 4, 0xff}} // VL; BTH

	variantGlobal = []mask{ // LRH entire; TClass and FlowLabel; HopLmt; BTH
		{0, 0xff}, {1, 0xff}, {2, 0xff}, {3, 0xff}, {4, 0xff}, {5, 0xff}, {6, 0xff}, {7, 0xff},
		{8, 0x0f}, {9, 0xff}, {10, 0xff}, {11, 0xff}, {15, 0xff}, {LRHLen + GRHLen + 4, 0xff},
	}

	variantRoCEv1 = []mask{{0, 0x0f}, {1, 0xff}, {2, 0xff}, {3, 0xff}, {7, 0xff}, {GRHLen + 4, 0xff}}

	variantIPv4 = []mask{ // TOS; TTL; header checksum; UDP checksum; BTH
		{1, 0xff}, {8, 0xff}, {10, 0xff}, {11, 0xff}, {26, 0xff}, {27, 0xff}, {32, 0xff},
	}

	variantIPv6 = []mask{ // traffic class and flow label; hop limit; UDP checksum; BTH
		{0, 0x0f}, {1, 0xff}, {2, 0xff}, {3, 0xff}, {7, 0xff}, {46, 0xff}, {47, 0xff}, {52, 0xff},
	}
)

// ICRCIB returns the invariant CRC of a native packet, from the first byte of its LRH to its last pad byte.
// The LNH says whether the LRH is covered (local) or all masked (global).
//
// The ICRC functions never panic and change nothing; the result for bytes too short to be a packet is undefined. The
// CRC-32 is that of IEEE 802.3, stored least significant byte first: write it with PutICRC.
func ICRCIB(lrh []byte) uint32 {
	if len(lrh) > 1 && lrh[1]&3 == LNHGlobal {
		return maskedCRC(0, lrh, variantGlobal)
	}
	return maskedCRC(0, lrh, variantLocal)
}

// ICRCRoCEv1 returns the ICRC of a RoCEv1 packet, from the first byte of its GRH to its last pad byte.
func ICRCRoCEv1(grh []byte) uint32 { return maskedCRC(absentLRH, grh, variantRoCEv1) }

// ICRCRoCEv2 returns the ICRC of a RoCEv2 packet, from the first byte of its IP header to its last pad byte.
// An IPv4 header is taken to be 20 bytes long: RoCEv2 allows no options.
func ICRCRoCEv2(ip []byte) uint32 {
	if len(ip) > 0 && ip[0]>>4 == 4 {
		return maskedCRC(absentLRH, ip, variantIPv4)
	}
	return maskedCRC(absentLRH, ip, variantIPv6)
}

func maskedCRC(crc uint32, p []byte, masks []mask) uint32 {
	var head [maskedHeaders]byte
	n := copy(head[:], p)
	for _, m := range masks {
		if m.off < n {
			head[m.off] |= m.bits
		}
	}
	crc = crc32.Update(crc, crc32.IEEETable, head[:n])
	return crc32.Update(crc, crc32.IEEETable, p[n:])
}

// PutICRC writes icrc into the first ICRCLen bytes of b.
func PutICRC(b []byte, icrc uint32) { binary.LittleEndian.PutUint32(b, icrc) }

// ICRCField reads the ICRC from the first ICRCLen bytes of b; false when b is too short.
func ICRCField(b []byte) (uint32, bool) {
	if len(b) < ICRCLen {
		return 0, false
	}
	return binary.LittleEndian.Uint32(b), true
}

// vcrcTables are for the reflected form of polynomial 0x100B (IBTA vol 1 §7.8.2): table k has what each byte contributes
// when k more bytes follow it, so that sixteen bytes are looked up independently of each other.
var vcrcTables = func() (t [16][256]uint16) {
	for i := range t[0] {
		c := uint16(i)
		for range 8 {
			c = c>>1 ^ c&1*0xd008
		}
		t[0][i] = c
	}
	for k := range t[1:] {
		for i, c := range t[k] {
			t[k+1][i] = c>>8 ^ t[0][byte(c)]
		}
	}
	return t
}()

// VCRC returns the variant CRC over all of b, from the LRH to the end of the ICRC, unmasked: every hop checks
// it and computes it again. It is stored least significant byte first: write it with PutVCRC.
func VCRC(b []byte) uint16 {
	c, t := uint16(0xffff), &vcrcTables
	for ; len(b) >= 16; b = b[16:] {
		x, y := binary.LittleEndian.Uint64(b)^uint64(c), binary.LittleEndian.Uint64(b[8:])
		c = t[15][byte(x)] ^ t[14][byte(x>>8)] ^ t[13][byte(x>>16)] ^ t[12][byte(x>>24)] ^
			t[11][byte(x>>32)] ^ t[10][byte(x>>40)] ^ t[9][byte(x>>48)] ^ t[8][byte(x>>56)] ^
			t[7][byte(y)] ^ t[6][byte(y>>8)] ^ t[5][byte(y>>16)] ^ t[4][byte(y>>24)] ^
			t[3][byte(y>>32)] ^ t[2][byte(y>>40)] ^ t[1][byte(y>>48)] ^ t[0][byte(y>>56)]
	}
	for _, x := range b {
		c = c>>8 ^ t[0][byte(c)^x]
	}
	return ^c
}

// PutVCRC writes vcrc into the first VCRCLen bytes of b.
func PutVCRC(b []byte, vcrc uint16) { binary.LittleEndian.PutUint16(b, vcrc) }

// VCRCField reads the VCRC from the first VCRCLen bytes of b; false when b is too short.
func VCRCField(b []byte) (uint16, bool) {
	if len(b) < VCRCLen {
		return 0, false
	}
	return binary.LittleEndian.Uint16(b), true
}

// PutCRCs computes and writes both CRCs of the native packet b, LRH to VCRC inclusive, and does not check its
// headers. It reports false, and writes nothing, when b is too short for both. Tests use it to make
// packets that are wrong in one respect only.
func PutCRCs(b []byte) bool {
	n := len(b) - ICRCLen - VCRCLen
	if n < LRHLen {
		return false
	}
	PutICRC(b[n:], ICRCIB(b[:n]))
	PutVCRC(b[n+ICRCLen:], VCRC(b[:n+ICRCLen]))
	return true
}

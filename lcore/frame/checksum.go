// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"net/netip"
)

// sum adds b, as big-endian 16-bit words with a last odd byte in the high half, to acc (RFC 1071 §1).
// 64 bits hold the carries of any packet.
func sum(acc uint64, b []byte) uint64 {
	for len(b) >= 2 {
		acc += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		acc += uint64(b[0]) << 8
	}
	return acc
}

// fold brings the carries back in and returns the one's complement, which is the checksum.
func fold(acc uint64) uint16 {
	for acc > 0xffff {
		acc = acc>>16 + acc&0xffff
	}
	return ^uint16(acc)
}

// Checksum returns the internet checksum of b (RFC 1071). Over bytes that contain a right checksum it is 0;
// to compute one, its field must be 0 in b.
func Checksum(b []byte) uint16 { return fold(sum(0, b)) }

// pseudo adds up the pseudo header of a packet of n bytes above IP. Those of IPv4 (RFC 768) and of IPv6
// (RFC 8200 §8.1) differ in the place and width of length and protocol, which a sum of words does not see.
func pseudo(src, dst netip.Addr, proto uint8, n int) uint64 {
	acc := uint64(proto) + uint64(n>>16) + uint64(n&0xffff)
	if src.Is4() && dst.Is4() {
		s, d := src.As4(), dst.As4()
		return sum(sum(acc, s[:]), d[:])
	}
	s, d := as16(src), as16(dst)
	return sum(sum(acc, s[:]), d[:])
}

// PseudoChecksum returns the checksum of b, a whole packet above IP, together with the pseudo header
// of the IP version of its addresses. Like Checksum it is 0 over a right one.
func PseudoChecksum(src, dst netip.Addr, proto uint8, b []byte) uint16 {
	return fold(sum(pseudo(src, dst, proto, len(b)), b))
}

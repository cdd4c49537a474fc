// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// patternStamp is the length of the stamp that a payload begins with: the
// CRC-32 of all that follows it, and seq, both big endian (guest/udend/pattern.h).
const patternStamp = 8

// Pattern returns the payload of n bytes that carries seq, as udend makes it.
func Pattern(seq uint32, n int) []byte {
	b := make([]byte, n)
	if n < patternStamp {
		for i := range b {
			b[i] = noise(uint32(n), uint32(i))
		}
		return b
	}
	for i := patternStamp; i < n; i++ {
		b[i] = noise(seq, uint32(i))
	}
	binary.BigEndian.PutUint32(b[4:], seq)
	binary.BigEndian.PutUint32(b, crc32.ChecksumIEEE(b[4:]))
	return b
}

// CheckPattern reports whether b is a payload that Pattern makes, and the seq it
// carries: 0 below 8 bytes.
func CheckPattern(b []byte) (seq uint32, ok bool) {
	if len(b) >= patternStamp {
		seq = binary.BigEndian.Uint32(b[4:])
	}
	return seq, bytes.Equal(b, Pattern(seq, len(b)))
}

// noise is pattern.c's.
func noise(seq, i uint32) byte {
	h := seq*0x9e3779b1 + i
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return byte(h ^ h>>16)
}

// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"encoding/binary"
	"net/netip"
)

// key is the one that Microsoft's verification suite for receive-side scaling has, and many drivers by default. Any good
// key spreads as well.
var key = [40]byte{
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
	0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
}

// toeplitz is the hash by which network cards choose a queue: for every bit of the input that is set, 32 bits of the key
// from there on, all XORed. The input is at most 36 bytes long.
func toeplitz(input []byte) (hash uint32) {
	for i, b := range input {
		window := uint64(binary.BigEndian.Uint32(key[i:]))<<8 | uint64(key[i+4])
		for bit := range 8 {
			if b>>(7-bit)&1 != 0 {
				hash ^= uint32(window >> (8 - bit))
			}
		}
	}
	return hash
}

// tableSize is that of a card's redirection table, whose entries name the queues in turn.
const tableSize = 128

// place is where in the table a card looks for a frame with these addresses; one that spreads by source alone leaves the
// destination out.
func place(addresses ...netip.Addr) uint8 {
	input := make([]byte, 0, 2*16)
	for _, a := range addresses {
		input = append(input, a.AsSlice()...)
	}
	return uint8(toeplitz(input) % tableSize)
}

// queue is what is found there.
func queue(place uint8, queues int) int { return int(place) % queues }

// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"bytes"
	"encoding/binary"
)

// stampLen is what a publisher's message begins with: 8 bytes of magic, 2 of the message's size, 6 of a number that counts
// from 1, big-endian. The rest is a pattern made from the number, so that each byte is checked.
const (
	stampLen   = 16
	stampShift = 48 // of the size above the number
)

var stampMagic = []byte("causeway")

// AppendStamped appends a message of size bytes, at least 16 and below 65536, with that number, below 2^48.
func AppendStamped(b []byte, number uint64, size int) []byte {
	size = max(size, stampLen)
	b = append(b, stampMagic...)
	b = binary.BigEndian.AppendUint64(b, uint64(size)<<stampShift|number)
	for i := stampLen; i < size; i++ {
		b = append(b, stampByte(number, i))
	}
	return b
}

func stampByte(number uint64, at int) byte {
	return byte((number + 1) * 0x9e3779b97f4a7c15 >> (at % 8 * 8) * uint64(at|1))
}

// ReadStamp returns the number of a stamped message. stamped says whether it is one at all, and whole whether it
// is as its publisher made it.
func ReadStamp(b []byte) (number uint64, stamped, whole bool) {
	if len(b) < stampLen || !bytes.HasPrefix(b, stampMagic) {
		return 0, false, false
	}
	head := binary.BigEndian.Uint64(b[8:])
	number = head & (1<<stampShift - 1)
	if int(head>>stampShift) != len(b) {
		return number, true, false
	}
	for i := stampLen; i < len(b); i++ {
		if b[i] != stampByte(number, i) {
			return number, true, false
		}
	}
	return number, true, true
}

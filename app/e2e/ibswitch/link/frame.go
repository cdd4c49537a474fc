// SPDX-License-Identifier: Apache-2.0

package link

import "encoding/binary"

// A cable's frame (guest/shca/cable.c):
//
//	destination 6 | source 6 | ethertype 2 | kind 1 | presence or zero 1 | epoch or zero 1 | zero 1 | length 2 | zero 2 | packet
const (
	frameEthertype = 12
	frameKind      = 14
	framePresent   = 15
	frameEpoch     = 16
	frameLength    = 18
	frameHeaderLen = 22

	cableEthertype = 0x88b5 // IEEE 802 local experimental

	kindPacket   = 1
	kindTraining = 2
)

// putHeader writes all before the packet: broadcast, from a locally administered address.
func putHeader(b []byte, kind uint8, length int) {
	b = b[:frameHeaderLen]
	clear(b)
	copy(b, "\xff\xff\xff\xff\xff\xff\x02ibsw\x01")
	binary.BigEndian.PutUint16(b[frameEthertype:], cableEthertype)
	b[frameKind] = kind
	binary.BigEndian.PutUint16(b[frameLength:], uint16(length))
}

// putTraining writes a training frame.
func putTraining(b []byte, present bool, epoch uint8) {
	putHeader(b, kindTraining, 0)
	if present {
		b[framePresent] = 1
	}
	b[frameEpoch] = epoch
}

// parseFrame returns a frame's kind and packet; kind 0 is no frame of a cable.
func parseFrame(b []byte) (kind uint8, packet []byte) {
	if len(b) < frameHeaderLen || binary.BigEndian.Uint16(b[frameEthertype:]) != cableEthertype {
		return 0, nil
	}
	n := int(binary.BigEndian.Uint16(b[frameLength:]))
	if n > len(b)-frameHeaderLen {
		return 0, nil
	}
	return b[frameKind], b[frameHeaderLen : frameHeaderLen+n]
}

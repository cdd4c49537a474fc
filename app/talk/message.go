// SPDX-License-Identifier: Apache-2.0

package talk

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"time"
)

// HeadLen is what a message begins with, big-endian, and so the least that one has:
//
//	magic 4 | length 2 | check 2 | stream 4 | crc 4 | number 8 | time 8
//
// length is that of the whole message. check is of the head alone, so that a message whose rest is damaged still tells
// which one it was; crc is of the whole. time is when it was sent, in nanoseconds of the realtime clock.
const HeadLen = 32

const (
	magic = 0x43_77_74_31 // "Cwt1"

	atLength = 4
	atCheck  = 6
	atStream = 8
	atCRC    = 12
	atNumber = 16
	atTime   = 24
)

// castagnoli is the polynomial that CPUs have an instruction for. RoCE's own CRC is another one: what escapes that is
// not likely to escape both.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A Head is what a message says of itself.
type Head struct {
	Stream uint32 // one sender's run
	Number uint64 // from 1
	Sent   time.Time
}

// A call asks a sender for messages: one without a number, and of a listener's own stream.
const callNumber = 0

// filler returns the bytes behind the heads of a stream's messages.
func filler(seed uint64, size int) []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(seed, magic))
	for i := HeadLen; i < size; i++ {
		b[i] = byte(r.Uint32())
	}
	return b
}

// put makes a message of b, whose bytes behind the head stand already.
func (h Head) put(b []byte) {
	binary.BigEndian.PutUint32(b, magic)
	binary.BigEndian.PutUint16(b[atLength:], uint16(len(b)))
	binary.BigEndian.PutUint32(b[atStream:], h.Stream)
	binary.BigEndian.PutUint64(b[atNumber:], h.Number)
	binary.BigEndian.PutUint64(b[atTime:], uint64(h.Sent.UnixNano()))
	binary.BigEndian.PutUint16(b[atCheck:], headCheck(b))
	binary.BigEndian.PutUint32(b[atCRC:], wholeCRC(b))
}

func headCheck(b []byte) uint16 {
	c := crc32.Update(0, castagnoli, b[:atCheck])
	c = crc32.Update(c, castagnoli, b[atStream:atCRC])
	c = crc32.Update(c, castagnoli, b[atNumber:HeadLen])
	return uint16(c>>16) ^ uint16(c)
}

func wholeCRC(b []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, b[:atCRC]), castagnoli, b[atNumber:])
}

// A condition is what became of a message.
type condition int

const (
	foreign   condition = iota // not one of ours
	headless                   // damaged in its head: nobody can say which it was
	corrupted                  // damaged behind it, or cut
	whole
)

// read takes a message apart.
func read(b []byte) (Head, condition) {
	switch {
	case len(b) < 4 || binary.BigEndian.Uint32(b) != magic:
		return Head{}, foreign
	case len(b) < HeadLen || binary.BigEndian.Uint16(b[atCheck:]) != headCheck(b):
		return Head{}, headless
	}
	h := Head{
		Stream: binary.BigEndian.Uint32(b[atStream:]), Number: binary.BigEndian.Uint64(b[atNumber:]),
		Sent: time.Unix(0, int64(binary.BigEndian.Uint64(b[atTime:]))),
	}
	if int(binary.BigEndian.Uint16(b[atLength:])) != len(b) || binary.BigEndian.Uint32(b[atCRC:]) != wholeCRC(b) {
		return h, corrupted
	}
	return h, whole
}

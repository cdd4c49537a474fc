// SPDX-License-Identifier: Apache-2.0

// Package stamp makes and checks test messages, whose receiver can tell what a network did to them: which were lost,
// duplicated, reordered or corrupted, and how long each took.
//
// A message begins with a stamp, little-endian, and goes on with a pattern:
//
//	 0  magic  4 │ stream 4    "Cwt2": its last character is the version │ one sender's run or flow
//	 8  number 8               counts up within a stream
//	16  time   8               when it was sent, by the sender's clock
//	24  length 2 │ seed 2 │ check 4    of the whole message │ of the pattern │ of the stamp
//	32  pattern                byte i depends on the seed and i alone
//
// Every byte can be checked: those of the stamp by its check value, the others because the seed decides them. A message
// that is too short for a stamp is the pattern alone, with its length as the seed.
//
// stamp.h is the same for C.
package stamp

import (
	"encoding/binary"
	"time"
)

// Len is the length of a stamp in bytes.
const Len = 32

const (
	magic = 0x32_74_77_43 // "Cwt2"

	atStream = 4
	atNumber = 8
	atTime   = 16
	atLength = 24
	atSeed   = 26
	atCheck  = 28
)

// A Stamp identifies a message. Its length is that of the bytes it is put into.
type Stamp struct {
	Stream uint32
	Number uint64
	Time   uint64 // nanoseconds of Unix time; from perf/gen cycles of the time-stamp counter
	Seed   uint16
}

// Now is the time of a message that is sent now.
func Now() uint64 { return uint64(time.Now().UnixNano()) }

// Sent returns when the message was sent, of a stamp with Unix time.
func (s Stamp) Sent() time.Time { return time.Unix(0, int64(s.Time)) }

// Put writes the stamp of the message b, which has Len to 65535 bytes. What follows the stamp must come from Fill.
func (s Stamp) Put(b []byte) {
	binary.LittleEndian.PutUint32(b, magic)
	binary.LittleEndian.PutUint32(b[atStream:], s.Stream)
	binary.LittleEndian.PutUint64(b[atNumber:], s.Number)
	binary.LittleEndian.PutUint64(b[atTime:], s.Time)
	binary.LittleEndian.PutUint16(b[atLength:], uint16(len(b)))
	binary.LittleEndian.PutUint16(b[atSeed:], s.Seed)
	binary.LittleEndian.PutUint32(b[atCheck:], check(b))
}

// check returns the check value of a stamp: one changed bit before it changes about half of its bits, because a
// multiplication carries upwards and a shift brings the upper half down.
func check(b []byte) uint32 {
	h := (uint64(binary.LittleEndian.Uint32(b))<<32 | uint64(binary.LittleEndian.Uint32(b[atStream:]))) * 0x9e3779b97f4a7c15
	h = (h ^ h>>29 ^ binary.LittleEndian.Uint64(b[atNumber:])) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>32 ^ binary.LittleEndian.Uint64(b[atTime:])) * 0x94d049bb133111eb
	h = (h ^ h>>29 ^ uint64(binary.LittleEndian.Uint32(b[atLength:]))) * 0x9e3779b97f4a7c15
	return uint32(h >> 32)
}

// Fill writes the pattern of a seed over all of b, the stamp's place included.
func Fill(b []byte, seed uint16) {
	for k := uint64(0); len(b) > 0; k++ {
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], patternWord(seed, k))
		b = b[copy(b, w[:]):]
	}
}

// patternWord returns bytes 8k to 8k+7 of a pattern.
func patternWord(seed uint16, k uint64) uint64 {
	h := (uint64(seed)<<16 + k + 1) * 0x9e3779b97f4a7c15
	h = (h ^ h>>32) * 0xbf58476d1ce4e5b9
	return h ^ h>>32
}

// Message returns a message of size bytes, at most 65535, that is sent now. Each number has a pattern of its own (until
// 65536 later), so that a stamp with another message's pattern is noticed. A message shorter than Len has no number.
func Message(number uint64, size int) []byte {
	b := make([]byte, size)
	if size < Len {
		Fill(b, uint16(size))
		return b
	}
	s := Stamp{Number: number, Time: Now(), Seed: uint16(number)}
	Fill(b, s.Seed)
	s.Put(b)
	return b
}

// A Verdict says what Read found.
type Verdict int

// The verdicts.
const (
	Foreign  Verdict = iota // not a message of this package
	BadStamp                // the stamp is damaged: which message it was cannot be known
	Damaged                 // the stamp is right; the length or the pattern is not
	Short                   // too short for a stamp, and whole
	Whole
)

// Intact reports whether the message is as it was sent.
func (v Verdict) Intact() bool { return v >= Short }

// Stamped reports whether the message has a stamp that can be relied on.
func (v Verdict) Stamped() bool { return v == Whole || v == Damaged }

// Read checks a message. The stamp counts where the verdict is Stamped.
func Read(b []byte) (Stamp, Verdict) {
	switch {
	case len(b) < Len:
		if follows(b, 0, uint16(len(b))) {
			return Stamp{}, Short
		}
		return Stamp{}, Foreign
	case binary.LittleEndian.Uint32(b) != magic:
		return Stamp{}, Foreign
	case binary.LittleEndian.Uint32(b[atCheck:]) != check(b):
		return Stamp{}, BadStamp
	}
	s := Stamp{
		Stream: binary.LittleEndian.Uint32(b[atStream:]), Number: binary.LittleEndian.Uint64(b[atNumber:]),
		Time: binary.LittleEndian.Uint64(b[atTime:]), Seed: binary.LittleEndian.Uint16(b[atSeed:]),
	}
	if int(binary.LittleEndian.Uint16(b[atLength:])) != len(b) || !follows(b, Len, s.Seed) {
		return s, Damaged
	}
	return s, Whole
}

// follows reports whether b is a seed's pattern, from a multiple of 8 on.
func follows(b []byte, from int, seed uint16) bool {
	k := uint64(from / 8)
	b = b[from:]
	for ; len(b) >= 8; k++ {
		if binary.LittleEndian.Uint64(b) != patternWord(seed, k) {
			return false
		}
		b = b[8:]
	}
	var w [8]byte
	binary.LittleEndian.PutUint64(w[:], patternWord(seed, k))
	return string(b) == string(w[:len(b)])
}

// SPDX-License-Identifier: Apache-2.0

package stamp

import "math/bits"

// Window is how many numbers below the highest a Sequence remembers, a bit each: 8 KiB. It is a second's worth at 65536
// messages a second.
const Window = 1 << 16

// A Sequence counts by the numbers of received messages which were lost, duplicated or reordered. Its counts are exact
// as long as no message comes Window or more numbers behind the highest. The zero value has received nothing.
type Sequence struct {
	seen            []uint64 // bits of the numbers in (highest - Window, highest], by number modulo Window
	lowest, highest uint64

	Unique     uint64 // different numbers received
	Duplicates uint64
	Reordered  uint64 // received after a higher number
	Extent     uint64 // how far behind the highest number, at most
	Old        uint64 // too far behind to tell whether they are duplicates or reordered
}

// Note counts a message and reports whether it is the first with its number; one that is too old to tell is not.
func (s *Sequence) Note(number uint64) bool {
	switch {
	case s.seen == nil:
		s.seen = make([]uint64, Window/64)
		s.lowest, s.highest = number, number
	case number > s.highest:
		s.advance(number)
	case s.highest-number >= Window:
		s.Old++
		return false
	case s.has(number):
		s.Duplicates++
		return false
	default:
		s.Reordered++
		s.Extent = max(s.Extent, s.highest-number)
		s.lowest = min(s.lowest, number)
	}
	s.seen[number%Window/64] |= 1 << (number % 64)
	s.Unique++
	return true
}

func (s *Sequence) has(number uint64) bool {
	return s.seen[number%Window/64]&(1<<(number%64)) != 0
}

// advance moves the window up.
func (s *Sequence) advance(to uint64) {
	if to-s.highest >= Window {
		clear(s.seen)
		s.highest = to
		return
	}
	for n := s.highest + 1; n <= to; {
		at := n % 64
		count := min(64-at, to-n+1)
		mask := ^uint64(0) >> (64 - count) << at
		s.seen[n%Window/64] &^= mask
		n += count
	}
	s.highest = to
}

// Lost returns how many numbers between the lowest and the highest were not received. Those lost above the highest
// cannot be known here.
func (s *Sequence) Lost() uint64 {
	if s.Unique == 0 {
		return 0
	}
	span, carry := bits.Add64(s.highest-s.lowest, 1, 0)
	if carry != 0 {
		span = ^uint64(0)
	}
	return span - min(span, s.Unique)
}

// Before returns how many numbers there are below the lowest received one, counted from 1: they were sent before the
// receiver listened, or lost.
func (s *Sequence) Before() uint64 {
	if s.Unique == 0 {
		return 0
	}
	return s.lowest - min(s.lowest, 1)
}

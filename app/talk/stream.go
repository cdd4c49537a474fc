// SPDX-License-Identifier: Apache-2.0

package talk

import "math/bits"

// windowLen is how many numbers back a stream remembers, a bit each: 8 KiB. Within it, duplicates and late messages are told
// apart; it is a second's worth at 65536 messages a second.
const windowLen = 1 << 16

// A sequence tells by the numbers of the messages that came which are missing, doubled or late. Its counts are exact as long
// as none comes more than windowLen numbers behind the highest.
type sequence struct {
	seen            []uint64 // bits of the numbers in (highest - windowLen, highest], by number modulo windowLen
	lowest, highest uint64

	unique     uint64 // different numbers
	duplicates uint64
	reordered  uint64 // came after one with a higher number
	extent     uint64 // how far behind the highest number the latest of these was
	old        uint64 // too far behind to say whether they are duplicates or late
}

// note accounts for a message and reports whether it is the first with its number, as far as one can tell.
func (s *sequence) note(number uint64) bool {
	switch {
	case s.seen == nil:
		s.seen = make([]uint64, windowLen/64)
		s.lowest, s.highest = number, number
	case number > s.highest:
		s.advance(number)
	case s.highest-number >= windowLen:
		s.old++
		return false
	case s.has(number):
		s.duplicates++
		return false
	default:
		s.reordered++
		s.extent = max(s.extent, s.highest-number)
		s.lowest = min(s.lowest, number)
	}
	s.seen[number%windowLen/64] |= 1 << (number % 64)
	s.unique++
	return true
}

func (s *sequence) has(number uint64) bool {
	return s.seen[number%windowLen/64]&(1<<(number%64)) != 0
}

// advance moves the window, and forgets what falls out of it.
func (s *sequence) advance(to uint64) {
	if to-s.highest >= windowLen {
		clear(s.seen)
		s.highest = to
		return
	}
	for n := s.highest + 1; n <= to; {
		at := n % 64
		count := min(64-at, to-n+1)
		mask := ^uint64(0) >> (64 - count) << at
		s.seen[n%windowLen/64] &^= mask
		n += count
	}
	s.highest = to
}

// lost is how many numbers between the lowest and the highest did not come. What is missing behind the highest nobody knows
// here.
func (s *sequence) lost() uint64 {
	if s.unique == 0 {
		return 0
	}
	span, carry := bits.Add64(s.highest-s.lowest, 1, 0)
	if carry != 0 {
		span = ^uint64(0)
	}
	return span - min(span, s.unique)
}

// before is how many numbers there are below the lowest that came: sent before the listener was there, or lost.
func (s *sequence) before() uint64 {
	if s.unique == 0 {
		return 0
	}
	return s.lowest - min(s.lowest, 1)
}

// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"encoding/binary"
	"math/bits"

	"causeway/fleet/shards"
)

// set is a set of shards, a bit each.
type set [(shards.Count + 63) / 64]uint64

func (s *set) add(x shards.Shard) { s[x/64] |= 1 << (x % 64) }

func (s *set) unite(o *set) {
	for i := range s {
		s[i] |= o[i]
	}
}

// minus returns what is in s but not in o.
func (s *set) minus(o *set) (out set) {
	for i := range s {
		out[i] = s[i] &^ o[i]
	}
	return out
}

// bits and setOf convert to what is told to others, and back; of what is no set, to none.
func (s *set) bits() (out Bits) {
	for _, word := range s {
		out = binary.LittleEndian.AppendUint64(out, word)
	}
	return out
}

func setOf(b Bits) (s set) {
	if len(b) == 8*len(s) {
		for i := range s {
			s[i] = binary.LittleEndian.Uint64(b[8*i:])
		}
	}
	return s
}

// both returns what is in both.
func (s *set) both(o *set) set {
	rest := s.minus(o)
	return s.minus(&rest)
}

func (s *set) empty() bool { return *s == set{} }

func (s *set) list() (all []shards.Shard) {
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			all = append(all, shards.Shard(i*64+bits.TrailingZeros64(word)))
		}
	}
	return all
}

// everything has all shards.
var everything = func() (s set) {
	for x := range shards.Shard(shards.Count) {
		s.add(x)
	}
	return s
}()

// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"slices"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// sources numbers the GIDs of a port. A GID keeps its number as long as the port has it, and gets it back when it
// returns; the index in the port's table does not stay.
type sources struct {
	gid    [maxGIDIndex + 1]ib.GID
	lostAt [maxGIDIndex + 1]time.Time // when its loss was noticed; zero: the port has it
}

// keepNumber is how long a lost GID's number is not given to another: until then its users have been told of the loss.
const keepNumber = 5 * time.Second

// number follows the port's table, there; own is number 0.
func (s *sources) number(own ib.GID, there []ib.GID, now time.Time) {
	s.gid[0] = own
	for i := 1; i < len(s.gid); i++ {
		switch {
		case slices.Contains(there, s.gid[i]):
			s.lostAt[i] = time.Time{}
		case s.lostAt[i].IsZero():
			s.lostAt[i] = now
		}
	}
	for _, g := range there {
		if !slices.Contains(s.gid[:], g) {
			s.take(g, now)
		}
	}
}

// take gives a GID a number, if one is free.
func (s *sources) take(g ib.GID, now time.Time) {
	for i := 1; i < len(s.gid); i++ {
		if s.gid[i].IsZero() || !s.lostAt[i].IsZero() && now.Sub(s.lostAt[i]) > keepNumber {
			s.gid[i], s.lostAt[i] = g, time.Time{}
			return
		}
	}
}

// of returns the GID of a number, and whether the port has it.
func (s *sources) of(n uint8) (g ib.GID, ok bool) {
	return s.gid[n], !s.gid[n].IsZero() && s.lostAt[n].IsZero()
}

func (s *sources) list() (out []ibside.Source) {
	for n := range s.gid {
		if g, ok := s.of(uint8(n)); ok {
			out = append(out, ibside.Source{Number: uint8(n), GID: g})
		}
	}
	return out
}

// gidsOf returns the GIDs of a table's entries, each once and in order.
func gidsOf(entries []GIDEntry) (out []ib.GID) {
	for _, e := range entries {
		out = append(out, e.GID)
	}
	slices.SortFunc(out, func(a, b ib.GID) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(out)
}

// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// A GID keeps its number while the port has it, gets it back when it returns, and loses it to another only after a long
// time.
func TestSourceNumbers(t *testing.T) {
	own, a, b, c := gid("10.9.0.254"), gid("10.9.0.1"), gid("10.9.0.2"), gid("10.9.0.3")
	var s sources
	now := time.Unix(1000, 0)
	for i, step := range []struct {
		there []ib.GID
		want  []ibside.Source
	}{
		{[]ib.GID{own}, []ibside.Source{{Number: 0, GID: own}}},
		{[]ib.GID{a, own, b}, []ibside.Source{{Number: 0, GID: own}, {Number: 1, GID: a}, {Number: 2, GID: b}}},
		{[]ib.GID{b, own}, []ibside.Source{{Number: 0, GID: own}, {Number: 2, GID: b}}},
		{[]ib.GID{b, c, own}, []ibside.Source{{Number: 0, GID: own}, {Number: 2, GID: b}, {Number: 3, GID: c}}},
		{[]ib.GID{b, c, a, own}, []ibside.Source{{Number: 0, GID: own}, {Number: 1, GID: a}, {Number: 2, GID: b}, {Number: 3, GID: c}}},
	} {
		s.number(own, step.there, now)
		if got := s.list(); !slices.Equal(got, step.want) {
			t.Fatalf("step %d: %v, want %v", i, got, step.want)
		}
	}
}

// There are 255 numbers besides the bridge's own; further GIDs have none, until others have been gone for long.
func TestSourceNumbersRunOut(t *testing.T) {
	own := gid("10.9.0.254")
	var s sources
	gids := []ib.GID{own}
	for i := range 300 {
		gids = append(gids, ib.GIDFromAddr(netip.AddrFrom4([4]byte{10, 8, byte(i >> 8), byte(i)})))
	}
	now := time.Unix(1000, 0)
	s.number(own, gids, now)
	if got := s.list(); len(got) != 256 || got[255].GID != gids[255] {
		t.Fatalf("%d numbers, the last %v", len(got), got[len(got)-1])
	}
	later := append([]ib.GID{own}, gids[45:]...)
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 256 - 44}, {keepNumber, 256 - 44}, {2 * keepNumber, 256}} {
		s.number(own, later, now.Add(step.after))
		if got := s.list(); len(got) != step.want {
			t.Errorf("after %v: %d numbers are in use, want %d", step.after, len(got), step.want)
		}
	}
	for i, x := range s.list() {
		if i > 0 && !slices.Contains(later, x.GID) {
			t.Errorf("number %d is still that of %v", x.Number, x.GID)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"testing"
	"time"

	"causeway/ibside/stamp"
)

// A slice is what comes within heardEvery by the member that a group is taken from, and by another.
type slice struct{ current, other uint64 }

// times is the same slice several times.
func times(n int, s slice) (all []slice) {
	for range n {
		all = append(all, s)
	}
	return all
}

func joined(parts ...[]slice) (all []slice) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

const second = longEvery // slices of a long window's part

// heardCases are what comes by two members. within is how many slices after the last of before a loss must be noticed;
// 0: nothing is lost.
var heardCases = []struct {
	name          string
	before, after []slice
	within        int
}{
	{"nothing", nil, times(10*second, slice{}), 0},
	{"both bring all", nil, times(10*second, slice{25, 25}), 0},
	{"the other is silent", nil, times(10*second, slice{25, 0}), 0},
	{"the first messages are late", nil, joined(times(late, slice{0, 16}), times(1, slice{32, 0}), times(10*second, slice{10, 10})), 0},
	{"so are those of the other", nil, joined(times(late, slice{16, 0}), times(1, slice{0, 32}), times(10*second, slice{10, 10})), 0},
	{"the first messages are late, and no others come", nil, joined(times(1, slice{1, 16}), times(late-1, slice{}), times(1, slice{15, 0}), times(10*second, slice{})), 0},
	{"those of the other, and no others come", nil, joined(times(1, slice{16, 1}), times(late-1, slice{}), times(1, slice{0, 15}), times(10*second, slice{})), 0},
	{"it stands for a moment", times(second, slice{25, 25}), joined(times(late, slice{0, 25}), times(1, slice{25 * (late + 1), 25}), times(10*second, slice{25, 25})), 0},
	{"it lags behind for good", times(second, slice{25, 25}), joined(times(1, slice{10, 25}), times(10*second, slice{25, 25})), 0},
	{"bursts, which end with the second", nil, burstsOver(second), 0},
	{"it loses all", times(second, slice{25, 25}), times(second, slice{0, 25}), 4},
	{"it loses half", times(second, slice{26, 26}), times(second, slice{13, 26}), 5},
	{"it loses all of few", times(10*second, slice{1, 1}), times(second, slice{0, 1}), 16 + heardSlack + late + 1},
	{"it loses half of few", times(10*second, slice{2, 2}), times(4*second, slice{1, 2}), 32 + heardSlack + late + 1},
}

// burstsOver are bursts that the one member brings in the first slice of a second, and the other in the last.
func burstsOver(n int) (all []slice) {
	for range 20 {
		all = append(all, joined(times(1, slice{20, 0}), times(n-2, slice{}), times(1, slice{0, 20}))...)
	}
	return all
}

// next has a slice come.
func (h *heard) next(total *sample, n *int, s slice) {
	total[0] += s.current
	total[1] += s.other
	h.add(*n%longEvery == 0, *total)
	*n++
}

// run has slices come, and returns after how many something is lost; 0: nothing is.
func (h *heard) run(total *sample, n *int, all []slice) int {
	for k, s := range all {
		h.next(total, n, s)
		if h.lost(0, 1, 0.1) > 0 {
			return k + 1
		}
	}
	return 0
}

// TestHeard: what is late is not lost, whenever it comes in a window; and what is lost is noticed in time.
func TestHeard(t *testing.T) {
	for _, c := range heardCases {
		for phase := range longEvery {
			var h heard
			var total sample
			n := phase
			if at := h.run(&total, &n, c.before); at != 0 {
				t.Errorf("%s, phase %d: a loss after slice %d of those before", c.name, phase, at)
			}
			switch at := h.run(&total, &n, c.after); {
			case c.within == 0 && at != 0:
				t.Errorf("%s, phase %d: a loss after slice %d", c.name, phase, at)
			case c.within != 0 && (at == 0 || at > c.within):
				t.Errorf("%s, phase %d: noticed after slice %d, not within %d", c.name, phase, at, c.within)
			}
		}
	}
}

// TestHeardAfterMove: what the member that was left brings late is no reason to return to it, nor is what another one has
// missed before; but what is lost after the change is.
func TestHeardAfterMove(t *testing.T) {
	const holdDown = second // the shortest
	for _, c := range []struct {
		name          string
		to            int
		before, after []slice
		moves         bool
	}{
		{"it was late", 1, times(holdDown, slice{0, 16}), joined(times(1, slice{16 * holdDown, 0}), times(10*second, slice{})), false},
		{"it was late, and others come", 1, times(20, slice{0, 16}), joined(times(1, slice{16 * 20, 16}), times(10*second, slice{16, 16})), false},
		{"it was down", 0, times(2*second, slice{0, 25}), times(10*second, slice{25, 25}), false},
		{"the other one loses, too", 1, times(20, slice{0, 16}), times(10*second, slice{16, 0}), true},
		{"it still loses", 0, times(2*second, slice{0, 25}), times(10*second, slice{0, 25}), true},
	} {
		h := heard{begun: true}
		var total sample
		n := 0
		for _, s := range c.before {
			h.next(&total, &n, s)
		}
		h.moved(c.to)
		at := 0
		for k, s := range c.after {
			if h.next(&total, &n, s); at == 0 && k >= holdDown && h.lost(c.to, 1-c.to, 0.1) > 0 {
				at = k + 1
			}
		}
		if (at > 0) != c.moves || at > 5*second {
			t.Errorf("%s: a loss after slice %d", c.name, at)
		}
	}
}

// TestLateCopies: a group does not move because one fabric brings its messages later than the other, the first ones of
// all as well.
func TestLateCopies(t *testing.T) {
	r := newRigAlone(t, Rule{Tell: TellImm})
	r.join(t)
	const burst, bound = 20, late * heardEvery * tick
	inTime, number := 0, uint64(0)
	for range 20 {
		active, was := r.active(), r.port.Switches()
		began := time.Now()
		for _, on := range []int{1 - active, active} {
			for k := range uint64(burst) {
				r.peers[on].toGroup(stamp.Message(number+k, 64), uint32(number+k+1))
			}
			if on != active {
				time.Sleep(heardEvery * tick) // the judge looks meanwhile
			}
		}
		number += burst
		r.await(t, 2*burst)
		took := time.Since(began)
		time.Sleep(2 * heardEvery * tick)              // the judge has looked again
		if numbers, _, _ := r.taken(t); took < bound { // else the test was too late for it
			inTime++
			if moved := r.port.Switches() - was; moved != 0 || len(numbers) != burst {
				t.Errorf("%d moves; %d messages of %d came, by the active port %v later", moved, len(numbers), burst, took)
			}
		}
	}
	if inTime == 0 {
		t.Error("nothing came in time: this machine is too slow for the test")
	}
}

// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// numbers returns from, from+1, ..., to.
func numbers(from, to uint64) (all []uint64) {
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}

func TestSequence(t *testing.T) {
	const far = Window
	type want struct{ unique, lost, before, duplicates, reordered, extent, old uint64 }
	for _, c := range []struct {
		name string
		come []uint64
		want
	}{
		{"nothing", nil, want{}},
		{"one", []uint64{1}, want{unique: 1}},
		{"in order", numbers(1, 1000), want{unique: 1000}},
		{"joined late", numbers(500, 600), want{unique: 101, before: 499}},
		{"a gap", append(numbers(1, 10), numbers(21, 30)...), want{unique: 20, lost: 10}},
		{"twice", []uint64{1, 2, 2, 3, 3, 3}, want{unique: 3, duplicates: 3}},
		{"two exchanged", []uint64{1, 3, 2, 4}, want{unique: 4, reordered: 1, extent: 1}},
		{"one late", []uint64{1, 3, 4, 5, 2}, want{unique: 5, reordered: 1, extent: 3}},
		{"the first comes late", []uint64{5, 6, 1}, want{unique: 3, lost: 3, reordered: 1, extent: 5}},
		{"backwards", []uint64{4, 3, 2, 1}, want{unique: 4, reordered: 3, extent: 3}},
		{"late and twice", []uint64{1, 3, 2, 2}, want{unique: 3, duplicates: 1, reordered: 1, extent: 1}},
		{"the oldest in the window", []uint64{1, far, 1}, want{unique: 2, lost: far - 2, duplicates: 1}},
		{"just too old", []uint64{1, far + 1, 1}, want{unique: 2, lost: far - 1, old: 1}},
		{"a jump of a window", []uint64{1, 2, far + 2, 3}, want{unique: 4, lost: far - 2, reordered: 1, extent: far - 1}},
		{"a jump of many windows", []uint64{1, 10 * far, 10*far - 1}, want{unique: 3, lost: 10*far - 3, reordered: 1, extent: 1}},
		{"a jump to where bits were set", append(numbers(1, 100), numbers(far+1, far+100)...), want{unique: 200, lost: far - 100}},
		{"the whole range", []uint64{0, ^uint64(0)}, want{unique: 2, lost: ^uint64(0) - 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Sequence
			for _, n := range c.come {
				s.Note(n)
			}
			got := want{s.Unique, s.Lost(), s.Before(), s.Duplicates, s.Reordered, s.Extent, s.Old}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestSequenceExact draws any loss, repetition and order within the window, and checks that the counts are exact. The
// order comes from giving each message a delay of less than the window.
func TestSequenceExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SampledFrom([]uint64{1, 60, Window - 100, 1 << 40}).Draw(t, "base")
		type arrival struct{ number, at uint64 }
		var come []arrival
		delay := rapid.Uint64Range(0, rapid.SampledFrom([]uint64{0, 3, 100, Window / 2}).Draw(t, "most"))
		step := rapid.SampledFrom([]uint64{1, 1, 7, 63, 64, 65, 1000}).Draw(t, "step") // the numbers between are lost
		copies := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 300).Draw(t, "copies")       // 0: lost
		for i, n := range copies {
			number := base + uint64(i)*step
			for range n {
				come = append(come, arrival{number, number + delay.Draw(t, "delay")})
			}
		}
		slices.SortStableFunc(come, func(a, b arrival) int { return int(int64(a.at) - int64(b.at)) })
		var s Sequence
		seen, highest, lowest := map[uint64]bool{}, uint64(0), ^uint64(0)
		var duplicates, reordered, extent uint64
		for _, a := range come {
			switch first := s.Note(a.number); {
			case first == seen[a.number]:
				t.Fatalf("%d: first %v", a.number, first)
			case !first:
				duplicates++
			case a.number < highest:
				reordered++
				extent = max(extent, highest-a.number)
			}
			seen[a.number] = true
			highest, lowest = max(highest, a.number), min(lowest, a.number)
		}
		lost := uint64(0)
		if len(seen) > 0 {
			lost = highest - lowest + 1 - uint64(len(seen))
		}
		if s.Unique != uint64(len(seen)) || s.Duplicates != duplicates || s.Reordered != reordered || s.Extent != extent || s.Old != 0 || s.Lost() != lost {
			t.Fatalf("%d unique, %d duplicates, %d reordered by %d, %d old, %d lost; want %d, %d, %d by %d, 0, %d", s.Unique, s.Duplicates,
				s.Reordered, s.Extent, s.Old, s.Lost(), len(seen), duplicates, reordered, extent, lost)
		}
	})
}

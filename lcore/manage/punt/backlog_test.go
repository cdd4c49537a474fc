// SPDX-License-Identifier: Apache-2.0

package punt_test

import (
	"testing"
	"time"

	"causeway/lcore/manage/punt"
)

// TestBacklog compares what a Backlog says with two rings, whose frames are the seconds at which they were punted.
func TestBacklog(t *testing.T) {
	const most, burst = 8, 2
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	b := punt.NewBacklog(2, most)
	var rings [2][]int
	for second, punted := range [][2]int{{0, 0}, {0, 0}, {8, 1}, {2, 0}, {2, 0}, {2, 2}, {2, 2}, {2, 2}, {0, 2}, {0, 2}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}} {
		for w := range rings {
			for range min(punted[w], most-len(rings[w])) {
				rings[w] = append(rings[w], second)
			}
			n := min(burst, len(rings[w]))
			rings[w] = rings[w][n:]
			b.Took(w, n)
		}
		b.Turn(begin.Add(time.Duration(second) * time.Second))
		for w, ring := range rings {
			if until := b.Until(); len(ring) > 0 && until.After(begin.Add(time.Duration(ring[0])*time.Second)) {
				t.Errorf("at second %d all is taken until %v; ring %d has %v", second, until.Sub(begin), w, ring)
			}
		}
		if late := begin.Add(time.Duration(second-most) * time.Second); second > most && b.Until().Before(late) {
			t.Errorf("at second %d all is taken until %v only", second, b.Until().Sub(begin))
		}
	}
	if got := b.Until().Sub(begin); got != 14*time.Second {
		t.Errorf("at the end all is taken until %v", got)
	}
}

// SPDX-License-Identifier: Apache-2.0

package punt

import "time"

// A Backlog knows up to when all punted frames have been taken: that a host has not answered can be said of no later time. Workers
// punt in order, so what waited at a time has been taken when nothing waits, or as many have been taken as a ring holds.
type Backlog struct {
	most  int
	until time.Time
	began time.Time // when what waits now began to be taken
	left  []int     // of that, at most, by worker
}

// NewBacklog makes a Backlog of so many workers whose rings hold that many frames at most.
func NewBacklog(workers, most int) *Backlog { return &Backlog{most: most, left: make([]int, workers)} }

// Until returns up to when all frames have been taken.
func (b *Backlog) Until() time.Time { return b.until }

// Took notes that a worker's frames were taken: n, of a burst that had room for more or not.
func (b *Backlog) Took(worker, n int) {
	if b.left[worker] -= n; n == 0 {
		b.left[worker] = 0
	}
}

// Turn ends a turn, in which each worker's frames were taken once; it began at that time.
func (b *Backlog) Turn(began time.Time) {
	if b.began.IsZero() {
		b.begin(began)
		return
	}
	for _, n := range b.left {
		if n > 0 {
			return
		}
	}
	b.until = b.began
	b.begin(began)
}

func (b *Backlog) begin(at time.Time) {
	b.began = at
	for i := range b.left {
		b.left[i] = b.most
	}
}

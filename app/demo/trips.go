// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"slices"
	"sync"
	"time"
)

// trips measures how long messages take, of the last ones.
type trips struct {
	mu    sync.Mutex
	began map[uint64]time.Time
	took  []time.Duration // a ring
	next  int
}

const remembered = 1024

func (t *trips) begin(number uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.began == nil {
		t.began = map[uint64]time.Time{}
	}
	t.began[number] = time.Now()
}

func (t *trips) end(number uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.began[number]
	if !ok {
		return
	}
	delete(t.began, number)
	if len(t.took) < remembered {
		t.took = append(t.took, time.Since(at))
		return
	}
	t.took[t.next] = time.Since(at)
	t.next = (t.next + 1) % remembered
}

// median returns the median of the last trips; 0: there was none.
func (t *trips) median() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.took) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(t.took))[len(t.took)/2]
}

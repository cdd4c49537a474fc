// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"slices"
	"sync"
	"time"
)

// trips are how long the last messages took.
type trips struct {
	mu   sync.Mutex
	took []time.Duration // a ring
	next int
}

const remembered = 1024

func (t *trips) add(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.took) < remembered {
		t.took = append(t.took, took)
		return
	}
	t.took[t.next] = took
	t.next = (t.next + 1) % remembered
}

// median returns the median of the last times; 0 without any.
func (t *trips) median() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.took) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(t.took))[len(t.took)/2]
}

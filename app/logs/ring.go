// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"strings"
	"sync"
)

const (
	kept    = 1000 // lines
	longest = 4096 // bytes kept of a line, which bounds the ring's memory
)

// trimmed returns what is kept of a line.
func trimmed(line []byte) string {
	return strings.TrimSuffix(string(line[:min(len(line), longest)]), "\n")
}

// A ring keeps the last lines, or events.
type ring[T any] struct {
	mu      sync.Mutex
	lines   []T // at most kept
	next    int // the index to overwrite next, when full
	count   uint64
	changed chan struct{} // closed by the next add; nil: nobody waits
}

func (r *ring[T]) add(line T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
	if len(r.lines) < kept {
		r.lines = append(r.lines, line)
		return
	}
	r.lines[r.next] = line
	r.next = (r.next + 1) % kept
}

// last returns the last n lines, the oldest first.
func (r *ring[T]) last(n int) []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = min(max(n, 0), len(r.lines))
	return r.copied(len(r.lines)-n, n)
}

// copied returns n lines from the i-th oldest on.
func (r *ring[T]) copied(i, n int) []T {
	out := make([]T, 0, n)
	for ; n > 0; n-- {
		out = append(out, r.lines[(r.next+i)%len(r.lines)])
		i++
	}
	return out
}

// from returns at most n lines that were added after the first at, of those that are still there, and how many are not.
// Without any it returns what is closed when one is added.
func (r *ring[T]) from(at uint64, n int) (lines []T, lost uint64, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if oldest := r.count - uint64(len(r.lines)); at < oldest {
		lost, at = oldest-at, oldest
	}
	if left := int(r.count - at); left > 0 {
		return r.copied(len(r.lines)-left, min(left, n)), lost, nil
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return nil, lost, r.changed
}

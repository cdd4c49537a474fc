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

// A ring keeps the last lines.
type ring struct {
	mu    sync.Mutex
	lines []string // at most kept
	next  int      // the index to overwrite next, when full
}

func (r *ring) add(line []byte) {
	text := strings.TrimSuffix(string(line[:min(len(line), longest)]), "\n")
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) < kept {
		r.lines = append(r.lines, text)
		return
	}
	r.lines[r.next] = text
	r.next = (r.next + 1) % kept
}

// last returns the last n lines, the oldest first.
func (r *ring) last(n int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = min(max(n, 0), len(r.lines))
	out := make([]string, 0, n)
	for i := len(r.lines) - n; i < len(r.lines); i++ {
		out = append(out, r.lines[(r.next+i)%len(r.lines)])
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0

package bench

// #include "lines.h"
import "C"

import (
	"fmt"
	"syscall"

	"causeway/tables"
)

const cacheLine = 64

// written is memory that is written while packets pass.
type written struct {
	at, len uint64
	writer  string // worker N, or another user of its rings
	what    string
}

// writtenBy lists what n workers write, made as the bridge makes them, and what the other users of their rings write.
func writtenBy(t *tables.Tables, n, groups int) ([]written, error) {
	p := C.line_probe_new((*C.struct_tables)(t.Pointer()), C.uint(n), C.uint(groups))
	if p == nil {
		return nil, fmt.Errorf("bench: make %d workers: %w", n, syscall.ENOMEM)
	}
	defer C.line_probe_free(p)
	var all []written
	for w := range n {
		var ranges [C.LINES_MAX]C.struct_range
		for _, r := range ranges[:C.line_probe_ranges(p, C.uint(w), &ranges[0])] {
			by := map[C.enum_writer]string{
				C.BY_WORKER: "worker %d", C.BY_MANAGEMENT: "management, for worker %d", C.BY_OTHERS: "other workers, for worker %d",
			}[r.writer]
			all = append(all, written{uint64(r.at), uint64(r.len), fmt.Sprintf(by, w), fmt.Sprintf("%s of %d", C.GoString(&r.what[0]), w)})
		}
	}
	return all, nil
}

// shared counts the cache lines, and names those with two writers.
func shared(all []written) (lines int, faults []string) {
	owner := map[uint64]written{}
	for _, r := range all {
		for line := r.at / cacheLine; line <= (r.at+r.len-1)/cacheLine; line++ {
			first, taken := owner[line]
			if !taken {
				owner[line] = r
			} else if first.writer != r.writer {
				faults = append(faults, fmt.Sprintf("line %#x: %s (%s) and %s (%s)", line*cacheLine, first.what, first.writer, r.what, r.writer))
			}
		}
	}
	return len(owner), faults
}

// CheckLines makes sure that no cache line has two writers, and returns how many lines it checked.
func CheckLines(n, groups int) (lines int, err error) {
	t, err := tables.New(tables.Config{MaxReaders: n, MaxGroups: groups})
	if err != nil {
		return 0, err
	}
	defer t.Close()
	all, err := writtenBy(t, n, groups)
	if err != nil {
		return 0, err
	}
	lines, faults := shared(all)
	if len(faults) > 0 {
		return lines, fmt.Errorf("bench: %d cache lines have two writers, the first: %s", len(faults), faults[0])
	}
	return lines, nil
}

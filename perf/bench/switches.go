// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"causeway/lcore"
)

// switchRows counts the voluntary context switches of the worker's thread while Go's garbage collector runs all the
// time: each is a wait. Preemption does not count.
func switchRows(cfg *Config) ([]Row, error) {
	cfg.progress("garbage collection beside a worker")
	s := square(Small)
	t, err := s.newTables()
	if err != nil {
		return nil, err
	}
	defer t.Close()
	r, err := newRig(s, t, lcore.RoCEToIB, 64)
	if err != nil {
		return nil, err
	}
	defer r.close()
	n, err := switches(cfg, r.lanes[0].worker())
	if err != nil {
		return nil, err
	}
	row := Row{What: "voluntary switches beside GC", Payload: 64, Value: float64(n), Limit: limit(0), section: threads}
	return []Row{row}, r.verify()
}

// switches runs a loop while the garbage collector runs, for at least a few of its cycles.
func switches(cfg *Config, l loop) (uint64, error) {
	const cycles = 10
	at := cfg.Lcores[0]
	if err := l.start(at.id); err != nil {
		return 0, err
	}
	defer l.stop()
	if _, _, err := cfg.wait(at, l, cfg.Window); err != nil {
		return 0, err
	}
	before, err := voluntarySwitches(at.tid)
	if err != nil {
		return 0, err
	}
	moved, start := l.done(), time.Now()
	heap := make([]*[64]byte, 0, 1<<18)
	for n := 0; n < cycles || time.Since(start) < 20*cfg.Window; n++ {
		for heap = heap[:0]; len(heap) < cap(heap); {
			heap = append(heap, new([64]byte))
		}
		runtime.GC()
	}
	runtime.KeepAlive(heap)
	after, err := voluntarySwitches(at.tid)
	if err == nil && l.done() == moved {
		err = errors.New("bench: the worker moved nothing beside the garbage collector")
	}
	return after - before, err
}

// voluntarySwitches is how often a thread of this process has waited.
func voluntarySwitches(tid int) (uint64, error) {
	name := fmt.Sprintf("/proc/self/task/%d/status", tid)
	data, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
			return strconv.ParseUint(strings.TrimSpace(v), 10, 64)
		}
	}
	return 0, fmt.Errorf("bench: %s has no voluntary_ctxt_switches", name)
}

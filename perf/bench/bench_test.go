// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"runtime"
	"testing"
	"time"

	"causeway/dpdk"
	"causeway/perf/bench"
)

// A short run of every cell: packets move, none is dropped (Run refuses otherwise), nothing leaks (closing a rig
// panics otherwise), and reading bytes costs more than not reading them. How fast it is, is no test's business.
func TestRun(t *testing.T) {
	eal, err := dpdk.Init(dpdk.EALConfig{Name: "benchtest", Workers: []int{runtime.NumCPU() - 1}, MemoryMiB: 128, ForceNoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := eal.Close(); err != nil {
			t.Error(err)
		}
	}()
	cfg := bench.Default
	cfg.Repetitions, cfg.Window, cfg.Lcore = 1, 5*time.Millisecond, eal.WorkerLcores()[0]
	cells, err := bench.Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 * len(cfg.Payloads); len(cells) != want {
		t.Fatalf("%d cells, want %d", len(cells), want)
	}
	for _, c := range cells {
		if c.Path <= 0 || c.Floor <= 0 || c.Touch <= 0 {
			t.Errorf("%+v", c)
		}
	}
}

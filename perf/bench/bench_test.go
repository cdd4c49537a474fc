// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"causeway/dpdk"
	"causeway/lcore"
	"causeway/tables"
)

// lcores are those of all tests: on the last CPU, and on the first one if there are two.
var lcores []Lcore

func TestMain(m *testing.M) {
	code, err := withEAL(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withEAL(run func() int) (code int, err error) {
	cpus := []int{runtime.NumCPU() - 1}
	if cpus[0] > 0 {
		cpus = append(cpus, 0)
	}
	if err := Begin(); err != nil {
		return 1, err
	}
	eal, err := dpdk.Init(dpdk.EALConfig{Name: "benchtest", Workers: cpus, MemoryMiB: 256, ForceNoHuge: true})
	if err != nil {
		return 1, err
	}
	for _, id := range eal.WorkerLcores() {
		l, err := NewLcore(id)
		if err != nil {
			return 1, err
		}
		lcores = append(lcores, l)
	}
	code = run()
	return code, eal.Close()
}

func short() Config { return Config{Lcores: lcores, Repetitions: 1, Window: 5 * time.Millisecond} }

func shapeTables(t *testing.T, s shape) *tables.Tables {
	t.Helper()
	tab, err := s.newTables()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tab.Close)
	return tab
}

func testRig(t *testing.T, s shape, d lcore.Direction, size int) *rig {
	t.Helper()
	return rigAt(t, s, shapeTables(t, s), d, size)
}

func rigAt(t *testing.T, s shape, tab *tables.Tables, d lcore.Direction, size int) *rig {
	t.Helper()
	r, err := newRig(s, tab, d, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return r
}

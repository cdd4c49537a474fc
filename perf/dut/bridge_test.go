// SPDX-License-Identifier: Apache-2.0

package dut_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"causeway/dpdk"
	"causeway/perf/dut"
	"causeway/perf/trial"
)

// lcores of the test's EAL: a worker's and a generator's. On one CPU there is but one, and the tests say so.
var lcores []uint

func TestMain(m *testing.M) {
	os.Exit(withEAL(m))
}

func withEAL(m *testing.M) int {
	if runtime.NumCPU() < 2 {
		fmt.Println("these tests need two CPUs: a worker's, and the generator's")
		return 1
	}
	eal, err := dpdk.Init(dpdk.EALConfig{Name: "duttest", Workers: []int{0, 1}, MemoryMiB: 256, ForceNoHuge: true})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	lcores = eal.WorkerLcores()
	code := m.Run()
	if err := eal.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return code
}

func build(t *testing.T, traffic dut.Traffic) *dut.Bridge {
	t.Helper()
	b, err := dut.New(dut.Config{Workers: lcores[:1], Generators: lcores[1:], Traffic: traffic, CheckEvery: 1, Drain: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// A light load of everything crosses whole: nothing is lost, changed, doubled or misdelivered.
func TestEverythingCrosses(t *testing.T) {
	for _, x := range []struct {
		name    string
		traffic dut.Traffic
	}{
		{"IPv4", dut.Traffic{Payloads: []int{64}, Flows: 100, IP: []int{4}}},
		{"IPv6 in a VLAN", dut.Traffic{Payloads: []int{64, 1024}, Flows: 100, IP: []int{6}, VLAN: 300}},
		{"all lengths", dut.Traffic{Payloads: []int{32, 33, 34, 35, 4093, 4096, 100}, Flows: 210, IP: []int{4, 6}}},
		{"groups", dut.Traffic{Payloads: []int{64}, Flows: 7, IP: []int{4, 6}, Groups: 50, Share: 0.5}},
	} {
		t.Run(x.name, func(t *testing.T) {
			b := build(t, x.traffic)
			both := []trial.Direction{trial.RoCEToIB, trial.IBToRoCE}
			l := trial.At(both, 50000, 0)
			l.Packets = 900 // fewer than a queue holds: on a busy machine a worker may be away for long
			o, err := b.Run(t.Context(), l)
			if err != nil {
				t.Fatal(err)
			}
			for d, c := range o.Counts {
				if c.Offered != l.Packets || c.Received != c.Offered || c.Checked != c.Received ||
					c.Corrupted+c.Misdelivered+c.Duplicates+c.Reordered+c.Stale != 0 {
					t.Errorf("%v: %+v", trial.Direction(d), c)
				}
				if n := o.Latency[d].TotalCount(); n != int64(c.Received) {
					t.Errorf("%v: latencies of %d messages", trial.Direction(d), n)
				}
			}
			if o.Foreign+o.Stray+o.Starved != 0 || len(o.Drops) != 0 {
				t.Errorf("foreign %d, stray %d, starved %d, drops %v", o.Foreign, o.Stray, o.Starved, o.Drops)
			}
		})
	}
}

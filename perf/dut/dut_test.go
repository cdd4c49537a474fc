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

// lcores of the test's EAL: a worker's and a generator's, on a CPU each, and a second pair that shares those CPUs.
var lcores []uint

func TestMain(m *testing.M) {
	os.Exit(withEAL(m))
}

func withEAL(m *testing.M) int {
	if runtime.NumCPU() < 2 {
		fmt.Println("these tests need two CPUs: a worker's, and the generator's")
		return 1
	}
	eal, err := dpdk.Init(dpdk.EALConfig{Name: "duttest", Workers: []int{0, 1, 0, 1}, ShareCPUs: true, MemoryMiB: 256, ForceNoHuge: true})
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

func build(t *testing.T, traffic dut.Traffic) *dut.DUT {
	t.Helper()
	return buildPairs(t, 1, traffic)
}

func buildPairs(t *testing.T, pairs int, traffic dut.Traffic) *dut.DUT {
	t.Helper()
	return buildDrained(t, pairs, 200*time.Millisecond, traffic)
}

// buildDrained is for runs in which nothing is lost, too: these end when all has arrived, so drain may be as long as a
// busy machine keeps a worker from its CPU.
func buildDrained(t *testing.T, pairs int, drain time.Duration, traffic dut.Traffic) *dut.DUT {
	t.Helper()
	cfg := dut.Config{Traffic: traffic, CheckEvery: 1, Drain: drain}
	for i := range pairs {
		cfg.Workers, cfg.Generators = append(cfg.Workers, lcores[2*i]), append(cfg.Generators, lcores[2*i+1])
	}
	d, err := dut.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// everything has all kinds of traffic.
var everything = []struct {
	name    string
	traffic dut.Traffic
}{
	{"IPv4", dut.Traffic{Payloads: []int{64}, Flows: 100, IP: []int{4}}},
	{"IPv6 in a VLAN", dut.Traffic{Payloads: []int{64, 1024}, Flows: 100, IP: []int{6}, VLAN: 300}},
	{"all lengths", dut.Traffic{Payloads: []int{32, 33, 34, 35, 4093, 4096, 100}, Flows: 210, IP: []int{4, 6}}},
	{"groups", dut.Traffic{Payloads: []int{64}, Flows: 7, IP: []int{4, 6}, Groups: 50, Share: 0.5}},
}

var both = []trial.Direction{trial.RoCEToIB, trial.IBToRoCE}

// light is a load of fewer messages than a queue holds: on a busy machine a worker may be preempted for long.
func light() trial.Load {
	l := trial.At(both, 50000, 0)
	l.Packets = 900
	return l
}

// A light load of all traffic is forwarded by one worker and by two: nothing is lost, changed, duplicated or
// misdelivered.
func TestEverythingIsForwarded(t *testing.T) {
	for pairs := 1; 2*pairs <= len(lcores); pairs++ {
		for _, x := range everything {
			t.Run(fmt.Sprintf("%s, %d workers", x.name, pairs), func(t *testing.T) {
				o, err := buildPairs(t, pairs, x.traffic).Run(t.Context(), light())
				if err != nil {
					t.Fatal(err)
				}
				checkWhole(t, o, light().Packets)
			})
		}
	}
}

func checkWhole(t *testing.T, o trial.Outcome, packets uint64) {
	t.Helper()
	for dir, c := range o.Counts {
		if c.Offered != packets || c.Received != c.Offered || c.Checked != c.Received ||
			c.Corrupted+c.Misdelivered+c.Duplicates+c.Reordered+c.Stale != 0 {
			t.Errorf("%v: %+v", trial.Direction(dir), c)
		}
		if n := o.Latency[dir].TotalCount(); n != int64(c.Received) {
			t.Errorf("%v: latencies of %d messages", trial.Direction(dir), n)
		}
	}
	if o.Foreign+o.Stray+o.Starved != 0 || len(o.Drops) != 0 {
		t.Errorf("foreign %d, stray %d, starved %d, drops %v", o.Foreign, o.Stray, o.Starved, o.Drops)
	}
	if o.Taken != 2*packets || o.Bursts == 0 || o.Bursts > o.Taken {
		t.Errorf("%d messages taken in %d bursts", o.Taken, o.Bursts)
	}
}

// Each of two workers forwards its share of a load, and joins and leaves affect both.
func TestTwoWorkers(t *testing.T) {
	d := buildPairs(t, 2, dut.Traffic{Payloads: []int{64}, Flows: 9, IP: []int{4, 6}, Groups: 6, Share: 0.5})
	if err := d.SetGroups(5); err != nil {
		t.Fatal(err)
	}
	l := light()
	o, err := d.Run(t.Context(), l)
	if err != nil || d.Missing() != 0 {
		t.Fatalf("%d of 5 groups got nothing, %v", d.Missing(), err)
	}
	checkWhole(t, o, l.Packets)
	for i, n := range d.TakenBy() {
		if n != l.Packets { // half of each direction's messages
			t.Errorf("worker %d took %d messages of %d", i, n, 2*l.Packets)
		}
	}
	for group := 3; group < 5; group++ { // one of each worker's
		left, err := d.Leave(t.Context(), trial.At(both[:1], 20000, 100*time.Millisecond), group)
		if err != nil {
			t.Fatal(err)
		}
		joined, err := d.Join(t.Context(), trial.At(both[:1], 20000, 100*time.Millisecond), group)
		if err != nil {
			t.Fatal(err)
		}
		if max(left, joined) > 30*time.Second {
			t.Errorf("group %d: left in %v, joined in %v", group, left, joined)
		}
	}
}

// Burst size adapts: at a light load nearly one message, in a flood as many as there are.
func TestBurstsAdapt(t *testing.T) {
	d := build(t, everything[0].traffic)
	perBurst := func(rate float64) float64 {
		o, err := d.Run(t.Context(), trial.At(both[:1], rate, 100*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		return o.PerBurst()
	}
	// So few that no burst is made while the worker is away, as it is on a busy machine.
	if few, many := perBurst(200), perBurst(trial.Flood); many < 4*few {
		t.Errorf("%.1f messages a burst at a light load, %.1f in a flood", few, many)
	}
}

// A generator by itself loses nothing, and compares as many messages as CheckEvery says.
func TestLoopback(t *testing.T) {
	e, err := dut.NewLoopback(lcores[1], everything[2].traffic)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	e.CheckEvery = 1
	o, err := e.Run(t.Context(), trial.At(both[:1], 100000, 10*time.Millisecond))
	c := o.Counts[trial.RoCEToIB]
	if err := e.CountRunDelay(os.Getpid()); err != nil {
		t.Error(err)
	}
	if err := e.CountRunDelay(1 << 22); err == nil { // larger than any process id
		t.Error("a process that is not there has lcores")
	}
	if err != nil || c.Received == 0 || c.Received != c.Offered || c.Checked != c.Received || c.Corrupted+c.Misdelivered != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

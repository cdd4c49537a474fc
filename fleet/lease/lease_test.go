// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"causeway/fleet/shards"
)

// seeds are those that the simulation runs, without the last one; CAUSEWAY_FLEET_SEEDS has others, as 100000, or 50000-100000.
func seeds(t *testing.T) (from, to uint64) {
	t.Helper()
	text := os.Getenv("CAUSEWAY_FLEET_SEEDS")
	switch {
	case text != "":
		first, last, both := strings.Cut(text, "-")
		if !both {
			first, last = "0", text
		}
		from, err := strconv.ParseUint(first, 10, 64)
		to, err2 := strconv.ParseUint(last, 10, 64)
		if err != nil || err2 != nil || from >= to {
			t.Fatalf("CAUSEWAY_FLEET_SEEDS=%s is no number of seeds, as 100000, nor the first of them and the one after the last, as 50000-100000", text)
		}
		return from, to
	case testing.Short():
		return 0, 50
	}
	return 0, 300
}

// Whatever happens to processes, clocks, the store and the ways to it: no shard is forwarded twice, and afterwards all are.
func TestSimulation(t *testing.T) {
	from, to := seeds(t)
	n := to - from
	handovers, passed, agreed := 0, 0, 0
	for seed := from; seed < to; seed++ {
		if done := seed - from; done > 0 && done%5000 == 0 {
			t.Logf("%d of %d seeds are done", done, n)
		}
		s, err := simulate(t, seed, func(*simulation, *Member) {})
		if err != nil {
			t.Error(err)
			continue
		}
		agreed += s.agreed
		word := int(seed) % len(set{})
		if !s.linear(word) {
			t.Errorf("seed %d: porcupine finds no order", seed)
		}
		for _, p := range s.processes {
			passed += p.pass.passed
		}
		all := s.held(word)
		for i := range all {
			if i > 0 && all[i].process.machine != all[i-1].process.machine {
				handovers++
			}
		}
	}
	t.Logf("%d seeds, %.1f hand-overs of a shard each; %d shards passed with what was kept; %.1f leases by promises", n,
		float64(handovers)/float64(n), passed/int(n), float64(agreed)/float64(n))
	if handovers < int(n) {
		t.Errorf("only %d hand-overs in %d seeds: the simulation proves little", handovers, n)
	}
	if agreed < 5*int(n) {
		t.Errorf("only %d leases by promises in %d seeds: the simulation proves little", agreed, n)
	}
	if passed < shards.Count/3*int(n) {
		t.Errorf("only %d shards in %d seeds passed with what was kept", passed, n)
	}
}

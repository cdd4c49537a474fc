// SPDX-License-Identifier: Apache-2.0

package right

import (
	"os"
	"strconv"
	"testing"

	"causeway/fleet/shares"
)

// seeds is how many the simulation runs; CAUSEWAY_FLEET_SEEDS says more.
func seeds(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("CAUSEWAY_FLEET_SEEDS")
	switch {
	case text != "":
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("CAUSEWAY_FLEET_SEEDS: %v", err)
		}
		return n
	case testing.Short():
		return 50
	}
	return 300
}

// Whatever happens to processes, clocks, the store and the ways to it: no share is forwarded twice, and afterwards all are.
func TestSimulation(t *testing.T) {
	n := seeds(t)
	handovers, passed, agreed := 0, 0, 0
	for seed := range n {
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
	t.Logf("%d seeds, %.1f hand-overs of a share each; %d shares passed with what was kept; %.1f rights by promises", n,
		float64(handovers)/float64(n), passed/int(n), float64(agreed)/float64(n))
	if handovers < int(n) {
		t.Errorf("only %d hand-overs in %d seeds: the simulation proves little", handovers, n)
	}
	if agreed < 5*int(n) {
		t.Errorf("only %d rights by promises in %d seeds: the simulation proves little", agreed, n)
	}
	if passed < shares.Count/2*int(n) {
		t.Errorf("only %d shares in %d seeds passed with what was kept", passed, n)
	}
}

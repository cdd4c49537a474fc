// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"causeway/fleet/shards"
)

// TestFleetOfSixteen has sixteen bridges at once on this machine, of which one is drained, one is killed and comes back, and one ends.
// make fleet-figures runs it: sixteen workers on two CPUs leave no time to other tests.
func TestFleetOfSixteen(t *testing.T) {
	if os.Getenv(figuresFile) == "" {
		t.Skip("sixteen bridges need the machine for themselves: run sudo make fleet-figures")
	}
	const members, moment = 16, 3 * 150 * time.Millisecond
	f := newFleet(t, members)
	f.keys, f.rate = "lease_ms = 10000\n", 4
	var all []int
	for n := 1; n <= members; n++ {
		f.start(n)
		all = append(all, n)
	}
	but := func(n int) []int { return slices.DeleteFunc(slices.Clone(all), func(x int) bool { return x == n }) }
	const each = shards.Hosts / members
	f.shard("as many each", each, all...)
	f.spread()
	f.during("no fault, of sixteen", 0, func() {})
	f.during("one of sixteen is drained and resumes", 0, func() {
		f.drain(1)
		f.shard("as many each after the drain", each, but(1)...)
		f.ctl(1, "fleet", "resume")
		f.shard("as many each when it has resumed", each, all...)
	})
	f.during("one of sixteen is killed", moment, func() {
		signalTo(t, f.members[2], syscall.SIGKILL)
		f.shard("as many each after the kill", each, but(2)...)
		f.members[2].wait()
	})
	f.during("it is back, of sixteen", 0, func() {
		f.start(2)
		f.shard("as many each again", each, all...)
	})
	f.during("one of sixteen ends, and is back", 0, func() {
		f.members[3].end(syscall.SIGTERM)
		f.shard("as many each of those that stay", each, but(3)...)
		f.start(3)
		f.shard("as many each with it", each, all...)
	})
	t.Log("\n" + f.ctl(1, "show", "fleet"))
	f.conserved()
}

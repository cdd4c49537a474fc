// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"

	"causeway/fleet/shards"
)

// TestFleetUpgrade upgrades three bridges one by one, from the build that CAUSEWAY_FLEET_BEFORE names to this one, under traffic,
// and has each of them leave its work to the others and take it back while builds are mixed. Nothing is lost. make fleet-upgrade
// makes that build; of what is tested always there is only one.
func TestFleetUpgrade(t *testing.T) {
	before := os.Getenv("CAUSEWAY_FLEET_BEFORE")
	if before == "" {
		t.Skip("no earlier build is named: run sudo make fleet-upgrade BEFORE=COMMIT")
	}
	f := newFleet(t, 3)
	f.keys, f.build = f.keys+"without_etcd = \"unanimous\"\n", before
	all := func(what string) { f.shard(what, shards.Hosts/3, 1, 2, 3) }
	for n := range 3 {
		f.start(n + 1)
	}
	all("a third each")
	f.build = ""
	for n := 1; n <= 3; n++ {
		f.during(fmt.Sprintf("m%d is upgraded", n), 0, func() {
			f.members[n].end(syscall.SIGTERM)
			f.start(n)
			all("a third each after an upgrade")
		})
		for m := 1; m <= 3; m++ {
			f.during(fmt.Sprintf("m%d is drained and resumes, while %d are upgraded", m, n), 0, func() {
				f.ctl(m, "fleet", "drain")
				f.shard("half each: builds are mixed", shards.Hosts/2, slices.DeleteFunc([]int{1, 2, 3}, func(x int) bool { return x == m })...)
				f.ctl(m, "fleet", "resume")
				all("a third each: builds are mixed")
			})
		}
	}
	f.conserved()
}

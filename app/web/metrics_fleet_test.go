// SPDX-License-Identifier: Apache-2.0

package web

import (
	"strings"
	"testing"
	"time"

	"causeway/app/bridge"
	"causeway/fleet/bfd"
	"causeway/fleet/peers"
)

func (fake) Part() (bridge.Part, bool) {
	return bridge.Part{Fleet: "east", Hosts: 72, Groups: 73, Lease: 740 * time.Millisecond, Lapses: 75, WithoutEtcd: true, Unheard: map[string]uint64{"unsigned": 76}, Answered: 77, Announced: 78,
		Sessions: []peers.Session{{Member: "m2", Way: "ethernet", State: bfd.Up}, {Member: "m2", Way: "infiniband", State: bfd.Down}}}, true
}

func TestFleetMetrics(t *testing.T) {
	var b strings.Builder
	writeMetrics(&b, newFake(), options())
	for _, want := range []string{
		"causeway_fleet_takes_part 1", `causeway_fleet_shards{fleet="east",kind="host"} 72`, `causeway_fleet_shards{fleet="east",kind="group"} 73`,
		"causeway_fleet_lease_seconds 0.740", "causeway_fleet_lease_lapses_total 75",
		"causeway_fleet_without_etcd 1", "causeway_fleet_ipoib_answers_total 77", "causeway_fleet_ipoib_announcements_total 78", `causeway_fleet_peer_drops_total{reason="unsigned"} 76`, `causeway_fleet_peer_up{member="m2",fabric="ethernet"} 1`, `causeway_fleet_peer_up{member="m2",fabric="infiniband"} 0`,
	} {
		if !strings.Contains(b.String(), "\n"+want+"\n") {
			t.Errorf("there is no %s", want)
		}
	}
}

// TestFleetQueries checks that a member of a fleet has what is in the rules and panels of fleets.
func TestFleetQueries(t *testing.T) {
	var b strings.Builder
	writeMetrics(&b, newFake(), options())
	s, checked := scrapeOf(b.String()), 0
	for _, q := range queries(t) {
		if !strings.Contains(q.expr, "causeway_fleet_") {
			continue
		}
		checked++
		for _, wrong := range s.check(q) {
			t.Errorf("%s: %s: %s", q.where, q.expr, wrong)
		}
	}
	if checked < 8 || s.check(query{"", `causeway_fleet_shards{kind="nosuch"}`}) == nil {
		t.Errorf("%d queries were checked", checked)
	}
}

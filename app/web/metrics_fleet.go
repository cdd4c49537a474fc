// SPDX-License-Identifier: Apache-2.0

package web

import (
	"maps"
	"slices"
	"strconv"

	"causeway/app/bridge"
	"causeway/fleet/bfd"
)

// severalBridges is a source that may be one of a fleet.
type severalBridges interface {
	Part() (p bridge.Part, in bool)
}

// fleetMetrics have samples in a fleet only.
var fleetMetrics = []Metric{
	{"causeway_fleet_takes_part", gauge, nil, "1 when the bridge can do its part of the fleet's work."},
	{"causeway_fleet_shards", gauge, []string{"fleet", "kind"}, "Shards of the fleet's work that the bridge forwards. Of all members together, 64 of hosts and 4096 of groups."},
	{"causeway_fleet_lease_seconds", gauge, nil, "How long the bridge may still forward without a renewal; below 0: since when it may not."},
	{"causeway_fleet_without_etcd", gauge, nil, "1 while the bridge forwards by the other members' promises, because etcd does not answer."},
	{"causeway_fleet_peer_up", gauge, []string{"member", "fabric"}, "1 while the bridge and another member hear each other on a fabric."},
	{"causeway_fleet_peer_drops_total", counter, []string{"reason"}, "Messages between members that were not taken, or could not be sent."},
	{"causeway_fleet_ipoib_answers_total", counter, nil, "ARP requests and neighbour solicitations of InfiniBand nodes on IPoIB that the bridge has answered for RoCE hosts."},
	{"causeway_fleet_ipoib_announcements_total", counter, nil, "Announcements on IPoIB of RoCE hosts that have come to the bridge."},
	{"causeway_fleet_put_off_total", counter, nil, "Times that shards of the bridge could not pass to other members without a loss, and stayed for a while."},
	{"causeway_fleet_lease_lapses_total", counter, nil, "Times that the bridge had no lease to forward, because etcd did not answer in time."},
}

func (s *scrape) fleet(src Source) {
	b, ok := src.(severalBridges)
	if !ok {
		return
	}
	p, in := b.Part()
	if !in {
		return
	}
	s.boolean("causeway_fleet_takes_part", p.Why == "")
	s.add("causeway_fleet_shards", uint64(p.Hosts), "fleet", p.Fleet, "kind", "host")
	s.add("causeway_fleet_shards", uint64(p.Groups), "fleet", p.Fleet, "kind", "group")
	s.sample("causeway_fleet_lease_seconds", "", strconv.FormatFloat(p.Lease.Seconds(), 'f', 3, 64), nil)
	s.boolean("causeway_fleet_without_etcd", p.WithoutEtcd && p.Lease > 0)
	for _, x := range p.Sessions {
		s.boolean("causeway_fleet_peer_up", x.State == bfd.Up, "member", x.Member, "fabric", x.Way)
	}
	for _, why := range slices.Sorted(maps.Keys(p.Unheard)) {
		s.add("causeway_fleet_peer_drops_total", p.Unheard[why], "reason", why)
	}
	s.add("causeway_fleet_ipoib_answers_total", p.Answered)
	s.add("causeway_fleet_ipoib_announcements_total", p.Announced)
	s.add("causeway_fleet_put_off_total", p.PutOff)
	s.add("causeway_fleet_lease_lapses_total", p.Lapses)
}

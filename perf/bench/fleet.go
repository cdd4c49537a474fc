// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"slices"
	"time"

	"causeway/fleet/shares"
	"causeway/lcore"
	"causeway/lcore/frame"
)

// virtualMAC is that of a fleet's host share 0.
var virtualMAC = frame.MAC{2, 0xca, 0x5e, 0, 0, 0}

// fleetRows compares a worker of a fleet's member with that of a bridge alone.
func fleetRows(cfg *Config) ([]Row, error) {
	groups := square(Small)
	groups.groups = extraGroups
	unicast, err := compare(cfg, memberLimit, memberOf(square(Small), "bridge alone"))
	if err != nil {
		return nil, err
	}
	multicast, err := compare(cfg, memberLimit, memberOf(groups, "bridge alone, groups"))
	return append(unicast, multicast...), err
}

// memberOf is the shape of a bridge alone, and that of a fleet's member.
func memberOf(s shape, alone string) []variant {
	with := s
	with.member = true
	what := "member of a fleet"
	if s.multicast() {
		what += ", groups"
	}
	return []variant{{what: alone, shape: s}, {what: what, shape: with}}
}

// stationMAC is to what host's packets for nodes are sent.
func (s shape) stationMAC() frame.MAC {
	if !s.member {
		return bridgeMAC
	}
	m := virtualMAC
	m[5] = byte(shares.OfHost(hostMAC))
	return m
}

// part is what a member does: all that the shape's packets need, and not all.
func (s shape) part() *lcore.Part {
	var p lcore.Part
	p.Open.Hosts = ^(uint64(1) << ((shares.OfHost(hostMAC) + 1) % shares.Hosts))
	used := make([]shares.Share, s.groups)
	for i := range used {
		used[i] = shares.OfGroup(mgid(i)) - shares.Hosts
	}
	for x := range shares.Share(shares.Groups) {
		if x%2 == 0 || slices.Contains(used, x) {
			p.Open.Groups[x/64] |= 1 << (x % 64)
		}
	}
	return &p
}

// join gives the workers, which are made later, what a member may do.
func (r *rig) join() error {
	rights := lcore.RightsOf(r.datapath)
	rights.SetDeadline(time.Now().Add(24 * time.Hour))
	return rights.Set(context.Background(), r.shape.part())
}

// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"slices"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/groups"
	"causeway/lcore/manage/local"
)

// makeShared makes the groups that several segments have. The segments report them on their RoCE sides.
func (l *Loop) makeShared() {
	l.shared = groups.New(groups.Config{
		Max: l.cfg.MaxGroups, Version: 2, IBMTU: l.cfg.IBMTU, RoCEMTU: ib.MTU4096.Bytes(), EthMTU: leastMTU(l.cfg.segments()), Quiet: true,
		Begin: l.cfg.Begin, Police: l.cfg.Police,
	}, groups.Deps{
		Tables: l.tables.Shared, Port: l.port, Local: &local.Addresses{}, Frames: l.frames, Ask: l.ask, Log: l.log, Owners: &l.owners,
		IsPeer: func(netip.Addr) bool { return false }, IsBridge: func(frame.MAC) bool { return false }, Partition: l.partitions.Number,
	})
}

// leastMTU is the largest IP packet that all segments can have, bytes.
func leastMTU(segments []Segment) int {
	return slices.MinFunc(segments, func(a, b Segment) int { return a.EthMTU - b.EthMTU }).EthMTU
}

// sharedGroups are the groups with the numbers of their segments.
func (p *parts) sharedGroups(all []SharedGroup) (out []Group) {
	for _, x := range all {
		g := x.Group
		for _, s := range p.segments {
			if slices.Contains(x.In, s.cfg.Place) {
				g.Segments |= 1 << s.number
			}
		}
		out = append(out, g)
	}
	return out
}

// narrowShared ends what is not to be of the groups that several segments have, before the segments' own groups change:
// one of these may take an address over. It returns what is to be, for setShared, which comes after them.
func (p *parts) narrowShared(all []SharedGroup, now time.Time) ([]Group, error) {
	list := p.sharedGroups(all)
	var stay []Group
	for _, was := range p.sharing {
		i := slices.IndexFunc(list, func(x Group) bool { return x.MGID == was.MGID && x.Addr() == was.Addr() })
		if i < 0 || was.Segments&list[i].Segments == 0 {
			continue
		}
		was.Segments &= list[i].Segments
		stay = append(stay, was)
	}
	var segments []Segment
	for _, s := range p.segments {
		segments = append(segments, s.cfg)
		s.groups.SetGuests(slices.DeleteFunc(slices.Clone(list), func(g Group) bool { return g.Segments>>s.number&1 == 0 }), now)
	}
	p.shared.SetEthMTU(leastMTU(segments))
	return list, p.shared.Set(stay)
}

// setShared makes these the groups that several segments have.
func (p *parts) setShared(list []Group) error {
	p.sharing = list
	p.shared.SetMax(len(list))
	return p.shared.Set(list)
}

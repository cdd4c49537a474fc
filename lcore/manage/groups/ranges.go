// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"slices"

	"causeway/ibside"
	"causeway/lcore/manage/groups/mgid"
)

// SetRanges makes these the ranges whose groups are learned. A group goes on when the range that it is in now gives it
// the same MGID and the reason that it was learned for still counts, even when the range has more groups than it may;
// the others end.
func (g *Groups) SetRanges(ranges []Range) {
	l := g.learner
	var kept []*membership
	for _, m := range l.byIP {
		if keeps(ranges, m) {
			kept = append(kept, m)
		} else {
			l.end(m, "range changed")
		}
	}
	l.setRanges(ranges)
	for _, m := range kept {
		l.moveRange(m)
	}
	for mgid := range l.onSubnet {
		if _, in := l.addressOf(mgid); in >= 0 && g.groups[mgid] == nil {
			l.noticed(ibside.Notice{MGID: mgid})
		}
	}
}

func (l *learner) setRanges(ranges []Range) {
	l.ranges, l.perRange, l.perHost, l.prefixes = slices.Clone(ranges), make([]int, len(ranges)), map[rangeHost]int{}, nil
	for _, r := range l.ranges {
		l.prefixes = append(l.prefixes, mgid.Of(r.Prefix, r.MGID))
	}
}

// moveRange makes a learned group one of the range that its address is in now.
func (l *learner) moveRange(m *membership) {
	w := m.learned
	w.in = l.rangeOf(m.IP)
	l.perRange[w.in]++
	l.perHost[rangeHost{w.in, w.by}]++
	r := &l.ranges[w.in]
	w.sa = w.sa && r.SA
	if !r.Reports {
		w.clearHosts()
	}
	x := r.Group
	x.IP, x.MGID = m.IP, m.MGID
	if !x.equals(&m.Group) {
		l.groups.want(x, w)
	}
	l.groups.pursue(m)
}

// keeps reports whether a learned group stays one with these ranges.
func keeps(ranges []Range, m *membership) bool {
	i := slices.IndexFunc(ranges, func(r Range) bool { return r.Prefix.Contains(m.IP) })
	if i < 0 || ranges[i].MGID(m.IP) != m.MGID {
		return false
	}
	return ranges[i].Reports && m.learned.listeners.Any() || ranges[i].SA && m.learned.sa
}

// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"slices"

	"causeway/lcore/manage/inverse"
)

// setRanges makes these the ranges whose groups are learnt. Groups that another state of their range has, with the same MGID and
// for a reason that still counts, go on; the others end. More of them than the range may have now go on, too.
func (l *Loop) setRanges(ranges []Range) {
	var kept []*membership
	for _, m := range l.learnedAt {
		if keeps(ranges, m) {
			kept = append(kept, m)
		} else {
			l.forgetGroup(m, "range changed")
		}
	}
	l.cfg.Ranges = slices.Clone(ranges)
	l.inRange, l.inverses = make([]int, len(ranges)), nil
	for _, r := range l.cfg.Ranges {
		l.inverses = append(l.inverses, inverse.Of(r.Prefix, r.MGID))
	}
	for _, m := range kept {
		w := m.learned
		w.in = l.rangeOf(m.IP)
		l.inRange[w.in]++
		r := &l.cfg.Ranges[w.in]
		w.sa = w.sa && r.SA
		if !r.Reports {
			w.forgetHosts()
		}
		g := r.Group
		g.IP, g.MGID = m.IP, m.MGID
		if g != m.Group {
			l.want(g, w)
		}
		l.pursue(m)
	}
	for mgid := range l.has {
		if _, in := l.addressOf(mgid); in >= 0 && l.groups[mgid] == nil {
			l.noticed(Notice{MGID: mgid})
		}
	}
}

// keeps reports whether a learnt group is one of these ranges', too.
func keeps(ranges []Range, m *membership) bool {
	i := slices.IndexFunc(ranges, func(r Range) bool { return r.Prefix.Contains(m.IP) })
	if i < 0 || ranges[i].MGID(m.IP) != m.MGID {
		return false
	}
	return ranges[i].Reports && !m.learned.heard.IsZero() || ranges[i].SA && m.learned.sa
}

// hasMost bounds how many groups of the subnet's are remembered.
const hasMost = 1 << 16

// noteSubnetHas remembers which groups the subnet has: ranges may come for which they count.
func (l *Loop) noteSubnetHas(n Notice) {
	switch {
	case n.Deleted:
		delete(l.has, n.MGID)
	case len(l.has) < hasMost:
		l.has[n.MGID] = true
	}
}

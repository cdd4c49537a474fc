// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"net/netip"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/groups/igmp"
	"causeway/lcore/manage/groups/mgid"
)

// A learner keeps the groups of ranges, for as long as RoCE hosts report them or the subnet has them.
type learner struct {
	groups *Groups
	isPeer func(netip.Addr) bool
	slots  ask.Slots // of requests about learned groups, so that they delay nothing else

	ranges   []Range
	prefixes []mgid.Prefix // of ranges
	perRange []int         // learned groups
	byIP     map[netip.Addr]*membership
	onSubnet map[ib.GID]bool // groups that the subnet has
	aged     time.Time       // when age looked at the groups last
	count    Counters
}

// learned is why a group exists that is not configured.
type learned struct {
	in    int                     // the range
	sa    bool                    // the subnet has it for others than the bridge
	heard time.Time               // the last report; zero: none, or all members have left
	hosts map[netip.Addr]struct{} // that have reported it, hostsMost at most
	more  bool                    // than those
	stale time.Time               // when it ends unless a host reports it; zero: it does not
	ask   time.Time               // when the bridge repeats its query for members; zero: not at all
}

const (
	// hostsMost bounds how many members of a group are known by address.
	hostsMost = 16
	// slotsMost bounds how many requests about learned groups the subnet administrator gets at a time.
	slotsMost = 4
	// lastMember is how long the remaining members have to report after one has left: two queries, a second apart,
	// a second for the answer (RFC 3376 §8.8, RFC 3810 §9.8), and as much again for a slow network.
	lastMember = 6 * time.Second
	// ageEvery is how often learned groups are looked at.
	ageEvery = time.Second
	// learnedLines bounds the lines a second in the log of groups that are learned, and of those that end.
	learnedLines = 32
)

func newLearner(g *Groups, ranges []Range, isPeer func(netip.Addr) bool) *learner {
	l := &learner{
		groups: g, isPeer: isPeer, slots: make(ask.Slots, slotsMost), byIP: map[netip.Addr]*membership{}, onSubnet: map[ib.GID]bool{},
	}
	l.setRanges(ranges)
	return l
}

// clearHosts removes all members of the group.
func (w *learned) clearHosts() {
	w.heard, w.stale, w.ask, w.more = time.Time{}, time.Time{}, time.Time{}, false
	clear(w.hosts)
}

// isNonMember reports whether the group exists for others on IB alone. Then the bridge joins as a non-member, which
// does not keep the group alive.
func (w *learned) isNonMember() bool { return w.sa && w.heard.IsZero() }

// reported handles the records of a host's report.
func (l *learner) reported(from netip.Addr, rs []frame.GroupRecord, now time.Time) {
	mine := false
	for _, r := range rs {
		i := l.rangeOf(r.Group)
		if i < 0 || !l.ranges[i].Reports {
			continue
		}
		mine = true
		switch {
		case !l.mayReport(from):
			l.reject("source", r.Group)
		case r.Joins():
			l.joinedBy(from, r.Group, i, now)
		case r.Leaves():
			l.leftBy(from, r.Group, now)
		}
	}
	if !mine {
		l.groups.frames.NotForUs()
		return
	}
	l.count.GroupReportsHeard++
}

// mayReport reports whether a report's sender is a RoCE host: also one without an address (RFC 3376 §4.2.13), but not
// the bridge, an IB node or another bridge. Another bridge reports what it carries itself: two bridges would keep a
// group alive for ever.
func (l *learner) mayReport(from netip.Addr) bool {
	return from.IsUnspecified() || l.groups.local.OnLink(from) && !l.isPeer(from)
}

// rangeOf returns the range that an address is in, -1 for none.
func (l *learner) rangeOf(group netip.Addr) int {
	for i := range l.ranges {
		if l.ranges[i].Prefix.Contains(group) {
			return i
		}
	}
	return -1
}

// joinedBy notes that a host is a member of a group.
func (l *learner) joinedBy(from, group netip.Addr, in int, now time.Time) {
	m := l.learn(group, in)
	if m == nil {
		return
	}
	w := m.learned
	w.heard, w.stale = now, time.Time{}
	if _, known := w.hosts[from]; !known && len(w.hosts) < hostsMost && !from.IsUnspecified() {
		w.hosts[from] = struct{}{}
	} else if !known {
		w.more = true
	}
	if !m.isSettled() {
		l.groups.pursue(m)
	}
}

// leftBy notes that a host has left a group. Where there is a querier, the other members must report; without one they
// are members until all that ever reported have left.
func (l *learner) leftBy(from, group netip.Addr, now time.Time) {
	m := l.byIP[group]
	if m == nil || m.learned.heard.IsZero() || !m.learned.stale.IsZero() {
		return
	}
	w, querier := m.learned, l.groups.querier
	delete(w.hosts, from)
	if querier.IsPresent(group, now) || len(w.hosts) == 0 && !w.more {
		w.stale = now.Add(lastMember)
		if querier.IsOwn(group, now) && querier.AskLast(group) {
			w.ask = now.Add(igmp.LastMemberInterval)
		}
	}
}

// learn returns the group of an address in a range, learned now if it must be; nil when it is rejected, or when the
// address is configured.
func (l *learner) learn(ip netip.Addr, in int) *membership {
	g, r := l.groups, &l.ranges[in]
	if m := l.byIP[ip]; m != nil || g.perIP[ip] > 0 {
		return m
	}
	x := r.Group
	x.IP, x.MGID = ip, r.MGID(ip)
	other := g.groups[x.MGID]
	switch {
	case x.MGID.IsZero():
		return l.reject("no_mgid", ip)
	case other != nil && !other.gone, g.owners.isTaken(x.MGID, other):
		return l.reject("mgid_taken", ip)
	case l.perRange[in] >= r.Most:
		return l.reject("range_full", ip)
	case len(g.configured)+len(l.byIP) >= g.max, other == nil && len(g.groups) >= g.max:
		return l.reject("groups_full", ip)
	}
	m := g.want(x, &learned{in: in, hosts: map[netip.Addr]struct{}{}})
	l.byIP[ip] = m
	l.perRange[in]++
	l.count.GroupsLearned++
	if g.log.Allow("group_learned", learnedLines) {
		g.log.Info("group_learned", "group", ip, "mgid", x.MGID, "range", r.Prefix)
	}
	return m
}

// reject counts, by reason, a group that is not learned.
func (l *learner) reject(why string, group netip.Addr) *membership {
	if l.count.GroupsRejected == nil {
		l.count.GroupsRejected = map[string]uint64{}
	}
	l.count.GroupsRejected[why]++
	if l.groups.log.Allow("group_rejected "+why, 1) {
		l.groups.log.Warn("group_rejected", "group", group, "reason", why)
	}
	return nil
}

// remove makes a group one that is not learned any more.
func (l *learner) remove(m *membership) {
	if l.byIP[m.IP] == m {
		delete(l.byIP, m.IP)
		l.perRange[m.learned.in]--
	}
}

// makeRoom ends learned groups for which the configured ones leave no room.
func (l *learner) makeRoom() {
	for _, m := range l.byIP {
		if len(l.groups.configured)+len(l.byIP) <= l.groups.max {
			return
		}
		l.end(m, "groups_full")
	}
}

// end ends a learned group.
func (l *learner) end(m *membership, why string) {
	l.count.GroupsLost++
	if l.groups.log.Allow("group_lost", learnedLines) {
		l.groups.log.Info("group_lost", "group", m.IP, "mgid", m.MGID, "why", why)
	}
	l.groups.drop(m)
}

// age ends the groups that no host reports any more. Silence counts only where there is a querier: without one, hosts
// report a group once, when they join it, and so none grows old.
func (l *learner) age(now time.Time) {
	if now.Sub(l.aged) < ageEvery {
		return
	}
	l.aged = now
	querier := l.groups.querier
	for _, m := range l.byIP {
		w := m.learned
		if isDue(w.ask, now) && querier.AskLast(m.IP) {
			w.ask = time.Time{}
		}
		switch {
		case w.heard.IsZero():
		case isDue(w.stale, now):
			l.lost(m, "left")
		case querier.SilentFor(m.IP, w.heard, now) >= l.ranges[w.in].Idle:
			l.lost(m, "idle")
		}
	}
}

// lost notes that no RoCE host is a member of a group. If the subnet had it before it was reported, the bridge becomes
// a non-member there, and the group ends with the subnet's.
func (l *learner) lost(m *membership, why string) {
	w := m.learned
	w.clearHosts()
	if !w.sa {
		l.end(m, why)
		return
	}
	l.groups.pursue(m)
}

func isDue(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

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
	prefixes []mgid.Prefix     // of ranges
	perRange []int             // learned groups
	perHost  map[rangeHost]int // of those, by the host that reported them first
	byIP     map[netip.Addr]*membership
	onSubnet map[ib.GID]bool // groups that the subnet has
	aged     time.Time       // when age looked at the groups last
	count    Counters
}

// A rangeHost is a host that groups of a range are there for; the zero Addr: hosts without an address.
type rangeHost struct {
	in   int
	from netip.Addr
}

// learned is why a group exists that is not configured.
type learned struct {
	in        int        // the range
	by        netip.Addr // the host that reported it first; the zero Addr: the subnet has it
	sa        bool       // the subnet has it for others than the bridge
	listeners igmp.Listeners
	hosts     map[netip.Addr]frame.MAC // that have reported it, hostsMost at most
	more      bool                     // than those
	stale     time.Time                // when it ends unless a host reports it; zero: listeners say so
}

const (
	// hostsMost bounds how many members of a group are known by address.
	hostsMost = 16
	// slotsMost bounds how many requests about learned groups the subnet administrator gets at a time.
	slotsMost = 4
	// lastMember is how long another member has to report after the last one that was known has left, without a querier.
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
	w.stale, w.more = time.Time{}, false
	w.listeners.Forget(nil, true)
	clear(w.hosts)
}

// isNonMember reports whether the group exists for others on IB alone. Then the bridge joins as a non-member, which
// does not keep the group alive.
func (w *learned) isNonMember() bool { return w.sa && !w.listeners.Any() }

// A reporter is who sent a report.
type reporter struct {
	ip  netip.Addr
	mac frame.MAC
}

// reported handles the records of a host's report.
func (l *learner) reported(from reporter, p frame.Membership, now time.Time) {
	mine := false
	for _, r := range p.Records {
		i := l.rangeOf(r.Group)
		if i < 0 || !l.ranges[i].Reports {
			continue
		}
		mine = true
		switch {
		case !l.mayReport(from.ip):
			l.reject("source", r.Group)
		case r.Joins() || l.byIP[r.Group] != nil:
			l.take(from, p.Version, r, i, now)
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

// take handles one record of a host.
func (l *learner) take(from reporter, version uint8, r frame.GroupRecord, in int, now time.Time) {
	m := l.learn(r.Group, in, from.ip)
	if m == nil {
		return
	}
	w := m.learned
	w.listeners.Reported(l.groups.querier, version, r, now)
	if _, known := w.hosts[from.ip]; !r.Joins() {
		l.leftBy(from, w, r, now)
	} else if w.stale = (time.Time{}); !known && len(w.hosts) < hostsMost && !from.ip.IsUnspecified() {
		w.hosts[from.ip] = from.mac
	} else if !known {
		w.more = true
	}
	if !m.isSettled() {
		l.groups.pursue(m)
	}
}

// leftBy notes that a host has left a group, or sources of it. Where there is a querier, it asks the other members; without
// one they are members until all that ever reported have left.
func (l *learner) leftBy(from reporter, w *learned, r frame.GroupRecord, now time.Time) {
	known := w.hosts[from.ip] == from.mac
	if alone := known && len(w.hosts) == 1 && !w.more; alone && !l.groups.querier.IsPresent(r.Group, now) {
		w.listeners.Forget(r.Sources, false)
	}
	if !r.Leaves() && w.listeners.Any() {
		return
	}
	if !known {
		return
	}
	delete(w.hosts, from.ip)
	if !l.groups.querier.IsPresent(r.Group, now) && len(w.hosts) == 0 && !w.more {
		w.stale = now.Add(lastMember)
	}
}

// learn returns the group of an address in a range, learned now if it must be; nil when it is rejected, or when the
// address is configured. by is the host that reports it; the zero Addr: the subnet has it. A host gets as many as are left, and
// so does the subnet where hosts get some.
func (l *learner) learn(ip netip.Addr, in int, by netip.Addr) *membership {
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
	case (by.IsValid() || r.Reports) && l.perHost[rangeHost{in, by}] >= r.Most-l.perRange[in]:
		return l.reject("host_full", ip)
	case len(g.configured)+len(l.byIP) >= g.max, other == nil && len(g.groups) >= g.max:
		return l.reject("groups_full", ip)
	}
	m := g.want(x, &learned{in: in, by: by, hosts: map[netip.Addr]frame.MAC{}})
	l.byIP[ip] = m
	l.perRange[in]++
	l.perHost[rangeHost{in, by}]++
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
		w := m.learned
		l.perRange[w.in]--
		if at := (rangeHost{w.in, w.by}); l.perHost[at] > 1 {
			l.perHost[at]--
		} else {
			delete(l.perHost, at)
		}
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

// queried takes another querier's query, by which hosts are asked whether they have left.
func (l *learner) queried(q *frame.Query, now time.Time) {
	if m := l.byIP[q.Group]; m != nil {
		m.learned.listeners.Queried(q, now)
	}
}

// age ends the groups that no host reports any more. Silence counts only where there is a querier: without one, hosts
// report a group once, when they join it, and so none grows old.
func (l *learner) age(now time.Time) {
	passed := now.Sub(l.aged)
	if passed < ageEvery {
		return
	}
	if l.aged.IsZero() {
		passed = 0
	}
	l.aged = now
	for _, m := range l.byIP {
		w := m.learned
		had := w.listeners.Any()
		w.listeners.Tick(l.groups.querier, m.IP, passed, now)
		switch {
		case isDue(w.stale, now):
			l.lost(m, "left")
		case had && !w.listeners.Any():
			l.lost(m, "unreported")
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

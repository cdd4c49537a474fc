// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/igmp"
)

// learned is why a group is there that nobody has configured.
type learned struct {
	in    int                     // the range
	sa    bool                    // the subnet has it for others than the bridge
	heard time.Time               // the last report; zero: none, or all have left
	hosts map[netip.Addr]struct{} // that have reported it, hostsMost at most
	more  bool                    // than those
	doubt time.Time               // when it ends unless somebody reports it; zero: no doubt
	ask   time.Time               // when the bridge asks once more who listens; zero: not at all
}

const (
	// hostsMost bounds how many listeners of a group are known by address.
	hostsMost = 16
	// lastMember is how long the listeners that are left have to speak up after one has left: two questions of the querier, a
	// second apart, a second for the answer (RFC 3376 §8.8, RFC 3810 §9.8), and as much again for a slow network.
	lastMember = 6 * time.Second
	// groupsAged is how often learnt groups are looked at.
	groupsAged = time.Second
)

// forgetHosts forgets who has reported the group.
func (w *learned) forgetHosts() {
	w.heard, w.doubt, w.ask, w.more = time.Time{}, time.Time{}, time.Time{}, false
	clear(w.hosts)
}

// isGuest reports whether the group exists for others on IB alone. Then the bridge must not be what keeps it alive.
func (w *learned) isGuest() bool { return w.sa && w.heard.IsZero() }

// reported takes the records of a report from a host.
func (l *Loop) reported(from netip.Addr, rs []frame.GroupRecord) {
	mine := false
	for _, r := range rs {
		i := l.rangeOf(r.Group)
		if i < 0 || !l.cfg.Ranges[i].Reports {
			continue
		}
		mine = true
		switch {
		case !l.mayReport(from):
			l.refuseGroup("source", r.Group)
		case r.Joins():
			l.wantedBy(from, r.Group, i)
		case r.Leaves():
			l.leftBy(from, r.Group)
		}
	}
	if !mine {
		l.count.NotForUs++
		return
	}
	l.count.GroupReportsHeard++
}

// mayReport reports whether a report's sender is a RoCE host: also one without an address (RFC 3376 §4.2.13), but not the
// bridge, an IB node or another bridge, which reports what it carries itself, so that two would keep a group alive for ever.
func (l *Loop) mayReport(from netip.Addr) bool {
	return from.IsUnspecified() || l.onLink(from) && !l.answersFor(from)
}

// rangeOf returns the range that an address is in, -1 for none.
func (l *Loop) rangeOf(group netip.Addr) int {
	for i := range l.cfg.Ranges {
		if l.cfg.Ranges[i].Prefix.Contains(group) {
			return i
		}
	}
	return -1
}

// wantedBy notes that a host listens to a group.
func (l *Loop) wantedBy(from, group netip.Addr, in int) {
	m := l.learnGroup(group, in)
	if m == nil {
		return
	}
	w := m.learned
	w.heard, w.doubt = time.Now(), time.Time{}
	if _, known := w.hosts[from]; !known && len(w.hosts) < hostsMost && !from.IsUnspecified() {
		w.hosts[from] = struct{}{}
	} else if !known {
		w.more = true
	}
	if !m.isSettled() {
		l.pursue(m)
	}
}

// leftBy notes that a host listens no more. With a querier on the link the others are asked for; without one they are
// still there unless all that ever reported have left.
func (l *Loop) leftBy(from, group netip.Addr) {
	m := l.learnedAt[group]
	if m == nil || m.learned.heard.IsZero() || !m.learned.doubt.IsZero() {
		return
	}
	w := m.learned
	delete(w.hosts, from)
	if now := time.Now(); l.querier.IsThere(group, now) || len(w.hosts) == 0 && !w.more {
		w.doubt = now.Add(lastMember)
		if l.querier.IsOwn(group, now) && l.querier.AskLast(group) {
			w.ask = now.Add(igmp.LastMemberInterval)
		}
	}
}

// learnGroup returns the group of an address in a range, learnt now if it must be; nil when it may not be, or when it is
// configured.
func (l *Loop) learnGroup(ip netip.Addr, in int) *membership {
	r := &l.cfg.Ranges[in]
	if m := l.learnedAt[ip]; m != nil || l.configuredAt[ip] > 0 {
		return m
	}
	g := r.Group
	g.IP, g.MGID = ip, r.MGID(ip)
	other := l.groups[g.MGID]
	switch {
	case g.MGID.IsZero():
		return l.refuseGroup("no_mgid", ip)
	case other != nil && !other.gone:
		return l.refuseGroup("mgid_taken", ip)
	case l.inRange[in] >= r.Most:
		return l.refuseGroup("range_full", ip)
	case len(l.configured)+len(l.learnedAt) >= l.maxGroups(), other == nil && len(l.groups) >= l.maxGroups():
		return l.refuseGroup("groups_full", ip)
	}
	m := l.want(g, &learned{in: in, hosts: map[netip.Addr]struct{}{}})
	l.learnedAt[ip] = m
	l.inRange[in]++
	l.count.GroupsLearned++
	if l.mayLog("group_learned", learnedLines) {
		l.log.Info("group_learned", "group", ip, "mgid", g.MGID, "range", r.Prefix)
	}
	return m
}

const learnedLines = 32 // in a second

// refuseGroup counts, by reason, a group that is not learnt.
func (l *Loop) refuseGroup(why string, group netip.Addr) *membership {
	if l.count.GroupsRefused == nil {
		l.count.GroupsRefused = map[string]uint64{}
	}
	l.count.GroupsRefused[why]++
	if l.mayLog("group_refused "+why, 1) {
		l.log.Warn("group_refused", "group", group, "reason", why)
	}
	return nil
}

// unlearn takes a group out of the books of learnt ones.
func (l *Loop) unlearn(m *membership) {
	if l.learnedAt[m.IP] == m {
		delete(l.learnedAt, m.IP)
		l.inRange[m.learned.in]--
	}
}

// makeRoomForGroups ends learnt groups that are too many beside the configured ones.
func (l *Loop) makeRoomForGroups() {
	for _, m := range l.learnedAt {
		if len(l.configured)+len(l.learnedAt) <= l.maxGroups() {
			return
		}
		l.forgetGroup(m, "groups_full")
	}
}

func (l *Loop) forgetGroup(m *membership, why string) {
	l.count.GroupsForgotten++
	if l.mayLog("group_forgotten", learnedLines) {
		l.log.Info("group_forgotten", "group", m.IP, "mgid", m.MGID, "why", why)
	}
	l.drop(m)
}

// ageGroups ends the groups that nobody reports any more. Silence says something only where somebody asks: without a
// querier, listeners report a group once, when they join, and so none grows old.
func (l *Loop) ageGroups(now time.Time) {
	if now.Sub(l.groupsAged) < groupsAged {
		return
	}
	l.groupsAged = now
	for _, m := range l.learnedAt {
		w := m.learned
		if due(w.ask, now) && l.querier.AskLast(m.IP) {
			w.ask = time.Time{}
		}
		switch {
		case w.heard.IsZero():
		case due(w.doubt, now):
			l.silent(m, "left")
		case l.querier.SilentFor(m.IP, w.heard, now) >= l.cfg.Ranges[w.in].Idle:
			l.silent(m, "idle")
		}
	}
}

// silent notes that no RoCE host listens to a group. If the subnet had it before it was reported, the bridge becomes a
// guest there, and the subnet says when it ends.
func (l *Loop) silent(m *membership, why string) {
	w := m.learned
	w.forgetHosts()
	if !w.sa {
		l.forgetGroup(m, why)
		return
	}
	l.pursue(m)
}

func due(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

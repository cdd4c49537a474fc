// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/groups/igmp"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/punt"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

// Groups are all groups. New makes them.
type Groups struct {
	max      int
	isBridge func(frame.MAC) bool
	port     Port
	local    *local.Addresses
	frames   *punt.Workers
	ask      *ask.Asker
	log      *ratelog.Logger
	owners   *Owners

	groups     map[ib.GID]*membership
	configured []Group
	perIP      map[netip.Addr]int // configured groups
	rejected   int                // groups of the configuration that contradict others
	renewed    map[ib.GID]ibside.Membership
	queries    uint64 // received

	guests  []Group
	entries *entries
	learner *learner
	filter  filter
	host    *igmp.Host
	querier *igmp.Querier
}

// New makes Groups without any group.
func New(c Config, d Deps) *Groups {
	p := igmp.Port{Link: d.Local.Link, IPv4: d.Local.First4(), Send: d.Frames.Send}
	if c.Quiet {
		p.Send = func(int, []byte) bool { return true }
	}
	g := &Groups{
		max: c.Max, isBridge: d.IsBridge, port: d.Port, local: d.Local, frames: d.Frames, ask: d.Ask, log: d.Log, owners: d.Owners,
		groups: map[ib.GID]*membership{}, perIP: map[netip.Addr]int{}, renewed: map[ib.GID]ibside.Membership{},
		filter: filter{receive: c.Receive}, host: igmp.NewHost(p), querier: igmp.NewQuerier(p),
	}
	g.querier.Enabled = c.Querier
	g.entries = newEntries(&c, &d, g.host)
	g.entries.isGuest = g.isGuest
	g.learner = newLearner(g, c.Ranges, d.IsPeer)
	return g
}

// SetQuerier sets whether the bridge sends queries on the RoCE side.
func (g *Groups) SetQuerier(enabled bool) { g.querier.Enabled = enabled }

// SetMax changes how many groups there may be, configured and learned.
func (g *Groups) SetMax(most int) { g.max = most }

// Check reports why a set of groups contradicts itself.
func Check(groups []Group) error {
	type place struct {
		tables.GroupAddr
		segments uint8
	}
	mgids, toIB := map[ib.GID]tables.GroupAddr{}, map[place]ib.GID{}
	for _, x := range groups {
		other, taken := mgids[x.MGID]
		sends, leads := toIB[place{x.Addr(), x.Segments}]
		switch {
		case !x.IP.IsMulticast() || x.IP.Is4In6():
			return fmt.Errorf("manage: group %v: not a multicast address", x.IP)
		case !x.MGID.IsMulticast():
			return fmt.Errorf("manage: group %v: mgid %v is not a multicast GID", x.IP, x.MGID)
		case !x.ToIB && !x.ToRoCE:
			return fmt.Errorf("manage: group %v: it has no direction; give it one", x.IP)
		case taken:
			return fmt.Errorf("manage: group %v: mgid %v is also that of group %v; each needs its own", x.IP, x.MGID, other)
		case x.ToIB && leads:
			return fmt.Errorf("manage: group %v: what RoCE hosts send to it goes to mgid %v already; let mgid %v only lead to RoCE",
				x.Addr(), sends, x.MGID)
		}
		mgids[x.MGID] = x.Addr()
		if x.ToIB {
			toIB[place{x.Addr(), x.Segments}] = x.MGID
		}
	}
	return nil
}

// check reports why a set of groups contradicts itself or is too large.
func (g *Groups) check(groups []Group) error {
	if len(groups) > g.max {
		return fmt.Errorf("manage: %d groups are more than the limit of %d; raise [workers] groups", len(groups), g.max)
	}
	return Check(groups)
}

// Start wants the groups of the configuration. Those that contradict others keep the bridge from getting ready.
func (g *Groups) Start(groups []Group) {
	if g.Set(groups) == nil {
		return
	}
	var valid []Group
	for _, x := range groups {
		if err := g.check(append(valid, x)); err != nil {
			g.log.Error("group_rejected", "group", x.IP, "mgid", x.MGID, "error", err)
			continue
		}
		valid = append(valid, x)
	}
	if err := g.Set(valid); err != nil {
		g.log.Error("group_rejected", "error", err)
	}
	g.rejected = len(groups) - len(valid)
}

// Set makes these the configured groups; others end. Groups that stay the same are not touched, and what changes in one
// goes on crossing where that is possible. A set that Check rejects changes nothing. All that ends does so before
// anything begins, so that its resources are free for what begins.
func (g *Groups) Set(groups []Group) error {
	if err := g.check(groups); err != nil {
		return err
	}
	g.configured, g.rejected, g.entries.changed = slices.Clone(groups), 0, true
	wanted := make(map[ib.GID]bool, len(groups))
	clear(g.perIP)
	for _, x := range groups {
		wanted[x.MGID] = true
		g.perIP[x.IP]++
		if m := g.learner.byIP[x.IP]; m != nil && m.MGID != x.MGID { // configured groups win
			g.drop(m)
		}
	}
	for _, x := range g.guests {
		g.perIP[x.IP]++
		if m := g.learner.byIP[x.IP]; m != nil {
			g.drop(m)
		}
	}
	for _, m := range g.groups {
		if m.learned == nil && !wanted[m.MGID] {
			g.drop(m)
		}
	}
	var changed []*membership
	for _, x := range groups {
		if m := g.want(x, nil); m != nil {
			changed = append(changed, m)
		}
	}
	for _, m := range changed {
		g.pursue(m)
	}
	g.learner.makeRoom()
	return nil
}

// want notes what is wanted of a group, and ends what is not. It returns the group when there is more to do.
func (g *Groups) want(x Group, why *learned) *membership {
	m := g.groups[x.MGID]
	if m == nil {
		m = &membership{worker: g.workerOf(x.MGID)}
		g.groups[x.MGID] = m
	} else if !m.gone && m.Group.equals(&x) && m.learned == nil && why == nil {
		return nil
	}
	if m.learned != nil && why == nil {
		g.learner.remove(m)
	}
	m.Group, m.learned, m.gone, m.failed = x, why, false, time.Time{}
	g.entries.narrow(m)
	g.filter.stale = true
	return m
}

// workerOf spreads groups over workers.
func (g *Groups) workerOf(mgid ib.GID) int {
	h := fnv.New32a()
	h.Write(mgid[:])
	return int(h.Sum32() % uint32(g.frames.Len()))
}

// drop ends a group: at once in the tables, then on the IB side.
func (g *Groups) drop(m *membership) {
	if m.learned != nil {
		g.learner.remove(m)
	}
	m.gone, m.learned, g.filter.stale, g.entries.changed = true, nil, true, true
	g.pursue(m)
}

// ReportAgain reports all groups to the switches again: the link was down.
func (g *Groups) ReportAgain(now time.Time) { g.host.Again(now) }

// Tick does what is due. heard is up to when all reports have been handled: nobody has been silent for longer.
func (g *Groups) Tick(now, heard time.Time) {
	g.host.Tick(now)
	g.querier.Tick(now)
	g.learner.age(heard)
	g.retryFailed(now)
	g.filter.retry()
}

// retryAfter is how long a group waits that the tables did not take.
const retryAfter = 10 * time.Second

// retryFailed tries again what the tables did not take.
func (g *Groups) retryFailed(now time.Time) {
	for _, m := range g.groups {
		if !m.failed.IsZero() && now.Sub(m.failed) >= retryAfter {
			m.failed = time.Time{}
			g.pursue(m)
		}
	}
}

// HandleMembership takes IGMP and MLD: it answers queries, and learns groups from reports.
func (g *Groups) HandleMembership(f frame.Frame, p frame.Membership, fault frame.Fault, now time.Time) {
	switch {
	case fault == frame.IGMPType || fault == frame.MLDType: // of routers among themselves
		g.frames.NotForUs()
	case fault != "":
		g.frames.Malformed(fault.Counter())
	case f.Eth.Src() == g.local.Link.MAC: // an echo of the bridge's own
		g.frames.NotForUs()
	case p.Query == nil && g.isBridge(f.Eth.Src()): // it reports what it carries itself
		g.frames.NotForUs()
	case p.Query == nil:
		g.learner.reported(reporter{f.Src(), f.Eth.Src()}, p, now)
	default:
		g.queries++
		g.host.Queried(p, now)
		if isForAll(f, p.Query) {
			g.querier.Heard(f.Src(), p.Query, now)
			g.learner.queried(p.Query, now)
		}
	}
}

// isForAll reports whether a query was sent to those that it asks (RFC 3376 §4.1.12, RFC 3810 §5.1.15): one that the bridge alone
// can hear would have it end what its members are not asked for.
func isForAll(f frame.Frame, q *frame.Query) bool {
	to := q.Group
	switch {
	case to == netip.IPv4Unspecified():
		to = frame.AllHosts4
	case to.IsUnspecified():
		to = frame.AllNodes6
	}
	return f.Dst() == to && f.Eth.Dst() == frame.GroupMAC(to)
}

// Changed reports whether Joined, or the state of a group, has changed since the last call of Joined.
func (g *Groups) Changed() bool { return g.entries.changed }

// Joined returns the groups that are bridged, by address. The caller must not change the list.
func (g *Groups) Joined() []Joined {
	if g.entries.changed {
		g.entries.list(maps.Values(g.groups))
	}
	return g.entries.joined
}

// Unsettled returns how many configured groups are not yet as they are wanted. Learned ones keep no bridge from being
// ready.
func (g *Groups) Unsettled() int {
	n := g.rejected
	for _, m := range g.groups {
		if m.learned == nil && !m.gone && !m.isSettled() {
			n++
		}
	}
	return n
}

// Left reports whether all groups are left.
func (g *Groups) Left() bool { return len(g.groups) == 0 }

// Learned returns how many groups are learned.
func (g *Groups) Learned() int { return len(g.learner.byIP) }

// Counters returns a copy of the counters.
func (g *Groups) Counters() Counters {
	c := g.learner.count
	c.GroupsRejected = maps.Clone(c.GroupsRejected)
	c.GroupReports, c.GroupQueries, c.GroupQueriesSent = g.host.Reports, g.queries, g.querier.Queries
	return c
}

// An Entry is a group that is bridged, is to be, or is being left.
type Entry struct {
	Group
	ID      int
	State   string // joined, joining, changing, leaving or rejected
	Learned bool
	MLID    ib.LID
	SL      ib.SL
	Worker  int // receives it from IB
	Members int // RoCE hosts that have reported it, as far as they are counted; learned groups only
}

// All yields all groups.
func (g *Groups) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, m := range g.groups {
			e := Entry{
				Group: m.Group, ID: m.id, State: m.state(), Learned: m.learned != nil, MLID: m.granted.MLID, SL: m.granted.SL, Worker: m.worker,
			}
			if m.learned != nil {
				e.Members = len(m.learned.hosts)
			}
			if !yield(e) {
				return
			}
		}
	}
}

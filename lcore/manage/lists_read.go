// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"causeway/tables"
)

// ListHosts returns RoCE hosts by address. Any goroutine but the loop's may call it, as all that follow.
func (l *Loop) ListHosts(ctx context.Context, q Query) (List[HostEntry], error) {
	return listOf(ctx, l, q.Limit, l.tables.AllHosts(), func(h tables.Host) (HostEntry, bool) {
		if !q.wants(h.IP) {
			return HostEntry{}, false
		}
		return l.hostEntry(h), true
	}, func(a, b HostEntry) int { return a.IP.Compare(b.IP) })
}

// ListNeighbours returns RoCE hosts by address, and the addresses that have no MAC address yet.
func (l *Loop) ListNeighbours(ctx context.Context, q Query) (List[HostEntry], error) {
	list, err := l.ListHosts(ctx, q)
	if err != nil {
		return list, err
	}
	asked, err := listOf(ctx, l, q.Limit, slices.Values(l.unresolved(ctx)), func(ip netip.Addr) (HostEntry, bool) {
		_, _, known := l.tables.FindHost(ip)
		return HostEntry{IP: ip, State: HostUnresolved}, !known && q.wants(ip)
	}, func(a, b HostEntry) int { return a.IP.Compare(b.IP) })
	if err != nil {
		return list, err
	}
	list.Entries, list.Total = append(list.Entries, asked.Entries...), list.Total+asked.Total
	list.cut(q.Limit, func(a, b HostEntry) int { return a.IP.Compare(b.IP) })
	return list, nil
}

// unresolved returns the addresses whose MAC address is asked for; none when the loop has ended.
func (l *Loop) unresolved(ctx context.Context) []netip.Addr {
	of := map[netip.Addr]bool{}
	err := l.work.Do(ctx, func() error {
		for _, ip := range l.search.Hosts() {
			of[ip] = true
		}
		for ip := range l.sidr.awaited {
			of[ip] = true
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return slices.Collect(maps.Keys(of))
}

// ListStandIns returns stand-ins by host and the host's QPN.
func (l *Loop) ListStandIns(ctx context.Context, q Query) (List[StandInEntry], error) {
	return listOf(ctx, l, q.Limit, l.tables.AllStandIns(), func(s tables.StandIn) (StandInEntry, bool) {
		if !q.wants(s.Host) {
			return StandInEntry{}, false
		}
		return l.standInEntry(s), true
	}, func(a, b StandInEntry) int { return cmp.Or(a.Host.Compare(b.Host), cmp.Compare(a.HostQPN, b.HostQPN)) })
}

// ListNodes returns IB nodes by address, those that have no path yet among them.
func (l *Loop) ListNodes(ctx context.Context, q Query) (List[NodeEntry], error) {
	order := func(a, b NodeEntry) int { return cmp.Or(a.IP4.Compare(b.IP4), a.IP6.Compare(b.IP6)) }
	list, err := listOf(ctx, l, 0, l.tables.AllNodes(), func(n tables.Node) (NodeEntry, bool) {
		return NodeEntry{n.IP4, n.IP6, n.GID, n.LID, n.SL, n.Bridge, true}, q.wants(n.IP4, n.IP6)
	}, order)
	if err != nil {
		return list, err
	}
	err = l.work.Do(ctx, func() error {
		for _, n := range l.cfg.Nodes {
			_, _, known := l.tables.FindNodeGID(n.GID)
			if !known && q.wants(n.IP4, n.IP6) {
				list.Entries = append(list.Entries, NodeEntry{n.IP4, n.IP6, n.GID, n.LID, n.SL, n.Bridge, false})
			}
		}
		return nil
	})
	list.Total = len(list.Entries)
	list.cut(q.Limit, order)
	return list, err
}

// ListGroups returns groups by address.
func (l *Loop) ListGroups(ctx context.Context, q Query) (List[GroupEntry], error) {
	return listOf(ctx, l, q.Limit, maps.Values(l.groups), func(m *membership) (GroupEntry, bool) {
		if !q.wants(m.IP) {
			return GroupEntry{}, false
		}
		e := GroupEntry{Group: m.Group, ID: m.id, State: m.state(), Learned: m.learned != nil, MLID: m.granted.MLID, SL: m.granted.SL, Worker: m.worker}
		if m.learned != nil {
			e.Members = len(m.learned.hosts)
		}
		return e, true
	}, func(a, b GroupEntry) int { return cmp.Or(a.IP.Compare(b.IP), slices.Compare(a.MGID[:], b.MGID[:])) })
}

// state says in one word how a group stands.
func (m *membership) state() string {
	switch {
	case m.gone:
		return "leaving"
	case !m.failed.IsZero():
		return "refused" // by the tables: they are full
	case m.isSettled():
		return "joined"
	case m.open:
		return "changing"
	}
	return "joining"
}

// ListRequests returns the requests for services that are under way. Query's addresses are those of who asks.
func (l *Loop) ListRequests(ctx context.Context, q Query) (List[RequestEntry], error) {
	var list List[RequestEntry]
	err := l.work.Do(ctx, func() error { // askedMost each way, at most
		now := time.Now()
		for k := range l.sidr.asking {
			if q.wants(k.from) {
				list.Entries = append(list.Entries, RequestEntry{Direction: roceToIB, From: k.from, To: k.to, Port: k.service.Port(), Waits: "the node's answer"})
			}
		}
		for _, x := range l.sidr.questions {
			if !q.wants(x.From) {
				continue
			}
			e := RequestEntry{Direction: ibToRoCE, From: x.From, To: x.To, Port: x.Port, Left: max(0, x.end.Sub(now)), Waits: "the host's answer"}
			if x.due.IsZero() {
				e.Waits = "the host's MAC address"
			}
			list.Entries = append(list.Entries, e)
		}
		return nil
	})
	list.Total = len(list.Entries)
	list.cut(q.Limit, func(a, b RequestEntry) int {
		return cmp.Or(cmp.Compare(a.Direction, b.Direction), a.From.Compare(b.From), a.To.Compare(b.To), cmp.Compare(a.Port, b.Port))
	})
	return list, err
}

// ForgetHost forgets what was learnt of a host, which is asked for again when it is needed. It reports false for one that
// is not known, is static, or has stand-ins.
func (l *Loop) ForgetHost(ctx context.Context, ip netip.Addr) (forgotten bool, err error) {
	err = l.work.Do(ctx, func() error {
		h, _, known := l.tables.FindHost(ip)
		if forgotten = known && !h.Static && l.perHost[ip] == 0 && l.dropHost(ip); forgotten {
			l.count.HostsForgotten++
		}
		return nil
	})
	return forgotten, err
}

// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/manage/groups"
	"causeway/tables"
)

// byHost orders hosts by address.
func byHost(a, b HostEntry) int { return cmp.Or(a.IP.Compare(b.IP), cmp.Compare(a.Segment, b.Segment)) }

// ListHosts returns RoCE hosts by address. Any goroutine but the loop's may call it, as all that follow.
func (l lists) ListHosts(ctx context.Context, q Query) (List[HostEntry], error) {
	all := across(l.Loop, func(s *segment) iter.Seq[tables.Host] { return s.tables.Hosts.All() })
	return listOf(ctx, l.Loop, q.Limit, all, func(h within[tables.Host]) (HostEntry, bool) {
		if !q.wants(h.of.IP) {
			return HostEntry{}, false
		}
		return h.hostEntry(h.of), true
	}, byHost)
}

// ListNeighbours returns RoCE hosts by address, and the addresses that have no MAC address yet.
func (l lists) ListNeighbours(ctx context.Context, q Query) (List[HostEntry], error) {
	list, err := l.ListHosts(ctx, q)
	if err != nil {
		return list, err
	}
	asked, err := listOf(ctx, l.Loop, q.Limit, slices.Values(l.unresolved(ctx)), func(x within[netip.Addr]) (HostEntry, bool) {
		_, known := x.neighbours.Find(x.of)
		return HostEntry{Segment: x.number, IP: x.of, State: HostUnresolved}, !known && q.wants(x.of)
	}, byHost)
	if err != nil {
		return list, err
	}
	list.Entries, list.Total = append(list.Entries, asked.Entries...), list.Total+asked.Total
	list.truncate(q.Limit, byHost)
	return list, nil
}

// unresolved returns the addresses whose MAC address is asked for; none when the loop has ended.
func (l lists) unresolved(ctx context.Context) []within[netip.Addr] {
	of := map[within[netip.Addr]]bool{}
	err := l.inbox.Do(ctx, func() error {
		for _, s := range l.segments {
			for _, ip := range s.neighbours.Searched() {
				of[within[netip.Addr]{s, ip}] = true
			}
			for ip := range s.sidr.UnknownHosts() {
				of[within[netip.Addr]{s, ip}] = true
			}
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return slices.Collect(maps.Keys(of))
}

// ListProxyQPs returns proxy QPs by host and the host's QPN.
func (l lists) ListProxyQPs(ctx context.Context, q Query) (List[ProxyQPEntry], error) {
	all := across(l.Loop, func(s *segment) iter.Seq[tables.ProxyQP] { return s.tables.ProxyQPs.All() })
	return listOf(ctx, l.Loop, q.Limit, all, func(x within[tables.ProxyQP]) (ProxyQPEntry, bool) {
		if !q.wants(x.of.Host) {
			return ProxyQPEntry{}, false
		}
		return l.proxyQPEntry(x.segment, x.of), true
	}, func(a, b ProxyQPEntry) int {
		return cmp.Or(a.Host.Compare(b.Host), cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.HostQPN, b.HostQPN), cmp.Compare(a.PKey, b.PKey))
	})
}

// ListNodes returns IB nodes by address, those that have no path yet among them.
func (l lists) ListNodes(ctx context.Context, q Query) (List[NodeEntry], error) {
	order := func(a, b NodeEntry) int { return cmp.Or(a.IP4.Compare(b.IP4), a.IP6.Compare(b.IP6)) }
	list, err := listOf(ctx, l.Loop, 0, l.tables.Nodes.All(), func(n tables.Node) (NodeEntry, bool) {
		x, _ := l.nodes.Find(n.GID)
		pkey := l.partitions.PKey(l.tables.Nodes.PartitionOf(n.GID))
		return NodeEntry{n.IP4, n.IP6, n.GID, n.LID, n.SL, n.MTU, n.Rate, n.LIDs, n.Bridge, x.Learned, true, pkey}, q.wants(n.IP4, n.IP6)
	}, order)
	if err != nil {
		return list, err
	}
	err = l.inbox.Do(ctx, func() error {
		for n := range l.nodes.All() {
			_, _, known := l.tables.Nodes.FindGID(n.GID)
			if !known && q.wants(n.IP4, n.IP6) {
				list.Entries = append(list.Entries, NodeEntry{IP4: n.IP4, IP6: n.IP6, GID: n.GID, LID: n.LID, SL: n.SL, Bridge: n.Bridge, PKey: cmp.Or(n.PKey, l.cfg.PKey)})
			}
		}
		return nil
	})
	list.Total = len(list.Entries)
	list.truncate(q.Limit, order)
	return list, err
}

// ListGroups returns groups by address.
func (l lists) ListGroups(ctx context.Context, q Query) (List[GroupEntry], error) {
	all := func(yield func(groups.Entry) bool) {
		for s := range slices.Values(l.segments) {
			for x := range s.groups.All() {
				x.Segments = 1 << s.number
				if !yield(x) {
					return
				}
			}
		}
		l.shared.All()(yield)
	}
	return listOf(ctx, l.Loop, q.Limit, all, func(x groups.Entry) (GroupEntry, bool) { return x, q.wants(x.IP) },
		func(a, b GroupEntry) int { return cmp.Or(a.IP.Compare(b.IP), slices.Compare(a.MGID[:], b.MGID[:])) })
}

// ListRequests returns the requests for services that are under way. Query's addresses are those of the requesters.
func (l lists) ListRequests(ctx context.Context, q Query) (List[RequestEntry], error) {
	var list List[RequestEntry]
	err := l.inbox.Do(ctx, func() error { // their number is bounded
		for _, s := range l.segments {
			list.Entries = append(list.Entries, slices.DeleteFunc(s.sidr.Requests(time.Now()), func(r RequestEntry) bool { return !q.wants(r.From) })...)
		}
		return nil
	})
	list.Total = len(list.Entries)
	list.truncate(q.Limit, func(a, b RequestEntry) int {
		return cmp.Or(cmp.Compare(a.Direction, b.Direction), a.From.Compare(b.From), a.To.Compare(b.To), cmp.Compare(a.Port, b.Port))
	})
	return list, err
}

// RemoveProxyQPs ends the proxy QPs of a host's queue pair, or with 0 those of all, and returns how many there were.
// The next packet of the queue pair makes another one.
func (l lists) RemoveProxyQPs(ctx context.Context, segment uint8, host netip.Addr, qpn ib.QPN) (n int, err error) {
	err = l.inbox.Do(ctx, func() error {
		if s := l.numbered(segment); s != nil {
			n = s.proxyQPs.Remove(host, qpn)
		}
		return nil
	})
	return n, err
}

// RemoveLearnedHost removes a learned host, which is asked for again when it is needed. It reports false for one that
// is not known, is static, or has proxy QPs.
func (l lists) RemoveLearnedHost(ctx context.Context, segment uint8, ip netip.Addr) (removed bool, err error) {
	err = l.inbox.Do(ctx, func() error {
		s := l.numbered(segment)
		removed = s != nil && s.neighbours.Remove(ip)
		return nil
	})
	return removed, err
}

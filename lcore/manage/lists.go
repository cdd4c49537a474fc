// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"iter"
	"net/netip"
	"slices"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/groups"
	"causeway/lcore/manage/neighbours"
	"causeway/lcore/manage/sidr"
	"causeway/tables"
)

// chunk is how many entries the loop looks at in one go: some ten microseconds, so that a list of a hundred thousand
// delays no answer.
const chunk = 512

// A Query selects entries of a list.
type Query struct {
	In    netip.Prefix // addresses that are in there; the zero Prefix: all
	Limit int          // entries, at most, the first by order; 0: no limit
}

// wants reports whether one of the addresses is selected.
func (q *Query) wants(addrs ...netip.Addr) bool {
	return !q.In.IsValid() || slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.IsValid() && q.In.Contains(a) })
}

// A List is the first of the selected entries, in order, and how many there are in all.
type List[T any] struct {
	Entries []T
	Total   int
}

// A HostState is what is known about whether a RoCE host answers.
type HostState = neighbours.State

// States of hosts that are not learned, or answer.
const (
	HostReachable  = neighbours.Reachable
	HostUnresolved = neighbours.Unresolved
)

// A HostEntry is a RoCE host.
type HostEntry struct {
	Segment  uint8 // its number
	IP       netip.Addr
	MAC      frame.MAC
	VLAN     uint16
	Version  uint8 // of RoCE
	State    HostState
	ProxyQPs int
	GID      ib.GID    // that it is seen under on IB; zero: the bridge's own
	Heard    time.Time // when its last frame came; zero: static, or never
	Asked    int       // probes since then
}

// A ProxyQPEntry is a queue pair of a RoCE host, and its proxy QP.
type ProxyQPEntry struct {
	Segment uint8
	Host    netip.Addr
	HostQPN ib.QPN
	QPN     ib.QPN // on IB
	QKey    ib.QKey
	Worker  int
	Version uint8
	PKey    ib.PKey   // it sends with
	GID     ib.GID    // it sends from
	Used    time.Time // when it was last seen to have been used
}

// A NodeEntry is an IB node.
type NodeEntry struct {
	IP4, IP6 netip.Addr
	GID      ib.GID
	LID      ib.LID // 0: its path is not known, or it has none
	SL       ib.SL
	MTU      int             // largest payload to it, bytes
	Rate     ib.Rate         // to it; 0: the port's
	LIDs     tables.LIDState // whether what it sends without a GRH is known to be its
	Bridge   bool
	Learned  bool    // it is not configured
	Resolved bool    // messages can be sent to it
	PKey     ib.PKey // what is sent to it has
}

// A GroupEntry is a group that is bridged, is to be, or is being left.
type GroupEntry = groups.Entry

// A RequestEntry is a request for a service that is under way.
type RequestEntry = sidr.Request

// listOf makes a list of what all yields, in the loop's goroutine, chunk after chunk. What comes or goes meanwhile may
// be in it or not. entry runs in the loop.
func listOf[S, T any](ctx context.Context, l *Loop, limit int, all iter.Seq[S], entry func(S) (T, bool), order func(a, b T) int) (List[T], error) {
	var list List[T]
	next, stop := iter.Pull(all)
	defer stop()
	for more := true; more; {
		var some []T
		err := l.inbox.Do(ctx, func() error {
			for range chunk {
				s, ok := next()
				if !ok {
					more = false
					break
				}
				if e, ok := entry(s); ok {
					some = append(some, e)
				}
			}
			return nil
		})
		if err != nil {
			return List[T]{}, err
		}
		list.Total += len(some)
		list.Entries = append(list.Entries, some...)
		if limit > 0 && len(list.Entries) > 2*limit+chunk {
			list.truncate(limit, order)
		}
	}
	list.truncate(limit, order)
	return list, nil
}

// truncate puts the entries in order and keeps the first.
func (l *List[T]) truncate(limit int, order func(a, b T) int) {
	slices.SortFunc(l.Entries, order)
	if limit > 0 && len(l.Entries) > limit {
		clear(l.Entries[limit:])
		l.Entries = l.Entries[:limit]
	}
}

// PKey returns the P_Key of a partition, by its number. Any goroutine may call it.
func (l *Loop) PKey(partition uint8) ib.PKey { return l.partitions.PKey(partition) }

// Partition returns the number of the partition with a P_Key; 0 for one that is not used. Any goroutine may call it.
func (l *Loop) Partition(k ib.PKey) uint8 {
	for n := range uint8(tables.MaxPartitions) {
		if l.PKey(n) == k {
			return n
		}
	}
	return 0
}

// hostEntry describes a host that is in the tables.
func (s *segment) hostEntry(h tables.Host) HostEntry {
	e := HostEntry{Segment: s.number, IP: h.IP, MAC: h.MAC, VLAN: h.VLAN, Version: h.Version, ProxyQPs: s.proxyQPs.Of(h.IP), GID: s.gids.Of(h.IP)}
	e.State, e.Heard, e.Asked = s.neighbours.State(h.IP)
	return e
}

func (l lists) proxyQPEntry(s *segment, x tables.ProxyQP) ProxyQPEntry {
	return ProxyQPEntry{
		Segment: s.number, Host: x.Host, HostQPN: x.HostQPN, PKey: l.partitions.PKey(x.Partition), QPN: x.QPN, QKey: x.QKey, Worker: x.Worker, Version: x.Version,
		GID: s.gids.BySource(x.Source), Used: s.proxyQPs.SeenUsed(x.HostQP),
	}
}

// numbered returns the segment with a number; nil: none has it.
func (p *parts) numbered(n uint8) *segment {
	if i := slices.IndexFunc(p.segments, func(s *segment) bool { return s.number == n }); i >= 0 {
		return p.segments[i]
	}
	return nil
}

// within is what a segment has.
type within[T any] struct {
	*segment
	of T
}

// across yields what all segments have.
func across[T any](l *Loop, all func(*segment) iter.Seq[T]) iter.Seq[within[T]] {
	return func(yield func(within[T]) bool) {
		for _, s := range l.segments {
			for x := range all(s) {
				if !yield(within[T]{s, x}) {
					return
				}
			}
		}
	}
}

// lists reads a loop's tables for operators, each piece on the loop.
type lists struct{ *Loop }

// Lists returns what the loop lists.
func (l *Loop) Lists() Lists { return lists{l} }

// Lists is what a Loop lists to operators, page by page. After its end the methods return ErrEnded.
type Lists interface {
	ListHosts(context.Context, Query) (List[HostEntry], error)
	ListNeighbours(context.Context, Query) (List[HostEntry], error)
	ListProxyQPs(context.Context, Query) (List[ProxyQPEntry], error)
	ListNodes(context.Context, Query) (List[NodeEntry], error)
	ListGroups(context.Context, Query) (List[GroupEntry], error)
	ListRequests(context.Context, Query) (List[RequestEntry], error)
	RemoveLearnedHost(ctx context.Context, segment uint8, ip netip.Addr) (bool, error)
	RemoveProxyQPs(ctx context.Context, segment uint8, host netip.Addr, qpn ib.QPN) (int, error)
}

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
	"causeway/tables"
)

// chunk is how many entries the loop looks at in one go: some ten microseconds, so that a list of a hundred thousand holds
// up nobody's ARP.
const chunk = 512

// A Query says what of a list is wanted.
type Query struct {
	In    netip.Prefix // addresses that are in there; the zero Prefix: all
	Limit int          // entries, at most, the first by order; 0: no limit
}

// wants reports whether one of the addresses is asked for.
func (q *Query) wants(addrs ...netip.Addr) bool {
	return !q.In.IsValid() || slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.IsValid() && q.In.Contains(a) })
}

// A List is the first entries of what was asked for, in order, and how many there are in all.
type List[T any] struct {
	Entries []T
	Total   int
}

// HostState is what the loop thinks of a RoCE host.
type HostState string

// The states. Those of a learnt host are by when it was heard last, and by what it was asked since.
const (
	HostStatic     HostState = "static"     // configured; nobody asks it
	HostReachable  HostState = "reachable"  // has spoken not long ago
	HostProbed     HostState = "probed"     // was asked, and has not answered yet
	HostSilent     HostState = "silent"     // answers no questions, but has stand-ins
	HostContested  HostState = "contested"  // another MAC address claims the address
	HostUnresolved HostState = "unresolved" // has no MAC address yet
)

// A HostEntry is a RoCE host.
type HostEntry struct {
	IP       netip.Addr
	MAC      frame.MAC
	VLAN     uint16
	Version  uint8 // of RoCE
	State    HostState
	StandIns int
	GID      ib.GID    // it is seen on IB under; zero: the bridge's own
	Heard    time.Time // when it spoke for itself last; zero: static, or never
	Asked    int       // questions since then without an answer
}

// A StandInEntry is a queue pair of a RoCE host, and the one that stands for it.
type StandInEntry struct {
	Host    netip.Addr
	HostQPN ib.QPN
	QPN     ib.QPN // on IB
	QKey    ib.QKey
	Worker  int
	Version uint8
	GID     ib.GID    // it sends from
	Used    time.Time // when it was last seen to have been used
}

// A NodeEntry is an IB node.
type NodeEntry struct {
	IP4, IP6 netip.Addr
	GID      ib.GID
	LID      ib.LID // 0: its path is not known, or it has none
	SL       ib.SL
	Bridge   bool
	Resolved bool // messages can be sent to it
}

// A GroupEntry is a group that is bridged, is to be, or is being left.
type GroupEntry struct {
	Group
	ID      int
	State   string // joined, joining, changing, leaving or refused
	Learned bool
	MLID    ib.LID
	SL      ib.SL
	Worker  int // who receives it from IB
	Members int // RoCE hosts that have reported it, as far as they are counted; learnt groups only
}

// A RequestEntry is a request for a service that is under way.
type RequestEntry struct {
	Direction int // 0: who asks is on RoCE; 1: on IB
	From, To  netip.Addr
	Port      uint16
	Left      time.Duration // until it is given up; 0: not known
	Waits     string        // for what
}

// listOf makes a list of what all yields, in the loop's goroutine, chunk after chunk. What comes or goes meanwhile may be
// in it or not. entry runs in the loop.
func listOf[S, T any](ctx context.Context, l *Loop, limit int, all iter.Seq[S], entry func(S) (T, bool), order func(a, b T) int) (List[T], error) {
	var list List[T]
	next, stop := iter.Pull(all)
	defer stop()
	for more := true; more; {
		var some []T
		err := l.work.Do(ctx, func() error {
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
			list.cut(limit, order)
		}
	}
	list.cut(limit, order)
	return list, nil
}

// cut puts the entries in order and keeps the first.
func (l *List[T]) cut(limit int, order func(a, b T) int) {
	slices.SortFunc(l.Entries, order)
	if limit > 0 && len(l.Entries) > limit {
		clear(l.Entries[limit:])
		l.Entries = l.Entries[:limit]
	}
}

// hostEntry describes a host that is in the tables.
func (l *Loop) hostEntry(h tables.Host) HostEntry {
	e := HostEntry{IP: h.IP, MAC: h.MAC, VLAN: h.VLAN, Version: h.Version, State: HostReachable, StandIns: l.perHost[h.IP]}
	if s, has := l.port.sources.Of(h.IP); has {
		e.GID = s.GID
	}
	n := l.neighbours.Find(h.IP)
	switch {
	case n == nil:
		e.State = HostStatic
		return e
	case n.IsContested():
		e.State = HostContested
	case n.IsSilent():
		e.State = HostSilent
	case n.Asked > 0:
		e.State = HostProbed
	}
	e.Heard, e.Asked = n.Heard, n.Asked
	return e
}

func (l *Loop) standInEntry(s tables.StandIn) StandInEntry {
	e := StandInEntry{
		Host: s.Host, HostQPN: s.HostQPN, QPN: s.QPN, QKey: s.QKey, Worker: s.Worker, Version: s.Version,
		Used: l.standIns[standInKey{s.Host, s.HostQPN}].usedAt,
	}
	for _, source := range l.port.own.Sources {
		if source.Number == s.Source {
			e.GID = source.GID
		}
	}
	return e
}

// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"reflect"
	"slices"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/manage/bridges"
	"causeway/lcore/manage/groups"
	"causeway/lcore/manage/learner"
	"causeway/lcore/manage/neighbours"
	"causeway/lcore/manage/proxyqps"
	"causeway/lcore/manage/punt"
	"causeway/lcore/manage/sidr"
)

// Status is the state of management at the last publication (at most 0.1 s ago).
type Status struct {
	// All groups are joined on both sides, all configured nodes have a path, and the port has all P_Keys.
	Ready          bool
	Drained        bool      // another bridge takes over; see Change
	Waiting        int       // joins, paths and P_Keys that are not there yet
	Missing        []ib.PKey // P_Keys that the IB port's table does not have; read only
	Hosts          int
	Nodes          int
	LearnedNodes   int
	LostNodes      int // that the subnet has no more
	Groups         int
	ProxyQPs       int
	ProxyQPsMost   int           // that there can be: the limit, or what the device makes
	HostGIDs       int           // RoCE hosts that are seen on IB under a GID of their own
	OwnGIDs        int           // GIDs that messages can be sent from, the bridge's own among them
	Aliases        int           // RoCE hosts' GUIDs that are the IB port's
	AliasesRefused uint64        // how often the port had no room for another
	Joined         []JoinedGroup // by address; read only
	Learned        int           // groups that are learned, joined or not
	Asked          [2]int        // requests for services under way, by direction: from RoCE, from IB; RequestsMost at most
	Refused        Refusals
	Counters       Counters

	Segments      []SegmentStatus  // by number; read only
	Bridges       []bridges.Bridge // others on the subnet; read only
	BridgesListed bool             // these are known, or there is no list

	Publication uint64 // counts publications, some ten a second while the loop runs
}

// A SegmentStatus is the state of one segment.
type SegmentStatus struct {
	Number uint8
	Name   string
	Place
	PKey     ib.PKey // of its partition; 0: any
	Hosts    int
	HostsMax int
	ProxyQPs int
	MostQPs  int // proxy QPs
	Groups   int
	Counters SegmentCounters
}

// SegmentCounters are the counters of a segment's parts.
type SegmentCounters struct {
	HostCounters
	GroupCounters
	ProxyQPCounters
}

// RequestsMost is the most requests for services under way in each direction.
const RequestsMost = sidr.PendingMost

// A JoinedGroup is one that is bridged, and the id that workers count it under. Several may have one address.
type JoinedGroup = groups.Joined

// GroupRejections are the reasons for which a group is not learned.
var GroupRejections = groups.Rejections

// The counters of the parts.
type (
	FrameCounters   = punt.Counters
	HostCounters    = neighbours.Counters
	GroupCounters   = groups.Counters
	NodeCounters    = learner.Counters
	ProxyQPCounters = proxyqps.Counters
)

// Counters counts management's own frames, and what became of them.
type Counters struct {
	FrameCounters
	HostCounters
	GroupCounters
	NodeCounters
	ProxyQPCounters
	EchoAnswered uint64
	Services     [2]ServiceCounts // by direction: from RoCE, from IB
}

// Status returns the last publication. Any goroutine may call it.
func (l *Loop) Status() Status { return *l.status.Load() }

func (l *Loop) waiting() int {
	return l.nodes.Waiting() + total(l.segments, (*segment).waiting) + l.shared.Unsettled() + len(l.missing)
}

func (l *Loop) isReady() bool { return l.started && !l.drained && l.waiting() == 0 }

func (l *Loop) publish() {
	ready := l.isReady()
	if ready && !l.wasReady { // a reader of the status may send at once
		l.wasReady = true
		for _, s := range l.segments {
			s.neighbours.Announce(time.Now())
		}
	}
	l.published++
	counters := l.counters()
	hosts, full, short := total(l.segments, (*segment).hosts), false, false
	var segments []SegmentStatus
	for _, s := range l.segments {
		x := s.status()
		full, short = full || x.Hosts >= x.HostsMax, short || x.ProxyQPs >= x.MostQPs
		segments = append(segments, x)
	}
	l.status.Store(&Status{
		Ready:          ready,
		Drained:        l.drained,
		Waiting:        l.waiting(),
		Missing:        l.missing,
		Hosts:          hosts,
		Nodes:          l.tables.Nodes.Len(),
		LearnedNodes:   l.learner.Learned(),
		LostNodes:      l.nodes.Lost(),
		Groups:         total(l.segments, func(s *segment) int { return s.tables.Groups.Len() }) + l.tables.Shared.Len(),
		ProxyQPs:       total(l.segments, func(s *segment) int { return s.tables.ProxyQPs.Len() }),
		ProxyQPsMost:   total(l.segments, func(s *segment) int { return s.proxyQPs.Most(time.Now()) }),
		HostGIDs:       total(l.segments, func(s *segment) int { return s.gids.Hosts() }),
		OwnGIDs:        l.segments[0].gids.Own(),
		Aliases:        total(l.segments, func(s *segment) int { return s.gids.Aliases() }),
		AliasesRefused: sum(func(s *segment) uint64 { return s.gids.Refused() }, l.segments),
		Joined:         joinedGroups(l.segments, l.shared.Joined()),
		Learned:        total(l.segments, func(s *segment) int { return s.groups.Learned() }),
		Asked:          sum(func(s *segment) [2]int { return s.sidr.Pending() }, l.segments),
		Refused:        l.refusals.notice(time.Now(), full, short, &counters),
		Counters:       counters,
		Segments:       segments,
		Bridges:        l.bridges.All(),
		BridgesListed:  l.bridges.Listed(),
		Publication:    l.published,
	})
}

func total(segments []*segment, of func(*segment) int) (n int) {
	for _, s := range segments {
		n += of(s)
	}
	return n
}

func (s *segment) waiting() int { return s.sidr.Waiting() + s.groups.Unsettled() }

func (s *segment) hosts() int { return s.tables.Hosts.Len() }

func (s *segment) status() SegmentStatus {
	return SegmentStatus{
		Number: s.number, Name: s.name(), Place: s.cfg.Place, PKey: s.cfg.Bound, Hosts: s.hosts(), HostsMax: s.hostsMax, ProxyQPs: s.tables.ProxyQPs.Len(),
		MostQPs: s.proxyQPs.Most(time.Now()), Groups: s.tables.Groups.Len(),
		Counters: countedIn(s).SegmentCounters,
	}
}

// joinedGroups lists the groups of all segments, and those that several share, by address.
func joinedGroups(segments []*segment, shared []JoinedGroup) []JoinedGroup {
	if len(segments) == 1 && len(shared) == 0 {
		return segments[0].groups.Joined()
	}
	all := slices.Clone(shared)
	for _, s := range segments {
		for _, x := range s.groups.Joined() {
			x.Segments = 1 << s.number
			all = append(all, x)
		}
	}
	slices.SortStableFunc(all, func(a, b JoinedGroup) int { return a.IP.Compare(b.IP) })
	return all
}

func (l *Loop) counters() Counters {
	x := sum(countedIn, slices.Concat(l.segments, l.ended))
	add(reflect.ValueOf(&x).Elem(), reflect.ValueOf(&l.past).Elem())
	return Counters{
		FrameCounters: l.frames.Counters(), HostCounters: x.HostCounters, GroupCounters: x.GroupCounters,
		NodeCounters: l.learner.Counters(), ProxyQPCounters: x.ProxyQPCounters, EchoAnswered: l.echoAnswered,
		Services: x.Services,
	}
}

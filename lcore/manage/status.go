// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"time"

	"causeway/ibside/ib"
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

	Publication uint64 // counts publications, some ten a second while the loop runs
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
	return l.nodes.Waiting() + l.sidr.Waiting() + l.groups.Unsettled() + len(l.missing)
}

func (l *Loop) isReady() bool { return l.started && !l.drained && l.waiting() == 0 }

func (l *Loop) publish() {
	ready := l.isReady()
	if ready && !l.wasReady { // a reader of the status may send at once
		l.wasReady = true
		l.neighbours.Announce(time.Now())
	}
	l.published++
	counters := l.counters()
	hosts, proxyQPs, most := l.tables.Hosts.Len(), l.tables.ProxyQPs.Len(), l.proxyQPs.Most(time.Now())
	l.status.Store(&Status{
		Ready:          ready,
		Drained:        l.drained,
		Waiting:        l.waiting(),
		Missing:        l.missing,
		Hosts:          hosts,
		Nodes:          l.tables.Nodes.Len(),
		LearnedNodes:   l.learner.Learned(),
		Groups:         l.tables.Groups.Len(),
		ProxyQPs:       proxyQPs,
		ProxyQPsMost:   most,
		HostGIDs:       l.gids.Hosts(),
		OwnGIDs:        l.gids.Own(),
		Aliases:        l.gids.Aliases(),
		AliasesRefused: l.gids.Refused(),
		Joined:         l.groups.Joined(),
		Learned:        l.groups.Learned(),
		Asked:          l.sidr.Pending(),
		Refused:        l.refusals.notice(time.Now(), hosts >= l.cfg.MaxHosts, proxyQPs >= most, &counters),
		Counters:       counters,
		Publication:    l.published,
	})
}

func (l *Loop) counters() Counters {
	return Counters{
		FrameCounters: l.frames.Counters(), HostCounters: l.neighbours.Counters(), GroupCounters: l.groups.Counters(),
		NodeCounters: l.learner.Counters(), ProxyQPCounters: l.proxyQPs.Counters(), EchoAnswered: l.echoAnswered, Services: l.sidr.Counts(),
	}
}

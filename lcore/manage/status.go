// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"maps"
	"net/netip"
	"time"
)

// Status is how management stands, as of the last publication (at most 0.1 s ago).
type Status struct {
	Ready    bool // every group is joined on both sides, every configured node has its path
	Waiting  int  // joins and paths that are not there yet
	Hosts    int
	Nodes    int
	Groups   int
	StandIns int
	HostGIDs int           // RoCE hosts that are seen on IB under a GID of their own
	OwnGIDs  int           // GIDs that messages can be sent from, the bridge's own among them
	Joined   []JoinedGroup // nobody changes it
	Counters Counters
}

// A JoinedGroup is one that is bridged, and the id that workers count it under.
type JoinedGroup struct {
	IP netip.Addr
	ID int
}

// Counters counts management's own frames, by what came of them.
type Counters struct {
	ARPAnswered        uint64
	NDAnswered         uint64
	EchoAnswered       uint64
	GroupReports       uint64
	GroupQueries       uint64
	HostsLearned       uint64
	HostsMoved         uint64
	HostsRefused       uint64 // no room for another
	HostsForgotten     uint64 // made room for one that sends
	HostsAsked         uint64 // questions for a MAC address
	AddressesAnnounced uint64
	Spoofs             uint64 // contradicted a static entry or claimed an address of the other side
	NotForUs           uint64 // understood, and nothing to do
	Malformed          map[string]uint64
	StandInsMade       uint64
	StandInsAged       uint64 // ended, because nothing crossed by them
	StandInsDenied     uint64
	SendFailed         uint64
}

// Status returns the last publication. Any goroutine may call it.
func (l *Loop) Status() Status { return *l.status.Load() }

func (l *Loop) isReady() bool {
	return l.started && l.waiting == 0 && len(l.groups) == len(l.cfg.Groups)
}

func (l *Loop) publish() {
	ready := l.isReady()
	if ready && !l.wasReady { // whoever hears that it is may send at once
		l.wasReady = true
		l.sendAnnouncements(time.Now())
	}
	c := l.count
	c.Malformed = maps.Clone(l.count.Malformed)
	l.status.Store(&Status{
		Ready:    ready,
		Waiting:  l.waiting,
		Hosts:    l.tables.LenHosts(),
		Nodes:    l.tables.LenNodes(),
		Groups:   l.tables.LenGroups(),
		StandIns: l.tables.LenStandIns(),
		HostGIDs: len(l.ids.of),
		OwnGIDs:  len(l.ids.own.Sources),
		Joined:   l.joinedAs, // it only grows: what has been published stays as it is
		Counters: c,
	})
}

func (l *Loop) malformed(name string) {
	if l.count.Malformed == nil {
		l.count.Malformed = map[string]uint64{}
	}
	l.count.Malformed[name]++
}

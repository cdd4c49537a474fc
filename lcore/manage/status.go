// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"maps"
	"net/netip"
	"time"

	"causeway/ibside/ib"
)

// Status is how management stands, as of the last publication (at most 0.1 s ago).
type Status struct {
	Ready    bool // every group is joined on both sides, every configured node has its path
	Drained  bool // another bridge is to take over; see Change
	Waiting  int  // joins and paths that are not there yet
	Hosts    int
	Nodes    int
	Groups   int
	StandIns int
	HostGIDs int           // RoCE hosts that are seen on IB under a GID of their own
	OwnGIDs  int           // GIDs that messages can be sent from, the bridge's own among them
	Aliases  int           // RoCE hosts' GUIDs that are the IB port's
	Joined   []JoinedGroup // by address; nobody changes it
	Learned  int           // groups that are learnt, joined or not
	Asked    [2]int        // requests for services under way, by direction: who asks is on RoCE, or on IB
	Counters Counters

	Publication uint64 // counts these; as long as the loop turns there are some ten in a second
}

// A JoinedGroup is one that is bridged, and the id that workers count it under. Several may have one address.
type JoinedGroup struct {
	IP      netip.Addr
	ID      int
	MGID    ib.GID
	Learned bool
}

// GroupRefusals are the reasons for which a group is not learnt.
var GroupRefusals = []string{"groups_full", "mgid_taken", "no_mgid", "range_full", "source"}

// Counters counts management's own frames, by what came of them.
type Counters struct {
	ARPAnswered        uint64
	NDAnswered         uint64
	EchoAnswered       uint64
	GroupReports       uint64
	GroupQueries       uint64
	GroupQueriesSent   uint64
	GroupReportsHeard  uint64            // that name a group of a range
	GroupNotices       uint64            // of the subnet, that name a group of a range or a group that is there
	GroupsLearned      uint64            // by reports or notices
	GroupsForgotten    uint64            // that were learnt
	GroupsRefused      map[string]uint64 // not learnt, by reason; see GroupRefusals
	HostsLearned       uint64
	HostsMoved         uint64
	HostFlaps          uint64 // moves back to where the host had just moved from
	HostConflicts      uint64 // claims of an address whose holder still answers
	HostsRefused       uint64 // no room for another
	HostsForgotten     uint64 // made room for one that sends
	HostsAged          uint64 // forgotten, because they neither answer nor send
	HostsSilent        uint64 // times that a host with stand-ins stopped answering
	HostsAsked         uint64 // questions for a MAC address
	AddressesAnnounced uint64
	AddressesDefended  uint64 // announced again, because somebody on Ethernet claimed them
	NodesAbsent        uint64 // questions for nodes that the subnet does not have: not answered
	Spoofs             uint64 // contradicted a static entry or claimed an address of the other side
	NotForUs           uint64 // understood, and nothing to do
	Malformed          map[string]uint64
	StandInsMade       uint64
	StandInsAged       uint64 // ended, because nothing crossed by them
	StandInsDenied     uint64
	SendFailed         uint64
	Services           [2]ServiceCounts // by direction: who asks is on RoCE, or on IB
}

// Status returns the last publication. Any goroutine may call it.
func (l *Loop) Status() Status { return *l.status.Load() }

func (l *Loop) isReady() bool {
	return l.started && !l.drained && l.waiting == 0 && l.unsettled() == 0
}

// unsettled returns how many configured groups are not yet as they are wanted. Learnt ones keep no bridge from being ready.
func (l *Loop) unsettled() int {
	n := l.unfit
	for _, m := range l.groups {
		if m.learned == nil && !m.gone && !m.isSettled() {
			n++
		}
	}
	return n
}

func (l *Loop) publish() {
	ready := l.isReady()
	if ready && !l.wasReady { // whoever hears that it is may send at once
		l.wasReady = true
		l.sendAnnouncements(time.Now())
	}
	if l.changed {
		l.joinedAs, l.changed = l.listJoined(), false
	}
	c := l.count
	c.GroupReports, c.GroupQueriesSent = l.listener.Reports, l.querier.Queries
	c.Malformed = maps.Clone(l.count.Malformed)
	c.GroupsRefused = maps.Clone(l.count.GroupsRefused)
	c.Services[ibToRoCE][ServiceBusy] += l.sidr.tooMany.Load()
	l.published++
	l.status.Store(&Status{
		Ready:    ready,
		Drained:  l.drained,
		Waiting:  l.waiting + l.unsettled(),
		Hosts:    l.tables.LenHosts(),
		Nodes:    l.tables.LenNodes(),
		Groups:   l.tables.LenGroups(),
		StandIns: l.tables.LenStandIns(),
		HostGIDs: l.port.sources.Len(),
		OwnGIDs:  len(l.port.own.Sources),
		Aliases:  l.port.aliases.Len(),
		Joined:   l.joinedAs,
		Learned:  len(l.learnedAt),
		Asked:    [2]int{l.sidr.roceToIB.Taken(), l.sidr.ibToRoCE.Taken()},
		Counters: c,

		Publication: l.published,
	})
}

func (l *Loop) malformed(name string) {
	if l.count.Malformed == nil {
		l.count.Malformed = map[string]uint64{}
	}
	l.count.Malformed[name]++
}

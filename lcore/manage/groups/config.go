// SPDX-License-Identifier: Apache-2.0

// Package groups keeps the bridged multicast groups: configured ones, and those that are learned while RoCE hosts
// report them or the subnet has them.
//
//	configuration ─ Set ──▶ ┐
//	IGMP, MLD reports     ─▶ ├ membership: wanted ─▶ joined on IB ─▶ in the tables ─▶ reported on RoCE
//	subnet's notices      ─▶ ┘     pursue takes one step after the other, until what is there is what is wanted
//
// All methods belong to the loop's goroutine.
package groups

import (
	"context"
	"net/netip"
	"reflect"
	"slices"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/punt"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

// A Group is a bridged group by configuration.
type Group struct {
	IP           netip.Addr
	UDPPort      uint16 // on Ethernet the group is plain UDP to this port; 0: RoCE
	TTL          uint8  // or hop limit, of plain UDP on Ethernet
	MGID         ib.GID
	QKey         ib.QKey
	PKey         ib.PKey
	ToIB, ToRoCE bool
	RewriteImm   bool
	Rate         uint64       // packets a second, each way; 0: no limit
	PGM          bool         // its messages are PGM's, and are tracked
	Segments     uint8        // those that share it, a bit for each; 0: that of the Groups
	Sources      []netip.Addr // that the bridge is a member for on Ethernet, in order; nil: all
}

func (g *Group) equals(o *Group) bool {
	a, b := *g, *o
	a.Sources, b.Sources = nil, nil
	return reflect.DeepEqual(a, b) && slices.Equal(g.Sources, o.Sources)
}

// Addr returns what packets on Ethernet name of the group.
func (g *Group) Addr() tables.GroupAddr { return tables.GroupAddr{IP: g.IP, UDPPort: g.UDPPort} }

// A Range is group addresses that are bridged on demand.
type Range struct {
	Prefix  netip.Prefix
	Reports bool                    // RoCE hosts demand a group by IGMP and MLD reports
	SA      bool                    // IB nodes demand a group by creating it on the subnet: the port is a Notifier
	Most    int                     // groups at a time
	Group   Group                   // what all groups have in common; each has an IP and an MGID of its own
	MGID    func(netip.Addr) ib.GID // zero: the address has none
}

// Tables are where the groups go.
type Tables interface {
	Put(tables.Group) (id uint32, err error)
	DeleteMGID(mgid ib.GID) error
}

// A Port is the IB port.
type Port interface {
	Join(ctx context.Context, j ibside.Join) (ibside.Membership, error)
	Leave(ctx context.Context, mgid ib.GID) error
}

// Config is what groups need to know. Start, Set, SetRanges and SetQuerier change what may change.
type Config struct {
	Max     int // configured and learned; less than the tables have room for, because ids rest before they are used again
	Version uint8
	IBMTU   int // largest payload towards IB, bytes
	RoCEMTU int // largest payload towards RoCE, bytes
	EthMTU  int // of the Ethernet port: the largest IP packet, bytes
	Ranges  []Range
	Querier bool // the bridge sends queries on the RoCE side, where no other querier comes first
	Quiet   bool // others report the groups on the RoCE side

	// Receive makes the Ethernet port receive these groups, sorted, besides those that management itself needs. It is
	// called when they change; nil: the port receives all.
	Receive func(groups []tables.GroupAddr) error
	// Begin says that an id, which nothing crosses under yet, belongs to another group from now on. May be nil.
	Begin func(id int)
	// Police limits the rate of the group with this id; called for groups that have or had a limit.
	Police func(id int, rate uint64)
}

// Deps are what groups work with.
type Deps struct {
	Tables Tables
	Port   Port
	Local  *local.Addresses
	Frames *punt.Workers
	Ask    *ask.Asker
	Log    *ratelog.Logger
	// IsPeer reports whether an address is the bridge's own or an IB node's, another bridge among them.
	IsPeer func(netip.Addr) bool
	// IsBridge reports whether another bridge sends by a MAC address.
	IsBridge func(frame.MAC) bool
	Owners   *Owners
	// Partition returns the number of a P_Key.
	Partition func(ib.PKey) uint8
}

// Counters counts what became of groups and of IGMP and MLD.
type Counters struct {
	GroupReports      uint64 // sent
	GroupQueries      uint64 // received
	GroupQueriesSent  uint64
	GroupReportsHeard uint64            // that name a group of a range
	GroupNotices      uint64            // of the subnet, that name a group of a range or a group that is there
	GroupsLearned     uint64            // by reports or notices
	GroupsLost        uint64            // learned, and ended because they are not wanted any more
	GroupsRejected    map[string]uint64 // not learned, by reason; see Rejections
}

// Rejections are the reasons for which a group is not learned.
var Rejections = []string{"groups_full", "host_full", "mgid_taken", "no_mgid", "range_full", "source"}

// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/tables"
)

// A Node is an IB node by configuration.
type Node struct {
	IP4, IP6 netip.Addr // at least one is valid
	GID      ib.GID
	LID      ib.LID // 0: the subnet administrator is asked
	SL       ib.SL
	GRH      bool // what is sent to it carries a GRH
	Bridge   bool // another bridge of ours
}

func (n Node) addrs() []netip.Addr {
	var a []netip.Addr
	for _, ip := range []netip.Addr{n.IP4, n.IP6} {
		if ip.IsValid() {
			a = append(a, ip)
		}
	}
	return a
}

// A Group is a bridged group by configuration.
type Group struct {
	IP           netip.Addr
	MGID         ib.GID
	QKey         ib.QKey
	PKey         ib.PKey
	ToIB, ToRoCE bool
	RewriteImm   bool
	Rate         uint64 // packets a second, each way; 0: no limit
	PGM          bool   // its messages are PGM's, and looked at
}

// A Range is group addresses that are bridged for as long as somebody wants them.
type Range struct {
	Prefix  netip.Prefix
	Reports bool                    // RoCE hosts want a group by reports of IGMP and MLD
	SA      bool                    // IB nodes want a group by having it on the subnet: the door is a Notifier
	Most    int                     // groups at a time
	Idle    time.Duration           // a group that nobody reports for so long, though there is who asks, ends
	Group   Group                   // what all have in common; IP and MGID are of each its own
	MGID    func(netip.Addr) ib.GID // zero: there is none
}

// Config is what management needs to know. What a Change names changes, in the loop; the rest does not.
type Config struct {
	MAC       frame.MAC
	VLAN      uint16
	Addresses []netip.Prefix // the bridge's own
	Version   uint8          // RoCE version of multicast towards RoCE hosts: 1 or 2
	IBMTU     int            // largest payload towards IB, bytes
	RoCEMTU   int            // largest payload towards RoCE, bytes

	MaxHosts        int // RoCE hosts, at most; the tables have room for some more: see putHost
	MaxNodes        int // IB nodes, at most; 0: as many as the tables take
	StandIns        int // at most
	StandInsPerHost int
	StandInIdle     time.Duration  // a stand-in that nothing crosses by for so long ends; 0: never
	HostGIDs        []netip.Prefix // the IB port's GIDs in there are for RoCE hosts, one each
	AliasGIDs       bool           // RoCE hosts' GIDs are made the port's, where the door is an Aliaser

	Hosts   []tables.Host // static RoCE hosts
	Resolve []netip.Addr  // RoCE hosts that are asked for their MAC address
	Nodes   []Node
	Groups  []Group

	Service ServiceConfig

	MaxGroups int     // configured and learnt, at most; less than the tables have room for, because ids rest before they are used again
	Ranges    []Range // groups that are learnt; they do not overlap
	Querier   bool    // the bridge asks the RoCE side who listens, where nobody else does

	// Hear has the Ethernet port receive these groups, sorted, beside what management itself needs. Called in the loop when
	// they are others; nil: the port receives all.
	Hear func(groups []netip.Addr) error
	// Begin says that nothing crosses under this id, and that what will is of another group than before. May be nil.
	Begin func(id int)
	// Police limits the rate of the group with this id; called for groups that have one, or had.
	Police func(id int, rate uint64)
}

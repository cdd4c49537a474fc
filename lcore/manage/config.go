// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/groups"
	"causeway/lcore/manage/nodes"
	"causeway/lcore/manage/proxyqps"
	"causeway/lcore/manage/punt"
	"causeway/lcore/manage/sidr"
	"causeway/tables"
)

// What the parts of management declare and others use by this package.
type (
	Node  = nodes.Node
	Group = groups.Group
	Range = groups.Range

	ProxyQPLimits = proxyqps.Limits
	ServiceResult = sidr.Result
	ServiceCounts = sidr.Counts

	Worker    = punt.Worker
	Punted    = punt.Frame
	Rejection = punt.Rejection
)

// The rejections.
const (
	RejectFull        = punt.RejectFull
	RejectSource      = punt.RejectSource
	RejectStopped     = punt.RejectStopped
	RejectBusy        = punt.RejectBusy
	RejectDenied      = punt.RejectDenied
	RejectUnconfirmed = punt.RejectUnconfirmed
	RejectRate        = punt.RejectRate
	RejectSegment     = punt.RejectSegment
)

// Results of requests for services.
const (
	ServiceAnswered  = sidr.Answered
	ServiceTimedOut  = sidr.TimedOut
	ServiceBusy      = sidr.Busy
	ServiceNoProxyQP = sidr.NoProxyQP
)

// SegmentChange is what of a segment may change while the loop runs.
type SegmentChange struct {
	Hosts   []tables.Host // static RoCE hosts
	Resolve []netip.Addr  // RoCE hosts that are asked for their MAC address
	Groups  []Group
	Ranges  []Range // groups that are learned; they do not overlap
	Querier bool    // the bridge sends IGMP and MLD queries there, where no other querier comes first

	// Services: the ports that are proxied, the RoCE hosts that may request them and offer them, and what InfiniBand
	// knows these and nodes by.
	Ports     []ibside.PortRange
	Allow     []netip.Prefix // hosts that may send across, too
	Translate ib.Translations
}

// A Place says which segment one is: a VLAN of an Ethernet port.
type Place struct {
	Port uint8 // its index
	VLAN uint16
}

// A Segment is a VLAN of an Ethernet port, with its own hosts and groups. It is known by its place.
type Segment struct {
	Place
	MAC       frame.MAC      // of its port; zero: Config.MAC
	Label     string         // names it for operators; "": its VLAN does
	Bound     ib.PKey        // the P_Key of the only partition that its messages cross to and from; 0: all do
	Addresses []netip.Prefix // the bridge's own
	Version   uint8          // RoCE version of multicast towards RoCE hosts: 1 or 2
	RoCEMTU   int            // largest payload towards RoCE, bytes
	EthMTU    int            // the largest IP packet, bytes

	// Receive makes the Ethernet port receive these groups, sorted, besides those that management itself needs. It is
	// called in the loop when they change; nil: the port receives all.
	Receive func(groups []tables.GroupAddr) error
	// Attach makes workers take the segment's frames under a number, and Detach makes them drop these. They are called in
	// the loop when the segment comes while the loop runs, and when it goes; nil: workers know it.
	Attach func(number, partition uint8)
	Detach func(number uint8)

	SegmentChange
}

// segments are all, by number at the start.
func (c *Config) segments() []Segment { return append([]Segment{c.Segment}, c.More...) }

// A SharedGroup is a group that several segments have. On IB it is in the partition of its own P_Key.
type SharedGroup struct {
	Group
	In []Place // their segments
}

// Config is what management needs to know. A Change names what may change while the loop runs.
type Config struct {
	Segment           // the first
	More    []Segment // the others
	Shared  []SharedGroup

	MAC   frame.MAC
	PKey  ib.PKey // of [ib]: that of nodes and groups without another
	IBMTU int     // largest payload towards IB, bytes

	MaxHosts      int // RoCE hosts; the tables have room for some more, because entries rest before they are used again
	MaxNodes      int // IB nodes; 0: as many as the tables take
	ProxyQPs      int // at most
	Waiting       int // packets that wait for proxy QPs, at most; 0: as many as proxyqps.WaitMost
	ProxyQPLimits ProxyQPLimits
	HostGIDs      []netip.Prefix // the IB port's GIDs in there are for RoCE hosts, one each
	AliasGIDs     bool           // RoCE hosts' GIDs become aliases of the port, where it is an Aliaser

	// Nodes that are not configured are learned by it, if the port is an ibside.Locator; nil: none is.
	Resolver ibside.Resolver
	NodeIdle time.Duration // a learned node that is unused and does not answer goes after so long

	Nodes []Node

	Services ibside.Services // nil: the IB port cannot; then every request is rejected
	RoCEPKey ib.PKey         // of management datagrams on Ethernet

	// Configured and learned; less than the tables have room for, because ids rest before they are used again.
	MaxGroups int

	// Begin says that an id, which nothing crosses under yet, belongs to another group from now on. May be nil.
	Begin func(id int)
	// Rests reports whether workers may still use a segment that was detached. May be nil.
	Rests func(number uint8) bool
	// LinkUp tells that frames can pass the Ethernet port again. May be nil.
	LinkUp <-chan struct{}
	// PuntRing is how many punted frames a worker's ring holds at most.
	PuntRing int
	// AwaitPunted has Punted tell of the next frame that a worker punts, and reports whether all are told of; the loop looks
	// for frames once more after it. Where not, as without it, the loop looks each millisecond.
	AwaitPunted func() bool
	Punted      <-chan struct{}
	// Instance tells the bridge from others on its subnet, and from its own earlier runs. SetBridges has workers drop what
	// comes from these MAC addresses, because other bridges have sent it; nil: there are no workers.
	Instance   uint64
	SetBridges func(macs [][6]byte) error
	// Drained: the loop begins as one that a Change has drained.
	Drained bool
	// Fleet says which bridge answers for nodes; nil: there is one.
	Fleet Fleet
	// OfFleet tells other bridges of which fleet this one is; nil: of none.
	OfFleet func() ibside.Fleet
	// Heard gets what other bridges' SendMessage has sent to an own address of any segment, from anybody: it must know what
	// is forged. It is called in the loop, and may neither block nor keep data. nil: nobody wants messages.
	Heard func(data []byte)
	// Police limits the rate of the group with this id; called for groups that have or had a limit.
	Police func(id int, rate uint64)
}

// SPDX-License-Identifier: Apache-2.0

// Package learner learns IB nodes that are not configured, from the subnet alone:
//
//	message of an unknown SLID ─ Unknown ─▶ subnet administrator: whose LID is it? ─▶ GID
//	            of an unknown SGID ───────────────────────────────────────────────▶ GID ─▶ kernel: which addresses has it?
//	ARP, ND, message for an unknown address ─ Wanted ─▶ kernel: who has it, on IPoIB? ─▶ GID      │
//	                                                                                              ▼
//	                     nodes ◀─ path ◀─ subnet administrator ◀──────────────── GID with addresses that may be learned
//
// What Ethernet says only makes it ask. A node's addresses come from the kernel's neighbours on IPoIB, its path from
// the subnet administrator. An address that a RoCE host has, which has answered for it, stays the host's until it is gone; one that a node has
// stays the node's while it answers there. A node has one address of each IP version. All methods belong to the loop's
// goroutine.
package learner

import (
	"context"
	"net/netip"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/nodes"
	"causeway/lcore/manage/ratelog"
)

// Config is what the learner needs to know. SetAllow, SetTranslate and SetMax change what may change.
type Config struct {
	Max       int           // learned nodes
	Idle      time.Duration // an unused node that does not answer goes after so long
	Every     time.Duration // between two calls of Tick
	Allow     []netip.Prefix
	Translate ib.Translations
}

// Nodes are all IB nodes.
type Nodes interface {
	Find(gid ib.GID) (nodes.Node, bool)
	GID(ip netip.Addr) ib.GID
	Learn(x nodes.Node, path ibside.Path) error
	Unlearn(gid ib.GID)
}

// Tables know what has been used.
type Tables interface {
	TakeUsed(gid ib.GID) bool
}

// Hosts are the RoCE hosts that have shown that they exist, or need not: anybody can ask by ARP in another's name.
type Hosts interface {
	Has(ip netip.Addr) bool
}

// Local are the bridge's own addresses, with their subnets.
type Local interface {
	OnLink(ip netip.Addr) bool
	Has(ip netip.Addr) bool
}

// A Port is the IB port.
type Port interface {
	ibside.Locator
	Path(ctx context.Context, dgid ib.GID, pkey ib.PKey) (ibside.Path, error)
	Own() ibside.Own
}

// Deps are what the learner works with.
type Deps struct {
	Port     Port
	Resolver ibside.Resolver
	Nodes    Nodes
	Tables   Tables
	Hosts    Hosts
	Local    Local
	Ask      *ask.Asker
	Log      *ratelog.Logger
	// Partition returns the number of the partition of nodes that are learned, or tables.PartitionHeard. It changes with
	// the configuration only.
	Partition func() uint8
}

// Counters counts what was asked and learned.
type Counters struct {
	NodesLearned  uint64
	NodesAged     uint64 // removed, because they neither send nor answer
	NodesEvicted  uint64 // removed to make room
	NodesAsked    uint64 // questions to the subnet administrator and to the kernel
	NodesRejected uint64 // not learned: no room, too many questions, or the address is another's
}

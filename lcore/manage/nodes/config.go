// SPDX-License-Identifier: Apache-2.0

// Package nodes keeps the IB nodes: which addresses are theirs, and the paths to them.
//
//	configuration ─ Set ─▶ LID configured ─────────────────────────▶ tables
//	                       else: resolving ─ path record ─▶ resolved ─▶ tables ◀─ Renew: the subnet may have changed paths
//
// Other nodes are learned: Learn, Unlearn. As soon as a node is configured its addresses are IB's, also when a station
// on Ethernet claims them. All methods belong to the loop's goroutine.
package nodes

import (
	"context"
	"net/netip"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

// A Node is an IB node.
type Node struct {
	IP4, IP6 netip.Addr // at least one is valid
	GID      ib.GID
	LID      ib.LID // the only one of its port; 0: the subnet administrator is asked
	SL       ib.SL
	GRH      bool // what is sent to it carries a GRH
	Bridge   bool // another bridge
	Learned  bool // it is not configured

	PKey      ib.PKey // 0: none is configured
	Partition uint8   // its number, or tables.PartitionHeard
}

// Addrs returns the addresses of a node.
func (n *Node) Addrs() []netip.Addr {
	var a []netip.Addr
	for _, ip := range []netip.Addr{n.IP4, n.IP6} {
		if ip.IsValid() {
			a = append(a, ip)
		}
	}
	return a
}

// Tables are where the nodes go.
type Tables interface {
	Put(tables.Node) (id uint32, err error)
	MarkLIDs(gid ib.GID, s tables.LIDState)
	Delete(ip netip.Addr) error
	FindGID(gid ib.GID) (n tables.Node, id uint32, ok bool)
}

// Paths resolves GIDs.
type Paths interface {
	Path(ctx context.Context, dgid ib.GID, pkey ib.PKey) (ibside.Path, error)
	Own() ibside.Own
}

// Deps are what nodes work with.
type Deps struct {
	Tables Tables
	Paths  Paths
	MTU    int // largest payload towards IB, bytes: what a path allows beyond it does not count
	Ask    *ask.Asker
	Log    *ratelog.Logger
	// Reclaim makes room in the tables: it frees what no worker reads any more.
	Reclaim func() int
	// Readdress is called when addresses have become nodes', before the nodes are in the tables, and others nodes'
	// no more.
	Readdress func(added, removed []netip.Addr)
	// Changed is called when a node was put into the tables outside of a call of Set.
	Changed func()
}

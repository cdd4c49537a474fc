// SPDX-License-Identifier: Apache-2.0

package tables

/*
#include "tables_write.h"
*/
import "C"

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"causeway/ibside/ib"
)

// Node is an IB node. It has an IPv4 address, an IPv6 address or both.
type Node struct {
	IP4, IP6 netip.Addr // the zero Addr: none
	GID      ib.GID
	// Where to send: one of the node's port, or a router's; virtual functions of a port share its; 0: GRH tells.
	LID      ib.LID
	LMC      uint8    // the node's port has 1<<LMC LIDs, LID among them
	LIDs     LIDState // whether they name the node as a source
	SL       ib.SL
	MTU      int     // largest payload, bytes; 0: InfiniBand's largest
	Rate     ib.Rate // for address handles; 0: the port's
	HopLimit uint8   // for the GRH, on InfiniBand; more than 1: LID is a router's, and names nobody as a source
	GRH      bool    // what is sent to it carries a GRH
	Bridge   bool    // another bridge of ours: what it sends has been through a bridge

	Partition uint8 // or PartitionHeard
}

// MaxPartitions is how many partitions of the IB port can be used at a time. Their numbers are below; that of [ib] pkey
// is 0.
const MaxPartitions = C.MAX_PARTITIONS

// PartitionHeard in place of a node's partition means that it is in the one that it was last heard in; until then, in
// 0.
const PartitionHeard = C.PARTITION_HEARD

func checkPartition(n uint8) error {
	if n >= MaxPartitions {
		return fmt.Errorf("partition %d is not possible; use 0 to %d", n, MaxPartitions-1)
	}
	return nil
}

// LIDState says what is known of a node's LIDs. It only matters for messages without a GRH.
type LIDState uint8

// The states of a node's LIDs.
const (
	LIDsKnown LIDState = iota
	LIDsStale          // they may be another's by now: they name nobody, neither this node nor another
	LIDsLost           // they are the node's no more
)

// lids returns the LIDs that are the node's, or may be.
func (n *Node) lids() (all []ib.LID) {
	if n.LID == 0 || n.HopLimit > 1 || n.LIDs == LIDsLost {
		return nil
	}
	for i := range ib.LID(1) << n.LMC {
		all = append(all, n.LID.Base(n.LMC)+i)
	}
	return all
}

type node struct {
	Node
	id uint32
}

// Nodes are the IB nodes, and the addresses of the bridge's own port, which share the table sources; and the table
// nodes.
type Nodes struct {
	c       *C.struct_tables
	nodes   map[netip.Addr]*node
	gids    map[ib.GID]*node
	lids    map[ib.LID][]*node
	lidsDue map[ib.LID]struct{} // see settleLID
	own     Own
	bridges bridges
	ids     ids
}

// reclaim makes retired ids usable again, and settles LIDs for which there was no slot.
func (t *Nodes) reclaim() {
	t.ids.reclaim()
	for _, lid := range keysOf(t.lidsDue) {
		t.settleLID(lid)
	}
}

// ips returns the addresses that n has.
func (n *Node) ips() []netip.Addr {
	ips := make([]netip.Addr, 0, 2)
	for _, ip := range []netip.Addr{n.IP4, n.IP6} {
		if ip.IsValid() {
			ips = append(ips, ip)
		}
	}
	return ips
}

func (n *Node) String() string { return fmt.Sprintf("%v gid %v", n.ips(), n.GID) }

func (n *Node) check() (err error) {
	n.IP4, n.IP6 = n.IP4.Unmap(), n.IP6.Unmap()
	ips := n.ips()
	if len(ips) == 0 {
		return fmt.Errorf("has no address; give IP4, IP6 or both")
	}
	for _, ip := range ips {
		if _, err := checkUnicast(ip); err != nil {
			return err
		}
	}
	switch {
	case n.IP4.IsValid() && !n.IP4.Is4() || n.IP6.IsValid() && !n.IP6.Is6():
		return fmt.Errorf("IP4 %v or IP6 %v is of the other family; exchange them", n.IP4, n.IP6)
	case n.GID.IsZero() || n.GID.IsMulticast():
		return fmt.Errorf("gid %v is not a node's; give the GID of its port", n.GID)
	case !n.LID.IsUnicast() && (n.LID != 0 || !n.GRH): // on an Ethernet link layer the GID is enough
		return fmt.Errorf("lid %v is not a node's; resolve its path first", n.LID)
	case n.LMC > ib.MaxLMC || n.LID != 0 && n.LID.Base(n.LMC) == 0:
		return fmt.Errorf("lmc %d with lid %v is not possible; resolve its path again", n.LMC, n.LID)
	case n.MTU < 0 || n.MTU > maxPayload:
		return fmt.Errorf("mtu %d is not possible; use 1 to %d bytes, or 0 for InfiniBand's largest", n.MTU, maxPayload)
	case n.SL > 15:
		return fmt.Errorf("sl %d is not possible; use 0 to 15", n.SL)
	case n.Partition == PartitionHeard:
		return nil
	}
	return checkPartition(n.Partition)
}

// Put adds the node that has one of n's addresses, or changes it; addresses it had and n does not are
// removed. An IP address and a GID belong to one node only. A LID may belong to several: a message
// without a GRH does not tell which of them sent it, so such a LID then names none as a source. LIDs that do not fit
// into the table yet do not make it fail: Reclaim tries them again.
func (t *Nodes) Put(n Node) (id uint32, err error) {
	if err := n.check(); err != nil {
		return 0, fmt.Errorf("tables: node %v: %w", &n, err)
	}
	n.Bridge = n.Bridge || t.bridges.has(n.GID)
	if slices.Contains(t.own.GIDs, n.GID) {
		return 0, fmt.Errorf("tables: node %v: the bridge's own port has this gid; give the node's", &n)
	}
	r, err := t.toReplace(&n)
	if err != nil {
		return 0, fmt.Errorf("tables: node %v: %w", &n, err)
	}
	if r != nil && r.Node == n {
		return r.id, nil
	}
	if id, err = t.place(&n, r); err != nil {
		return 0, fmt.Errorf("tables: node %v: %w", &n, err)
	}
	left := n.lids()
	was := n.GID
	if r == nil {
		r = &node{id: id}
	} else {
		left, was = append(left, r.lids()...), r.GID
		t.unindex(r)
	}
	r.Node = n
	for _, ip := range n.ips() {
		t.nodes[ip] = r
	}
	t.gids[n.GID] = r
	t.settleGID(was)
	t.claimLIDs(r)
	t.settleLIDs(left)
	return id, nil
}

// toReplace returns the node that n is a new state of, or nil, or an error if parts of n are other nodes'.
func (t *Nodes) toReplace(n *Node) (*node, error) {
	r := t.nodes[n.IP4]
	if r6 := t.nodes[n.IP6]; r == nil {
		r = r6
	} else if r6 != nil && r6 != r {
		return nil, fmt.Errorf("%v and %v belong to two nodes; delete one", n.IP4, n.IP6)
	}
	if other := t.gids[n.GID]; other != nil && other != r {
		return nil, fmt.Errorf("the gid belongs to the node of %v; delete that first", other.ips())
	}
	return r, nil
}

// place puts the entries of n on their tables; r is what n replaces, or nil.
func (t *Nodes) place(n *Node, r *node) (id uint32, err error) {
	if r != nil {
		id = r.id
	} else if id, err = t.ids.take(); err != nil {
		return 0, err
	} else {
		C.tables_unhear(t.c, C.uint32_t(id)) // it was another's
	}
	var c changes
	c.put(&t.c.sources, "sources", sourceEntry(gidKey(n.GID), n, id))
	for _, ip := range n.ips() {
		c.put(&t.c.nodes, "nodes", nodeEntry(ip, n, id))
	}
	if r != nil {
		t.deleteStale(&c, r, n)
	}
	if err = c.apply(); err != nil && r == nil {
		t.ids.retire(id)
	}
	return id, err
}

// deleteStale takes off the tables what r has and n has not. Its LIDs are settleLID's.
func (t *Nodes) deleteStale(c *changes, r *node, n *Node) {
	for _, ip := range r.ips() {
		if !slices.Contains(n.ips(), ip) {
			c.delete(&t.c.nodes, addrKey(ip, 0))
		}
	}
	if r.GID != n.GID {
		c.delete(&t.c.sources, gidKey(r.GID))
	}
}

// unindex takes r out of the Go maps.
func (t *Nodes) unindex(r *node) {
	for _, ip := range r.ips() {
		delete(t.nodes, ip)
	}
	delete(t.gids, r.GID)
	t.disclaimLIDs(r)
}

func (t *Nodes) claimLIDs(r *node) {
	for _, lid := range r.lids() {
		t.lids[lid] = append(t.lids[lid], r)
	}
}

func (t *Nodes) disclaimLIDs(r *node) {
	for _, lid := range r.lids() {
		t.lids[lid] = slices.DeleteFunc(t.lids[lid], func(o *node) bool { return o == r })
		if len(t.lids[lid]) == 0 {
			delete(t.lids, lid)
		}
	}
}

// MarkLIDs changes what is known of the LIDs of the node with a GID, if there is one. What LIDs name no more they do
// not name from now on.
func (t *Nodes) MarkLIDs(gid ib.GID, s LIDState) {
	r := t.gids[gid]
	if r == nil || r.LIDs == s {
		return
	}
	left := r.lids()
	t.disclaimLIDs(r)
	r.LIDs = s
	t.claimLIDs(r)
	t.settleLIDs(append(left, r.lids()...))
}

func (t *Nodes) settleLIDs(all []ib.LID) {
	slices.Sort(all)
	for _, lid := range slices.Compact(all) {
		t.settleLID(lid)
	}
}

// settleLID makes a LID name the one node that has it, or none. There may be no slot for that entry before readers have
// moved on; then it names none until Reclaim has tried again.
func (t *Nodes) settleLID(lid ib.LID) {
	if t.own.has(lid) {
		return
	}
	delete(t.lidsDue, lid)
	var c changes
	key := numberKey(uint64(lid))
	if _, ok := t.bridges.lids[lid]; ok {
		c.put(&t.c.sources, "sources", bridgeEntry(key))
		if c.apply() != nil {
			t.lidsDue[lid] = struct{}{}
		}
		return
	}
	if all := t.lids[lid]; len(all) == 1 && all[0].LIDs == LIDsKnown {
		c.put(&t.c.sources, "sources", sourceEntry(key, &all[0].Node, all[0].id))
		if c.apply() == nil {
			return
		}
		t.lidsDue[lid] = struct{}{}
		c = changes{}
	}
	c.delete(&t.c.sources, key)
	_ = c.apply() // without puts it does not fail
}

// TakeUsed reports whether a message has been sent to a node or has come from it since it was asked last.
func (t *Nodes) TakeUsed(gid ib.GID) bool {
	r := t.gids[gid]
	if r == nil {
		return false
	}
	key := gidKey(gid)
	used := C.tables_take_source_used(t.c, &key) != 0
	for _, ip := range r.ips() {
		key = addrKey(ip, 0)
		used = C.tables_take_node_used(t.c, &key) != 0 || used
	}
	for _, lid := range r.lids() {
		key = numberKey(uint64(lid))
		used = len(t.lids[lid]) == 1 && C.tables_take_source_used(t.c, &key) != 0 || used
	}
	return used
}

// Delete removes the node that has an IP address, with all its addresses. It fails when it is not there.
func (t *Nodes) Delete(ip netip.Addr) error {
	r := t.nodes[ip.Unmap()]
	if r == nil {
		return fmt.Errorf("tables: node %v: not there to delete", ip)
	}
	var c changes
	t.deleteStale(&c, r, &Node{})
	if err := c.apply(); err != nil {
		return err
	}
	t.unindex(r)
	t.settleGID(r.GID)
	t.settleLIDs(r.lids())
	t.ids.retire(r.id)
	return nil
}

// Find returns the node that has an IP address, and its id.
func (t *Nodes) Find(ip netip.Addr) (n Node, id uint32, ok bool) {
	if r := t.nodes[ip.Unmap()]; r != nil {
		return r.Node, r.id, true
	}
	return Node{}, 0, false
}

// PartitionOf returns the partition of the node that has a GID; 0 when there is none.
func (t *Nodes) PartitionOf(gid ib.GID) uint8 {
	r := t.gids[gid]
	switch {
	case r == nil:
		return 0
	case r.Partition == PartitionHeard:
		return uint8(C.tables_heard_in(t.c, C.uint32_t(r.id)))
	}
	return r.Partition
}

// FindGID returns the node that has a GID, and its id.
func (t *Nodes) FindGID(gid ib.GID) (n Node, id uint32, ok bool) {
	if r := t.gids[gid]; r != nil {
		return r.Node, r.id, true
	}
	return Node{}, 0, false
}

// All yields every node, in no order.
func (t *Nodes) All() iter.Seq[Node] {
	return objects(t.gids, func(r *node) Node { return r.Node })
}

// Len returns how many nodes there are.
func (t *Nodes) Len() int { return len(t.gids) }

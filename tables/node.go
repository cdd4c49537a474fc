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
	LID      ib.LID // where to send; nodes behind a router, and virtual functions of one port, share one; 0: the GRH is enough
	SL       ib.SL
	GRH      bool // packets to it carry a GRH
	Bridge   bool // another bridge of ours: its packets have been through a bridge
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
	case n.SL > 15:
		return fmt.Errorf("sl %d is not possible; use 0 to 15", n.SL)
	}
	return nil
}

// Put adds the node that has one of n's addresses, or changes it; addresses it had and n does not are
// forgotten. An IP address and a GID belong to one node only. A LID may belong to several: a message
// without a GRH does not tell which of them sent it, so such a LID then names none as a source.
func (t *Nodes) Put(n Node) (id uint32, err error) {
	if err := n.check(); err != nil {
		return 0, fmt.Errorf("tables: node %v: %w", &n, err)
	}
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
	if r == nil {
		r = &node{id: id}
	} else {
		t.forget(r)
	}
	oldLID := r.LID
	r.Node = n
	for _, ip := range n.ips() {
		t.nodes[ip] = r
	}
	t.gids[n.GID] = r
	if n.LID != 0 {
		t.lids[n.LID] = append(t.lids[n.LID], r)
	}
	if oldLID != n.LID && oldLID != 0 {
		t.settleLID(oldLID)
	}
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
	}
	var c changes
	sharers := slices.DeleteFunc(slices.Clone(t.lids[n.LID]), func(o *node) bool { return o == r })
	c.put(&t.c.sources, "sources", sourceEntry(gidKey(n.GID), n, id))
	named := n.LID != 0 && n.LID != t.own.LID
	if named && len(sharers) == 0 {
		c.put(&t.c.sources, "sources", sourceEntry(numberKey(uint64(n.LID)), n, id))
	}
	for _, ip := range n.ips() {
		c.put(&t.c.nodes, "nodes", nodeEntry(ip, n, id))
	}
	if named && len(sharers) > 0 {
		c.delete(&t.c.sources, numberKey(uint64(n.LID)))
	}
	if r != nil {
		t.deleteStale(&c, r, n)
	}
	if err = c.apply(); err != nil && r == nil {
		t.ids.retire(id)
	}
	return id, err
}

// deleteStale deletes the entries that r has and n has not. settleLID does its LID.
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

// forget takes r out of the Go maps.
func (t *Nodes) forget(r *node) {
	for _, ip := range r.ips() {
		delete(t.nodes, ip)
	}
	delete(t.gids, r.GID)
	t.lids[r.LID] = slices.DeleteFunc(t.lids[r.LID], func(o *node) bool { return o == r })
	if len(t.lids[r.LID]) == 0 {
		delete(t.lids, r.LID)
	}
}

// settleLID makes a LID that a node has left lead to the one node that still has it, or to none. There may be no slot
// for that entry before readers have moved on; Reclaim then tries again.
func (t *Nodes) settleLID(lid ib.LID) {
	if lid == t.own.LID {
		return
	}
	var c changes
	key := numberKey(uint64(lid))
	if sharers := t.lids[lid]; len(sharers) == 1 {
		c.put(&t.c.sources, "sources", sourceEntry(key, &sharers[0].Node, sharers[0].id))
	} else {
		c.delete(&t.c.sources, key)
	}
	delete(t.lidsDue, lid)
	if c.apply() != nil {
		t.lidsDue[lid] = struct{}{}
	}
}

// Delete removes the node that has an IP address, with all its addresses. It fails when it is not there.
func (t *Nodes) Delete(ip netip.Addr) error {
	r := t.nodes[ip.Unmap()]
	if r == nil {
		return fmt.Errorf("tables: node %v: not there to delete", ip)
	}
	var c changes
	t.deleteStale(&c, r, &Node{})
	if r.LID != 0 && r.LID != t.own.LID {
		c.delete(&t.c.sources, numberKey(uint64(r.LID)))
	}
	if err := c.apply(); err != nil {
		return err
	}
	t.forget(r)
	if r.LID != 0 {
		t.settleLID(r.LID)
	}
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

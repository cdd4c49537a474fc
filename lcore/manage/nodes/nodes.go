// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/tables"
)

// Nodes are all IB nodes. New makes them.
type Nodes struct {
	Deps
	byGID    map[ib.GID]Node
	gids     map[netip.Addr]ib.GID // by address
	repeated ib.GID                // one that two configured nodes have; zero: there is none

	resolving map[ib.GID]resolving // nodes without a path
	waiting   map[ib.GID]placed    // nodes that the tables had no room for
	retried   time.Time
	asking    questions        // nodes in the tables whose path is asked for again
	lost      map[ib.GID]bool  // nodes in the tables that the subnet has no more
	event     atomic.Int64     // counts the subnet's
	last      map[ib.GID]int64 // a node's last event: answers to questions from before it are old
	doubts    map[ib.GID]doubt
}

// placed is a node with the path to it.
type placed struct {
	Node
	path ibside.Path
	lids tables.LIDState
}

// New makes Nodes of the configured ones. Their addresses are IB's at once; Start does the rest.
func New(nodes []Node, d Deps) *Nodes {
	n := &Nodes{
		Deps: d, byGID: byGID(nodes), gids: map[netip.Addr]ib.GID{}, resolving: map[ib.GID]resolving{}, waiting: map[ib.GID]placed{},
		asking: questions{}, lost: map[ib.GID]bool{}, last: map[ib.GID]int64{}, doubts: map[ib.GID]doubt{},
	}
	for i, x := range nodes {
		if len(n.byGID) < len(nodes) && slices.ContainsFunc(nodes[:i], func(other Node) bool { return other.GID == x.GID }) {
			n.repeated = x.GID
		}
	}
	n.readdress()
	return n
}

func byGID(nodes []Node) map[ib.GID]Node {
	all := make(map[ib.GID]Node, len(nodes))
	for _, x := range nodes {
		all[x.GID] = x
	}
	return all
}

// Start puts the nodes with a configured LID into the tables, and asks for the paths to all others.
func (n *Nodes) Start() error {
	if !n.repeated.IsZero() {
		return fmt.Errorf("manage: two nodes have GID %v", n.repeated)
	}
	for _, x := range n.byGID {
		if x.LID == 0 {
			continue
		}
		if err := n.put(n.configuredPath(x)); err != nil {
			return err
		}
	}
	for _, x := range n.byGID {
		if x.LID == 0 {
			n.resolve(x)
		}
	}
	return nil
}

// Has reports whether an address is a node's.
func (n *Nodes) Has(ip netip.Addr) bool {
	_, has := n.gids[ip]
	return has
}

// GID returns the GID of the node with an address; zero when there is none.
func (n *Nodes) GID(ip netip.Addr) ib.GID { return n.gids[ip] }

// PKey returns the configured P_Key of the node with an address; 0 when there is none.
func (n *Nodes) PKey(ip netip.Addr) ib.PKey { return n.byGID[n.gids[ip]].PKey }

// All yields all nodes, in no order.
func (n *Nodes) All() iter.Seq[Node] { return maps.Values(n.byGID) }

// Addrs yields the addresses of all nodes.
func (n *Nodes) Addrs() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for _, x := range n.byGID {
			for _, ip := range x.Addrs() {
				if !yield(ip) {
					return
				}
			}
		}
	}
}

// Waiting returns how many nodes have no path yet, or no room in the tables.
func (n *Nodes) Waiting() int { return len(n.resolving) + len(n.waiting) }

// Lost returns how many nodes the subnet has no more. They stay where they were: what goes to them is lost.
func (n *Nodes) Lost() int { return len(n.lost) }

// Find returns the node with a GID.
func (n *Nodes) Find(gid ib.GID) (x Node, known bool) {
	x, known = n.byGID[gid]
	return x, known
}

// Set makes these the configured nodes. Learned ones stay, but for those that contradict them. All that goes does so
// before anything comes, so that its addresses are free. A node that changes but keeps its GID and an address is
// changed in place: it loses no message.
func (n *Nodes) Set(nodes []Node) {
	nodes = n.keepLearned(nodes)
	stays := map[ib.GID]bool{}
	for _, x := range nodes {
		if old, ok := n.Find(x.GID); ok && (x == old || n.fitsInPlace(old, x)) {
			stays[x.GID] = true
		}
	}
	var fresh []Node
	for _, old := range n.byGID {
		if !stays[old.GID] {
			n.remove(old)
		}
	}
	for _, x := range nodes {
		if old, ok := n.Find(x.GID); !ok || !stays[x.GID] || x != old {
			fresh = append(fresh, x)
		}
	}
	n.byGID = byGID(nodes)
	added, removed := n.readdress()
	n.Readdress(added, removed)
	for _, x := range fresh {
		n.place(x, stays[x.GID])
	}
}

// fitsInPlace reports whether the tables can turn one node into the other at once: they have an address in common, and
// no address that is new is another node's.
func (n *Nodes) fitsInPlace(old, x Node) bool {
	shares := false
	for _, ip := range x.Addrs() {
		if slices.Contains(old.Addrs(), ip) {
			shares = true
		} else if n.Has(ip) {
			return false
		}
	}
	return shares
}

// readdress takes the addresses of all nodes. It returns those that are new, and those that are no node's any more.
func (n *Nodes) readdress() (added, removed []netip.Addr) {
	before := n.gids
	n.gids = map[netip.Addr]ib.GID{}
	for _, x := range n.byGID {
		for _, ip := range x.Addrs() {
			if _, was := before[ip]; !was {
				added = append(added, ip)
			}
			n.gids[ip] = x.GID
		}
	}
	for ip := range before {
		if !n.Has(ip) {
			removed = append(removed, ip)
		}
	}
	return added, removed
}

// remove takes a node out of the tables. Its messages, in both directions, are dropped from now on.
func (n *Nodes) remove(x Node) {
	n.take(x)
	n.Log.Info("node_removed", "node", x.Addrs(), "gid", x.GID)
}

// take is remove without a word.
func (n *Nodes) take(x Node) {
	n.endResolving(x.GID)
	n.asking.end(x.GID)
	delete(n.last, x.GID)
	delete(n.lost, x.GID)
	delete(n.waiting, x.GID)
	delete(n.doubts, x.GID)
	if known, _, ok := n.Tables.FindGID(x.GID); ok {
		at := Node{IP4: known.IP4, IP6: known.IP6}
		if err := n.Tables.Delete(at.Addrs()[0]); err != nil {
			n.Log.Error("node_delete", "node", x.Addrs(), "error", err)
		}
	}
}

// place puts a node into the tables, or asks for its path first; was: it is there already, in another state. Then it
// stays as it is until the path is known, which may differ from the configured one.
func (n *Nodes) place(x Node, was bool) {
	n.endResolving(x.GID)
	known, _, found := n.Tables.FindGID(x.GID)
	switch {
	case x.LID != 0:
		delete(n.lost, x.GID)
		n.putOrWait(n.configuredPath(x))
	case was && found:
		if n.putOrWait(placed{x, pathOf(&known), known.LIDs}) && !n.asking.has(x.GID) {
			n.resolveAgain(x)
		}
	default:
		n.resolve(x)
	}
}

// configuredPath is the path to a node with a configured LID: in this subnet, unless its GID has another's prefix.
func (n *Nodes) configuredPath(x Node) placed {
	const within, routed = 1, 0xff
	p := ibside.Path{LID: x.LID, SL: x.SL, HopLimit: within}
	const linkLocal = 0xfe80 << 48
	own := n.Paths.Own()
	if len(own.GIDs) > 0 && x.GID.Prefix() != linkLocal && x.GID.Prefix() != own.GIDs[0].Prefix() {
		p.HopLimit, p.GRH = routed, true
	}
	return placed{Node: x, path: p}
}

// pathOf returns the path by which a node is in the tables.
func pathOf(known *tables.Node) ibside.Path {
	mtu, _ := ib.MTUFromBytes(known.MTU)
	return ibside.Path{
		LID: known.LID, LMC: known.LMC, SL: known.SL, MTU: mtu, Rate: known.Rate, HopLimit: known.HopLimit,
		GRH: ibside.Routed(known.HopLimit),
	}
}

// entry is a node as it is in the tables.
func (n *Nodes) entry(x placed) tables.Node {
	mtu := n.MTU
	if most := x.path.MTU.Bytes(); most != 0 {
		mtu = min(mtu, most)
	}
	return tables.Node{
		IP4: x.IP4, IP6: x.IP6, GID: x.GID, LID: x.path.LID, LMC: x.path.LMC, LIDs: x.lids, SL: x.path.SL, MTU: mtu,
		Rate: x.path.Rate, HopLimit: x.path.HopLimit, GRH: x.GRH || x.path.GRH, Bridge: x.Bridge,
		Partition: x.Partition,
	}
}

func (n *Nodes) put(x placed) error {
	if _, err := n.Tables.Put(n.entry(x)); err != nil {
		return fmt.Errorf("manage: node %v: %w", x.Addrs(), err)
	}
	return nil
}

// putOrWait puts a node into the tables, at once or when there is room.
func (n *Nodes) putOrWait(x placed) bool {
	if err := n.put(x); err != nil {
		if _, waits := n.waiting[x.GID]; !waits {
			n.Log.Error("node_rejected", "error", err)
		}
		n.waiting[x.GID] = x
		return false
	}
	delete(n.waiting, x.GID)
	return true
}

// retryEvery is how often nodes are tried again that the tables did not take: the entries of others are free when every
// worker has looped.
const retryEvery = time.Second

// Tick tries again what the tables did not take, and asks again for paths that are doubted.
func (n *Nodes) Tick(now time.Time) {
	n.resolveDoubted(now)
	if len(n.waiting) == 0 || now.Sub(n.retried) < retryEvery {
		return
	}
	n.retried = now
	n.Reclaim()
	for _, x := range n.waiting {
		if n.putOrWait(x) && x.lids != tables.LIDsKnown && !n.asking.has(x.GID) {
			n.resolveAgain(x.Node)
		}
	}
}

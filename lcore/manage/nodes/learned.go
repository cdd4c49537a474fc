// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"fmt"
	"net/netip"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// Learned nodes are not configured: Learn and Unlearn are called by the part of management that asks for them. A
// configured node of the same GID, or with one of their addresses, wins. Their paths are followed as those of all
// nodes.

// Learn adds a node that was learned with its path, or changes its addresses. The error says who has them.
func (n *Nodes) Learn(x Node, path ibside.Path) error {
	old, known := n.Find(x.GID)
	if known && !old.Learned {
		return fmt.Errorf("manage: gid %v is a configured node's", x.GID)
	}
	for _, ip := range x.Addrs() {
		if other, has := n.gids[ip]; has && other != x.GID {
			return fmt.Errorf("manage: %v is the address of the node with gid %v", ip, other)
		}
	}
	x.Learned = true
	at := placed{Node: x, path: path}
	if known {
		if now, _, found := n.Tables.FindGID(x.GID); found { // the path is followed by itself
			at.path, at.lids = pathOf(&now), now.LIDs
		}
		if !n.fitsInPlace(old, x) {
			n.take(old)
		}
	}
	if err := n.put(at); err != nil {
		if known {
			n.Unlearn(x.GID)
		}
		return err
	}
	n.replace(old, x)
	if !known {
		n.doubt(x.GID, path.LID, path.Unconfirmed)
	}
	return nil
}

// Unlearn removes a learned node. Its messages, in both directions, are dropped from now on.
func (n *Nodes) Unlearn(gid ib.GID) {
	x, known := n.Find(gid)
	if !known || !x.Learned {
		return
	}
	n.take(x)
	n.replace(x, Node{})
}

// replace takes over the addresses of one node in place of another's; either may be the zero Node.
func (n *Nodes) replace(old, x Node) {
	var added, removed []netip.Addr
	for _, ip := range old.Addrs() {
		if x.IP4 != ip && x.IP6 != ip {
			removed = append(removed, ip)
			delete(n.gids, ip)
		}
	}
	for _, ip := range x.Addrs() {
		if !n.Has(ip) {
			added = append(added, ip)
		}
		n.gids[ip] = x.GID
	}
	delete(n.byGID, old.GID)
	if len(x.Addrs()) > 0 {
		n.byGID[x.GID] = x
	}
	n.Readdress(added, removed)
}

// keepLearned returns these configured nodes, and the learned ones that are still possible beside them.
func (n *Nodes) keepLearned(configured []Node) []Node {
	taken, gids := map[netip.Addr]bool{}, map[ib.GID]bool{}
	for _, x := range configured {
		gids[x.GID] = true
		for _, ip := range x.Addrs() {
			taken[ip] = true
		}
	}
	all := append([]Node(nil), configured...)
	for _, x := range n.byGID {
		if x.Learned && !gids[x.GID] && !taken[x.IP4] && !taken[x.IP6] {
			all = append(all, x)
		}
	}
	return all
}

// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"slices"
	"time"

	"causeway/ibside/ib"
)

// nodeBooks is what the loop knows of nodes beside their entries, and of what else may change.
type nodeBooks struct {
	resolving map[ib.GID]resolving // nodes whose path has not been found yet
	unput     map[ib.GID]Node      // nodes that the tables did not take
	retried   time.Time

	has          map[ib.GID]bool // groups that the subnet has
	allowChanged bool
}

// unputEvery is how often nodes are tried again that the tables did not take: what others gave up is free when every worker
// has looped.
const unputEvery = time.Second

func (l *Loop) configuredNode(gid ib.GID) (Node, bool) {
	i := slices.IndexFunc(l.cfg.Nodes, func(n Node) bool { return n.GID == gid })
	if i < 0 {
		return Node{}, false
	}
	return l.cfg.Nodes[i], true
}

// setNodes makes these the IB nodes. All that goes does so before anything comes, so that what one has given up another can
// have. A node that changes but keeps its GID and an address is changed in place: it loses nothing.
func (l *Loop) setNodes(nodes []Node) {
	stays := map[ib.GID]bool{}
	for _, n := range nodes {
		if old, ok := l.configuredNode(n.GID); ok && (n == old || l.inPlace(old, n)) {
			stays[n.GID] = true
		}
	}
	var fresh []Node
	for _, old := range l.cfg.Nodes {
		if !stays[old.GID] {
			l.removeNode(old)
		}
	}
	for _, n := range nodes {
		if old, ok := l.configuredNode(n.GID); !ok || !stays[n.GID] || n != old {
			fresh = append(fresh, n)
		}
	}
	l.cfg.Nodes = slices.Clone(nodes)
	l.placeAddresses()
	for _, n := range fresh {
		l.bringNode(n, stays[n.GID])
	}
}

// inPlace reports whether the tables can turn one node into the other at once: they have an address in common, and no address
// that is new is another node's.
func (l *Loop) inPlace(old, n Node) bool {
	shares := false
	for _, ip := range n.addrs() {
		if slices.Contains(old.addrs(), ip) {
			shares = true
		} else if l.nodes[ip] {
			return false
		}
	}
	return shares
}

// removeNode forgets a node. What is sent to it is dropped from now on, and so is what it sends.
func (l *Loop) removeNode(n Node) {
	l.endResolving(n.GID)
	l.endUnput(n.GID)
	if known, _, ok := l.tables.FindNodeGID(n.GID); ok {
		if err := l.tables.DeleteNode(Node{IP4: known.IP4, IP6: known.IP6}.addrs()[0]); err != nil {
			l.log.Error("node_delete", "node", n.addrs(), "error", err)
		}
	}
	l.log.Info("node_removed", "node", n.addrs(), "gid", n.GID)
}

// placeAddresses has the books agree with what nodes there are.
func (l *Loop) placeAddresses() {
	clear(l.sidr.gids)
	before := l.nodes
	l.nodes = map[netip.Addr]bool{}
	for _, n := range l.cfg.Nodes {
		for _, ip := range n.addrs() {
			l.nodes[ip], l.sidr.gids[ip] = true, n.GID
			if !before[ip] {
				l.expel(ip)
				l.announcements.Plan(ip)
			}
		}
	}
	l.announcements.Drop(func(ip netip.Addr) bool { return before[ip] && !l.nodes[ip] })
}

// expel forgets a RoCE host whose address is a node's from now on.
func (l *Loop) expel(ip netip.Addr) {
	var keys []standInKey
	for s := range l.tables.StandInsOf(ip) {
		keys = append(keys, standInKey{s.Host, s.HostQPN})
	}
	for _, key := range keys {
		l.removeStandIn(key, "its host is an IB node")
	}
	if _, _, known := l.tables.FindHost(ip); known {
		l.dropHost(ip)
	}
}

// bringNode puts a node into the tables, or asks for its path first; was: it is there already, in another state. Then it stays
// where it is until the path is known, which may be another than was configured.
func (l *Loop) bringNode(n Node, was bool) {
	l.endResolving(n.GID)
	known, _, found := l.tables.FindNodeGID(n.GID)
	switch {
	case n.LID != 0:
		l.putOrRetry(n)
	case was && found:
		at := n
		at.LID, at.SL = known.LID, known.SL
		if l.putOrRetry(at) && !l.renewals.asking[n.GID] {
			l.resolveOne(n)
		}
	default:
		l.resolve(l.running, n)
	}
}

// putOrRetry puts a node into the tables, at once or when there is room.
func (l *Loop) putOrRetry(n Node) bool {
	if err := l.putNode(n); err != nil {
		if _, again := l.unput[n.GID]; !again {
			l.log.Error("node_refused", "error", err)
			l.waiting++
		}
		l.unput[n.GID] = n
		return false
	}
	l.endUnput(n.GID)
	return true
}

func (l *Loop) retryNodes(now time.Time) {
	if len(l.unput) == 0 || now.Sub(l.retried) < unputEvery {
		return
	}
	l.retried = now
	l.tables.Reclaim()
	for _, n := range l.unput {
		l.putOrRetry(n)
	}
}

func (l *Loop) endResolving(gid ib.GID) {
	if s, missing := l.resolving[gid]; missing {
		s.stop()
		delete(l.resolving, gid)
		l.waiting--
	}
}

func (l *Loop) endUnput(gid ib.GID) {
	if _, was := l.unput[gid]; was {
		delete(l.unput, gid)
		l.waiting--
	}
}

// SPDX-License-Identifier: Apache-2.0

package learner

import (
	"net/netip"
	"slices"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage/learner/bounds"
	"causeway/lcore/manage/nodes"
)

// Why a learned node is removed, as the log names it.
const (
	aged      = "node_aged"
	evicted   = "node_evicted"
	lost      = "node_lost"
	movedAway = "node_moved_away"
)

// contestTime is how long a station on Ethernet must not have claimed an address for the claim to count no more.
const contestTime = 10 * time.Second

// A contest is about an address of a learned node: it does not answer, or a station on Ethernet claims it.
type contest struct {
	claimed time.Time // by Ethernet, last
	failed  bool      // the port that has it has not answered; all others are asked
}

func contains(prefixes []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// mayLearn reports whether an address may be a learned node's.
func (l *Learner) mayLearn(ip netip.Addr) bool {
	if ip.IsLinkLocalUnicast() || !l.Local.OnLink(ip) || l.Local.Has(ip) || !contains(l.cfg.Allow, ip) {
		return false
	}
	return !l.Hosts.Has(ip)
}

// nodeOf returns the node with a GID and the addresses that it may have: those that the kernel knows, of old's first;
// and of old's those that nobody has.
func (l *Learner) nodeOf(gid ib.GID, old nodes.Node) nodes.Node {
	x := nodes.Node{GID: gid, Learned: true, Partition: l.Partition()}
	its, others := map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for _, ip := range old.Addrs() {
		there, _ := l.cfg.Translate.ToIB(ip)
		holder, known := l.Resolver.GID(there)
		its[ip], others[ip] = known && holder == gid, known && holder != gid
		if its[ip] {
			l.give(&x, ip)
		}
	}
	for _, there := range l.Resolver.Addrs(gid) {
		if ip, ok := l.cfg.Translate.ToRoCE(there); ok && contains(l.Resolver.Subnets(), there) {
			l.give(&x, ip)
		}
	}
	for _, ip := range old.Addrs() {
		if !its[ip] && !others[ip] {
			l.give(&x, ip)
		}
	}
	return x
}

// give gives a node an address, if it has none of that IP version yet and the address is free.
func (l *Learner) give(x *nodes.Node, ip netip.Addr) {
	its := &x.IP4
	if ip.Is6() {
		its = &x.IP6
	}
	other := l.Nodes.GID(ip)
	if !its.IsValid() && l.mayLearn(ip) && (other.IsZero() || other == x.GID) {
		*its = ip
	}
}

// put makes or changes a learned node.
func (l *Learner) put(x nodes.Node, path ibside.Path, now time.Time) {
	if len(x.Addrs()) == 0 {
		return
	}
	fresh := !l.ages.Has(x.GID)
	if fresh && l.ages.Len() >= l.cfg.Max && !l.evict(now, false) {
		l.reject("room", "gid", x.GID, "node", x.Addrs(), "note", "raise [workers] nodes")
		return
	}
	if !l.replace(x, path) {
		return
	}
	l.ages.Add(x.GID, now)
	if fresh {
		l.count.NodesLearned++
	}
	const most = 32
	if l.Log.Allow("node_learned", most) {
		l.Log.Info("node_learned", "node", x.Addrs(), "gid", x.GID, "lid", path.LID)
	}
}

// replace puts a learned node into the tables, in place of what is known of it, and reports whether they took it.
func (l *Learner) replace(x nodes.Node, path ibside.Path) bool {
	err := l.Nodes.Learn(x, path)
	if err == nil {
		return true
	}
	l.reject("tables", "gid", x.GID, "error", err)
	if _, known := l.Nodes.Find(x.GID); !known {
		l.ages.Drop(x.GID)
	}
	return false
}

// remove removes a learned node. event says why.
func (l *Learner) remove(gid ib.GID, event string) {
	x, _ := l.Nodes.Find(gid)
	for _, ip := range x.Addrs() {
		delete(l.contested, ip)
	}
	l.Nodes.Unlearn(gid)
	l.ages.Drop(gid)
	l.gids.End(gid)
	l.paths.End(gid)
	const most = 32
	if l.Log.Allow(event, most) {
		l.Log.Info(event, "node", x.Addrs(), "gid", gid)
	}
}

// evict removes the node that has been unused for longest, to make room.
func (l *Learner) evict(now time.Time, anyAge bool) bool {
	gid, found := l.ages.Oldest(now, anyAge)
	if found {
		l.count.NodesEvicted++
		l.remove(gid, evicted)
	}
	return found
}

// Tick looks at some learned nodes: an unused one is asked for, and removed when it does not answer.
func (l *Learner) Tick(now time.Time) {
	if l == nil {
		return
	}
	for _, gid := range l.ages.Due(l.cfg.Every) {
		switch l.ages.Look(gid, l.Tables.TakeUsed(gid), now) {
		case bounds.Confirm:
			x, _ := l.Nodes.Find(gid)
			for _, ip := range x.Addrs() {
				l.confirm(ip)
			}
		case bounds.Remove:
			l.count.NodesAged++
			l.remove(gid, aged)
		}
	}
}

func (l *Learner) confirm(ip netip.Addr) {
	if there, ok := l.cfg.Translate.ToIB(ip); ok {
		l.count.NodesAsked++
		l.tell(l.Resolver.Confirm, there)
	}
}

// SetAllow lets nodes have these addresses alone; SetTranslate translates them otherwise. Nodes that have others are
// removed.
func (l *Learner) SetAllow(allow []netip.Prefix) {
	if l == nil {
		return
	}
	l.cfg.Allow = slices.Clone(allow)
	l.removeIf(func(x *nodes.Node) bool {
		return slices.ContainsFunc(x.Addrs(), func(ip netip.Addr) bool { return !contains(allow, ip) })
	})
}

// SetTranslate translates addresses otherwise.
func (l *Learner) SetTranslate(ts ib.Translations) {
	if l == nil || slices.Equal(l.cfg.Translate, ts) {
		return
	}
	l.cfg.Translate = slices.Clone(ts)
	l.removeIf(func(*nodes.Node) bool { return true })
}

// SetMax changes how many nodes may be learned. Those that are too many are removed.
func (l *Learner) SetMax(most int, now time.Time) {
	if l == nil {
		return
	}
	for l.cfg.Max = most; l.ages.Len() > most && l.evict(now, true); {
	}
}

func (l *Learner) removeIf(gone func(*nodes.Node) bool) {
	for _, gid := range l.ages.All() {
		if x, known := l.Nodes.Find(gid); !known || !x.Learned {
			l.ages.Drop(gid) // it is configured now
		} else if gone(&x) {
			l.remove(gid, lost)
		}
	}
}

// Reconcile follows a change of the configuration: it drops what is known of nodes that are configured now, and gives
// the others the partition that learned nodes have now.
func (l *Learner) Reconcile() {
	if l == nil {
		return
	}
	l.removeIf(func(*nodes.Node) bool { return false })
	for _, gid := range l.ages.All() {
		x, _ := l.Nodes.Find(gid)
		if x.Partition == l.Partition() {
			continue
		}
		x.Partition = l.Partition()
		l.replace(x, ibside.Path{})
	}
}

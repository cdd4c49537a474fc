// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"net/netip"
	"slices"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/neighbours/schedule"
	"causeway/lcore/manage/punt"
)

// An announcer announces the bridge's own addresses and its nodes'.
type announcer struct {
	schedule  schedule.Announcements
	tables    NodeTables
	nodes     Nodes
	local     *local.Addresses
	frames    *punt.Workers
	ready     func() bool
	drained   bool // another bridge takes over: nodes are neither announced nor answered for
	announced uint64
}

func newAnnouncer(d *Deps) *announcer {
	return &announcer{tables: d.NodeTables, nodes: d.Nodes, local: d.Local, frames: d.Frames, ready: d.Ready}
}

// PlanAnnouncements plans those of the bridge's own addresses and of its nodes'.
func (n *Neighbours) PlanAnnouncements(now time.Time) { n.announcer.plan(now) }

// Announce sends the announcements that are due, once the bridge is ready.
func (n *Neighbours) Announce(now time.Time) { n.announcer.tick(now) }

// AnnounceAgain announces all addresses again, at once if the bridge is ready: the link was down, and switches have
// forgotten where they are.
func (n *Neighbours) AnnounceAgain(now time.Time) {
	n.announcer.schedule.Clear()
	n.announcer.plan(now)
	n.announcer.tick(now)
}

// SetDrained leaves the nodes to another bridge, or takes them back: then all addresses are announced when the bridge
// is ready.
func (n *Neighbours) SetDrained(drained bool, now time.Time) {
	a := n.announcer
	a.drained = drained
	a.schedule.Clear()
	if !drained {
		a.plan(now)
	}
}

// isPresent reports whether an address that the bridge answers for is in use: its own, or that of a node that the
// subnet has, because the subnet administrator knows the path to it or because its LID is configured. For another node
// the bridge is silent: a host that got an answer would send what can only be dropped, and would not look elsewhere;
// and a station that checks whether the address is free (RFC 5227 §2.1.1, RFC 4862 §5.4) would not use it. A drained
// bridge leaves all nodes to another one.
func (a *announcer) isPresent(ip netip.Addr) bool {
	_, _, found := a.tables.Find(ip)
	return found && !a.drained || a.local.Has(ip)
}

// plan plans all announcements. The link-local address needs none: it is made of the MAC address, so that no host knows
// an old one.
func (a *announcer) plan(now time.Time) {
	a.schedule.Begin(now)
	for _, p := range a.local.IPs {
		a.schedule.Plan(p.Addr())
	}
	if a.local.Fleet != nil {
		return // to each station its nodes are elsewhere
	}
	for ip := range a.nodes.Addrs() {
		a.schedule.Plan(ip)
	}
}

func (a *announcer) readdress(added, removed []netip.Addr) {
	if a.local.Fleet == nil {
		for _, ip := range added {
			a.schedule.Plan(ip)
		}
	}
	a.schedule.Drop(func(ip netip.Addr) bool { return slices.Contains(removed, ip) })
}

// tick sends what is due. A node that the subnet does not have is announced when it appears: until then its address may
// be another station's.
func (a *announcer) tick(now time.Time) {
	a.schedule.Tick(now, a.ready, func(ip netip.Addr) bool {
		if !a.isPresent(ip) || !a.send(ip) {
			return false
		}
		a.announced++
		return true
	})
}

// defend announces an address that another station has claimed by broadcast. It reports whether it did.
func (a *announcer) defend(ip netip.Addr, now time.Time) bool {
	return a.isPresent(ip) && (a.local.Fleet == nil || a.local.Has(ip)) && a.schedule.Defend(ip, now, a.send)
}

// send announces to all hosts that the bridge has an address.
func (a *announcer) send(ip netip.Addr) bool {
	build := frame.AppendNAAnnouncement
	if ip.Is4() {
		build = frame.AppendARPAnnouncement
	}
	return a.frames.Send(0, build(nil, a.local.Link, ip))
}

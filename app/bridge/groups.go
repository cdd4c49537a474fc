// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"net/netip"
	"sync"

	"causeway/config"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/manage"
)

// groupCounters counts packets by group address. The datapath counts by group ID; IDs are reused, and their counts go
// on.
type groupCounters struct {
	gate     *gate
	datapath *lcore.Datapath
	joined   func() []manage.JoinedGroup

	countsMu sync.Mutex
	base     map[int]lcore.GroupCounters // by ID: the counts when its group began
}

// begin notes what an ID has counted for earlier groups.
func (g *groupCounters) begin(id int) {
	was := g.datapath.Group(id)
	g.countsMu.Lock()
	defer g.countsMu.Unlock()
	g.base[id] = was
}

// Groups returns the packets and bytes of each group address that is joined, over all groups that have it; none after
// Close.
func (g *groupCounters) Groups() map[netip.Addr]lcore.GroupCounters {
	out := map[netip.Addr]lcore.GroupCounters{}
	g.gate.whileOpen(func() {
		g.countsMu.Lock() // before the list is read: begin has been called for all IDs on it
		defer g.countsMu.Unlock()
		for _, x := range g.joined() {
			sum, c, was := out[x.IP], g.datapath.Group(x.ID), g.base[x.ID]
			for d := range c.Packets {
				sum.Packets[d] += c.Packets[d] - was.Packets[d]
				sum.Bytes[d] += c.Bytes[d] - was.Bytes[d]
			}
			out[x.IP] = sum
		}
	})
	return out
}

// manageRange is a range as management sees it.
func manageRange(r *config.Range, ethernet bool) manage.Range {
	mgid := r.MGID
	if ethernet {
		mgid = ib.MGIDRoCE
	}
	return manage.Range{
		Prefix: r.Prefix, Reports: r.Reports, SA: r.SA, Most: r.Most, Idle: r.Idle, MGID: mgid, Group: manageGroup(r.Group, false),
	}
}

// manageGroup is a group as management sees it. On an Ethernet link layer its MGID is the IP group itself, whatever
// InfiniBand would make of it.
func manageGroup(g config.Group, ethernet bool) manage.Group {
	m := manage.Group{
		IP: g.IP, UDPPort: g.UDPPort, TTL: g.TTL, MGID: g.MGID, QKey: g.QKey, PKey: g.PKey,
		ToIB: g.Direction&config.ToIB != 0, ToRoCE: g.Direction&config.ToRoCE != 0, RewriteImm: g.RewriteImm, Rate: g.RatePPS, PGM: g.PGM,
	}
	if ethernet {
		m.MGID = ib.MGIDRoCE(g.IP)
	}
	return m
}

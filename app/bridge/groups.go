// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"net/netip"
	"strings"
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
	status   func() manage.Status

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

// A GroupPlace is a group address in some segments: the same one elsewhere is another group.
type GroupPlace struct {
	IP       netip.Addr
	Segments string // their names; "": there is only one
}

// Compare orders places by address.
func (p GroupPlace) Compare(o GroupPlace) int {
	return cmp.Or(p.IP.Compare(o.IP), cmp.Compare(p.Segments, o.Segments))
}

// SegmentNames names the segments whose bits are set; "": there is only one.
func SegmentNames(all []manage.SegmentStatus, bits uint8) string {
	var names []string
	for _, s := range all {
		if len(all) > 1 && bits>>s.Number&1 != 0 {
			names = append(names, s.Name)
		}
	}
	return strings.Join(names, ", ")
}

// Groups returns the packets and bytes of each group address that is joined, by the segments that have it, over all
// groups there; none after Close.
func (g *groupCounters) Groups() map[GroupPlace]lcore.GroupCounters {
	out := map[GroupPlace]lcore.GroupCounters{}
	g.gate.whileOpen(func() {
		g.countsMu.Lock() // before the list is read: begin has been called for all IDs on it
		defer g.countsMu.Unlock()
		status := g.status()
		for _, x := range status.Joined {
			at := GroupPlace{x.IP, SegmentNames(status.Segments, x.Segments)}
			sum, c, was := out[at], g.datapath.Group(x.ID), g.base[x.ID]
			for d := range c.Packets {
				sum.Packets[d] += c.Packets[d] - was.Packets[d]
				sum.Bytes[d] += c.Bytes[d] - was.Bytes[d]
			}
			out[at] = sum
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
		Prefix: r.Prefix, Reports: r.Reports, SA: r.SA, Most: r.Most, MGID: mgid, Group: manageGroup(r.Group, false),
	}
}

// manageGroup is a group as management sees it. On an Ethernet link layer its MGID is the IP group itself, whatever
// InfiniBand would make of it.
func manageGroup(g config.Group, ethernet bool) manage.Group {
	m := manage.Group{
		IP: g.IP, UDPPort: g.UDPPort, TTL: g.TTL, MGID: g.MGID, QKey: g.QKey, PKey: g.PKey,
		ToIB: g.Direction&config.ToIB != 0, ToRoCE: g.Direction&config.ToRoCE != 0, RewriteImm: g.RewriteImm, Rate: g.RatePPS, PGM: g.PGM,
		Sources: g.Sources,
	}
	if ethernet {
		m.MGID = ib.MGIDRoCE(g.IP)
	}
	return m
}

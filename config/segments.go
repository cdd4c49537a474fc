// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"causeway/ibside/ib"
)

// maxSegments is how many segments a bridge can have (tables/entries.h).
const maxSegments = 8

// Segments are all segments of the Ethernet side, by number. Every one but an only one has a P_Key of its own.
func (c *Config) Segments() []RoCE { return append([]RoCE{c.RoCE}, c.More...) }

// Name names a segment: "VLAN 100", or "untagged"; where there are several ports, as Label does.
func (r *RoCE) Name() string {
	if r.several {
		return r.Label()
	}
	if r.VLAN == 0 {
		return "untagged"
	}
	return fmt.Sprint("VLAN ", r.VLAN)
}

// reaches reports whether the messages of a segment cross to and from nodes and groups with a P_Key; 0: they have none
// of their own.
func (r *RoCE) reaches(k ib.PKey) bool { return r.PKey == 0 || k == 0 || k == r.PKey }

// SegmentOf returns the number of the segment that reaches a partition; false: none does.
func (c *Config) SegmentOf(k ib.PKey) (int, bool) {
	i := slices.IndexFunc(c.Segments(), func(r RoCE) bool { return r.reaches(k) })
	return max(i, 0), i >= 0
}

// GroupSegments returns the numbers of the segments that have a group, in the order of the file.
func (c *Config) GroupSegments(g *Group) (in []int) {
	if !g.Shared() {
		n, _ := c.SegmentOf(g.PKey)
		return []int{n}
	}
	for i, r := range c.Segments() {
		if slices.Contains(g.VLANs, r.VLAN) || slices.ContainsFunc(g.Segments, func(p Place) bool { return p.is(&r) }) {
			in = append(in, i)
		}
	}
	return in
}

// SegmentsOf returns the segments that have a RoCE host, or reach a node.
func (c *Config) SegmentsOf(h Host) []RoCE {
	if h.Side == SideRoCE && len(c.More) == 0 {
		return c.Segments()
	}
	return slices.DeleteFunc(c.Segments(), func(r RoCE) bool {
		return h.Side == SideRoCE && !h.IsIn(&r) || h.Side != SideRoCE && !r.reaches(h.PKey)
	})
}

// placed is an address in a segment.
type placed struct {
	in Place
	ip netip.Addr
}

// String returns the address: which segment it is in does not matter where it is twice.
func (p placed) String() string { return p.ip.String() }

// segments reads [roce], or each [[roce]].
func (p *parser) segments(doc map[string]any) {
	var all []RoCE
	list, several := doc["roce"].([]map[string]any)
	if !several || len(list) == 0 {
		t := p.single(doc, "roce")
		p.tables["roce"] = []*table{t}
		p.cfg.RoCE = p.roce(t)
		return
	}
	for i, v := range list {
		t := &table{p: p, name: "roce", path: fmt.Sprintf("roce[%d]", i), who: "roce", vals: v}
		if first, ok := list[0]["port"]; ok && v["port"] == nil {
			v["port"] = first
		}
		if vlan, ok := v["vlan"].(int64); ok && len(list) > 1 {
			t.who = fmt.Sprint("roce VLAN ", vlan)
		}
		t.checkKeys()
		t.keep()
		p.tables["roce"] = append(p.tables["roce"], t)
		all = append(all, p.roce(t))
	}
	nameByPort(all)
	p.cfg.RoCE, p.cfg.More = all[0], all[1:]
	if len(p.cfg.More) == 0 {
		p.cfg.More = nil
	}
}

// namedSegments sets the tables of segments that were read before.
func (p *parser) namedSegments() {
	for i, r := range p.cfg.Segments() {
		t := &table{p: p, name: "roce", path: "roce", who: "roce"}
		if len(p.cfg.More) > 0 {
			t.path, t.who = fmt.Sprintf("roce[%d]", i), "roce "+r.Name()
		}
		p.tables["roce"] = append(p.tables["roce"], t)
	}
}

// valuesOf is what the names of the table's keys begin with in Config.values. The first [[roce]] is [roce].
func (t *table) valuesOf() string {
	if t.path == "roce[0]" {
		return t.name + "."
	}
	return t.path + "."
}

// hostPlace returns the port, where the VLAN does not tell it, and the VLAN of a RoCE host.
func (p *parser) hostPlace(t *table) (EthPort, uint16) {
	segments := p.cfg.Segments()
	switch {
	case t.has("segment"):
	case !t.has("vlan"):
		if len(segments) > 1 {
			t.fail("vlan", "vlan is missing, and there are several segments; write that of the host's: %s", placesOf(segments))
		}
		return EthPort{}, p.cfg.RoCE.VLAN
	case len(segments) == 1:
		return EthPort{}, uint16(t.number("vlan"))
	}
	place := t.place("")
	return place.Port, place.VLAN
}

// checkSegments reports segments that contradict each other, or what is for one segment alone.
func (p *checks) checkSegments(ibSection *table) {
	all, ts := p.cfg.Segments(), p.tables["roce"]
	for i := range all {
		p.checkSegment(ts[i], &all[i])
	}
	if len(all) == 1 {
		p.checkGroupSegments()
		return
	}
	if len(all) > maxSegments {
		ts[maxSegments].fail("port", "this is segment number %d, and there can be %d; use another bridge for the rest", maxSegments+1, maxSegments)
	}
	p.checkPlaces()
	pkeys := firstOf[ib.PKey]{}
	for i := range all {
		r, t := &all[i], ts[i]
		if r.PKey == 0 {
			if !t.has("pkey") {
				t.fail("pkey", "pkey is missing, and there are several segments; write that of the segment's partition, such as pkey = 0x8001")
			}
			continue
		}
		pkeys.unique(t, "pkey", r.PKey, nil)
	}
	p.checkGroupSegments()
	p.checkAlone(ibSection)
}

// checkSegment reports what contradicts itself in one segment.
func (p *checks) checkSegment(t *table, r *RoCE) {
	if r.Port.Kind() == "tap" && r.MTU > tapMTU {
		t.fail("mtu", "mtu %d is more than the %d that a tap can have; lower it, or use af_packet", r.MTU, tapMTU)
	}
	p.checkMTU(t, r)
	if r.V1 && !r.V2 && len(p.cfg.ServicesIn(r)) > 0 {
		t.fail("versions", `versions is ["v1"] alone, but services need IP addresses; add "v2", or remove [[service]]`)
	}
}

// checkGroupSegments reports groups and ranges, and nodes, that no segment reaches.
func (p *checks) checkGroupSegments() {
	check := func(t *table, k ib.PKey) {
		if _, ok := p.cfg.SegmentOf(k); !ok {
			t.fail("pkey", "pkey %v is no segment's, so nothing would cross; write that of one: %s", k, pkeysOf(p.cfg.Segments()))
		}
	}
	for i, g := range p.cfg.Groups {
		if !g.Shared() {
			check(p.tables["group"][i], g.PKey)
		} else {
			p.checkVLANs(p.tables["group"][i], &g)
		}
	}
	for i := range p.cfg.Ranges {
		check(p.tables["range"][i], p.cfg.Ranges[i].Group.PKey)
	}
	for i, h := range p.cfg.Hosts {
		ofShared := func(g Group) bool { return g.Shared() && g.PKey == h.PKey }
		if !slices.ContainsFunc(p.cfg.Groups, ofShared) { // else groups cross
			check(p.tables["host"][i], h.PKey)
		}
	}
}

// checkVLANs reports VLANs and segments of a group that are not there, or that do not say which.
func (p *checks) checkVLANs(t *table, g *Group) {
	all := p.cfg.Segments()
	for _, v := range g.VLANs {
		switch of := onVLAN(all, v); {
		case len(of) == 0:
			t.fail("vlans", "vlans has %d, which is no segment's; those there are: %s", v, placesOf(all))
		case len(of) > 1:
			t.fail("vlans", "vlans has %d, which is that of segments of several ports; write segments = [%s], or one of these", v, strings.Join(labels(of), ", "))
		}
	}
	for _, x := range g.Segments {
		if !slices.ContainsFunc(all, func(r RoCE) bool { return x.is(&r) }) {
			t.fail("segments", "segments has %q, which is none; those there are: %s", x.String(), labelsOf(all))
		}
	}
	if len(g.VLANs) > 0 && len(g.Segments) > 0 {
		t.fail("segments", "segments and vlans are both there; write one of them")
	}
}

func pkeysOf(segments []RoCE) string {
	var all []string
	for _, r := range segments {
		all = append(all, fmt.Sprint("pkey = ", r.PKey))
	}
	return enumerate(all, "or")
}

// checkAlone reports what takes a single segment.
func (p *checks) checkAlone(ibSection *table) {
	c := &p.cfg.IB
	for key, set := range map[string]bool{"host_gids": len(c.HostGIDs) > 0, "alias_gids": c.AliasGIDs} {
		if set {
			ibSection.fail(key, "%s gives GIDs to hosts by their addresses, which hosts of several segments may share; remove it, or use a bridge for each segment", key)
		}
	}
	if c.Learn {
		ibSection.fail("nodes", `nodes "learn" does not tell the segments' partitions apart; write a [[host]] for each node, or use a bridge for each segment`)
	}
}

// diffSegments compares the segments, by port and VLAN. An only one stays the only one, whatever its VLAN becomes, on the
// same port, or where there has been none: in the defaults.
func diffSegments(t *tableDoc, old, to *Config) (out Changes) {
	was, are := old.Segments(), to.Segments()
	if none := (EthPort{}); len(was) == 1 && len(are) == 1 && (was[0].Port == are[0].Port || was[0].Port == none) {
		return diffValues(t, t.header(), old, to, valuesOf(t, 0), valuesOf(t, 0))
	}
	at := func(all []RoCE, p Place) int {
		return slices.IndexFunc(all, func(r RoCE) bool { return r.Place() == p })
	}
	for _, r := range was {
		if at(are, r.Place()) < 0 {
			out = append(out, Change{Where: "[[roce]] " + nameIn(old, to, &r), What: Removed, Old: r.words(), Detail: r.words(), Live: true})
		}
	}
	for i, r := range are {
		k := at(was, r.Place())
		if k < 0 {
			out = append(out, Change{Where: "[[roce]] " + nameIn(old, to, &r), What: Added, New: r.words(), Detail: r.words(), Live: true})
			continue
		}
		out = append(out, diffValues(t, "[[roce]] "+r.Name(), old, to, valuesOf(t, k), valuesOf(t, i))...)
	}
	return out
}

// nameIn names a segment of one of two configurations: with its port, if the two are not of one port.
func nameIn(old, to *Config, r *RoCE) string {
	if ports := append(old.EthPorts(), to.EthPorts()...); slices.ContainsFunc(ports, func(p EthPort) bool { return p != ports[0] }) {
		return r.Place().String()
	}
	return r.Name()
}

// valuesOf is what the names of a segment's keys begin with in Config.values. The first [[roce]] is [roce].
func valuesOf(t *tableDoc, i int) string {
	if i == 0 {
		return t.name + "."
	}
	return fmt.Sprintf("%s[%d].", t.name, i)
}

// words lists what tells a segment from others.
func (r *RoCE) words() string {
	var all []string
	for _, a := range r.Addresses {
		all = append(all, a.String())
	}
	return fmt.Sprintf("addresses %s, pkey %v", strings.Join(all, " "), r.PKey)
}

// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"slices"

	"causeway/ibside/ib"
)

// Range is a prefix of IP groups that are bridged as long as they have members.
type Range struct {
	Prefix  netip.Prefix
	Reports bool  // IGMP and MLD reports of RoCE hosts add a group
	SA      bool  // the creation of a group on the subnet adds it
	Most    int   // groups at a time
	Group   Group // the settings of all its groups, without IP and MGID

	form mgidForm
}

// MGID returns the MGID of a group of the range.
func (r *Range) MGID(ip netip.Addr) ib.GID {
	g, err := r.form.of(ip)
	if err != nil { // groupRange has checked the form
		return ib.GID{}
	}
	return g
}

// groupRange reads one [[range]].
func (p *parser) groupRange(t *table) Range {
	r := Range{Prefix: readRangeIP(t), Most: int(t.number("most"))}
	from := t.texts("from")
	r.Reports, r.SA = slices.Contains(from, "reports"), slices.Contains(from, "sa")
	if t.isEmptyList("from") {
		t.fail("from", `from is empty, so no group would be learned; write from = ["reports"]`)
	}
	r.Group = p.groupOf(t)
	p.noteSources(t, r.Prefix, &r.Group)
	form, ok := readMGIDForm(t, r.Group.PKey)
	if !ok {
		return r
	}
	r.form = form
	if form.isFixed() {
		if _, err := form.of(netip.Addr{}); err != nil {
			t.fail("mgid", "%v", err)
			return r
		}
		t.fail("mgid", "mgid %s is one MGID for all groups; use rdmacm, ipoib, port, ib, or a template with {ip28}, {ip32} or {ip80}", show(form.form))
		return r
	}
	if _, err := form.of(r.Prefix.Addr()); err != nil {
		t.fail("mgid", "%v", err)
	} else if r.Prefix.IsValid() {
		checkKept(t, &r)
	}
	return r
}

// checkKept reports address bits that are not part of the MGID, so that two groups would have the same MGID.
func checkKept(t *table, r *Range) {
	first := r.Prefix.Addr()
	for bit := first.BitLen() - 1; bit >= r.Prefix.Bits(); bit-- { // from the low bits, which the forms keep
		b := first.AsSlice()
		b[bit/8] ^= 0x80 >> (bit % 8)
		other, _ := netip.AddrFromSlice(b)
		if r.MGID(other) == r.MGID(first) {
			t.fail("mgid", "mgid %s has no place for bit %d of an address, so %v and %v would have one MGID; make the range smaller",
				show(t.text("mgid")), bit, first, other)
			return
		}
	}
}

// readRangeIP reads the range's prefix.
func readRangeIP(t *table) netip.Prefix {
	s, ok := t.given("ip")
	if !ok {
		return netip.Prefix{}
	}
	n, err := netip.ParsePrefix(s)
	switch {
	case err != nil || n.Addr().Is4In6():
		t.fail("ip", `ip %s is not a prefix of groups; write one like "239.2.0.0/16" or "ff15::2:0/112"`, show(s))
	case n != n.Masked():
		t.fail("ip", "ip %s has bits set after its prefix; write %q", n, n.Masked().String())
	case !n.Addr().IsMulticast() || n.Addr().Is4() && n.Bits() < 4 || n.Addr().Is6() && n.Bits() < 8:
		t.fail("ip", `ip %s is not of groups alone; write a prefix like "239.2.0.0/16" or "ff15::2:0/112"`, n)
	case slices.ContainsFunc(controlGroups, n.Overlaps):
		t.fail("ip", `ip %s has link-local control groups in it, which never cross; write a prefix like "239.2.0.0/16" or "ff15::2:0/112"`, n)
	default:
		return n
	}
	return netip.Prefix{}
}

// checkRanges reports ranges that overlap in a segment, or have MGIDs of another segment's, and more groups than [workers] groups.
func (p *checks) checkRanges(workers *table) {
	for i, r := range p.cfg.Ranges {
		for j, o := range p.cfg.Ranges[:i] {
			t, before := p.tables["range"][i], p.tables["range"][j]
			switch {
			case !r.Prefix.IsValid() || !o.Prefix.IsValid():
			case p.cfg.inOneSegment(r.Group.PKey, o.Group.PKey):
				if r.Prefix.Overlaps(o.Prefix) {
					t.fail("ip", "ip %v shares groups with %s%s; each needs its own", r.Prefix, before.who, before.inLine("ip"))
				}
			case r.mgids().meets(o.mgids()):
				t.fail("mgid", "mgid %s gives groups the MGIDs of %s%s, which is another segment's; use a form with the P_Key, such as rdmacm, or {pkey} in a template",
					show(r.form.form), before.who, before.inLine("ip"))
			}
		}
		in, _ := p.cfg.SegmentOf(r.Group.PKey)
		for j, g := range p.cfg.Groups {
			if r.Prefix.IsValid() && !g.MGID.IsZero() && !slices.Contains(p.cfg.GroupSegments(&g), in) && r.mgids().meets(mgids{first: g.MGID}) {
				o := p.tables["group"][j]
				p.tables["range"][i].fail("mgid", "mgid %s gives a group the MGID %v of %s%s, which is another segment's; use a form with the P_Key, such as rdmacm, or {pkey} in a template",
					show(r.form.form), g.MGID, o.who, o.inLine("ip"))
			}
		}
		if r.SA && !r.Reports && r.Group.Direction == ToRoCE {
			p.note(p.tables["range"][i], "from", "groups of the subnet are bridged to RoCE although no RoCE host may have joined them")
		}
	}
	if n := len(p.cfg.Groups); n > p.cfg.Workers.Groups {
		workers.fail("groups", "groups %d is less than the %d groups in the file; raise it", p.cfg.Workers.Groups, n)
	}
}

// inOneSegment reports whether groups of two P_Keys are one segment's.
func (c *Config) inOneSegment(a, b ib.PKey) bool {
	i, _ := c.SegmentOf(a)
	j, _ := c.SegmentOf(b)
	return i == j
}

// mgids are those of a range: the first, with other values of some bits.
type mgids struct{ first, varying ib.GID }

// mgids returns those of the range. All forms copy each bit of an address to places of its own.
func (r *Range) mgids() mgids {
	ip := r.Prefix.Addr()
	m := mgids{first: r.MGID(ip)}
	for bit := r.Prefix.Bits(); bit < ip.BitLen(); bit++ {
		b := ip.AsSlice()
		b[bit/8] ^= 0x80 >> (bit % 8)
		other, _ := netip.AddrFromSlice(b)
		for i, x := range r.MGID(other) {
			m.varying[i] |= x ^ m.first[i]
		}
	}
	return m
}

// meets reports whether the two may have an MGID in common.
func (m mgids) meets(o mgids) bool {
	for i := range m.first {
		if (m.first[i]^o.first[i])&^(m.varying[i]|o.varying[i]) != 0 {
			return false
		}
	}
	return !m.first.IsZero() && !o.first.IsZero()
}

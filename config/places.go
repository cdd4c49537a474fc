// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Place says which segment one is: a VLAN of an Ethernet port. A zero Port is that of the VLAN's only segment.
type Place struct {
	Port EthPort
	VLAN uint16
}

// is reports whether a segment is the one at the place.
func (p Place) is(r *RoCE) bool { return p.VLAN == r.VLAN && (p.Port == EthPort{} || p.Port == r.Port) }

// String returns the place as the file has it: "af_packet:eth1/100".
func (p Place) String() string { return fmt.Sprintf("%s/%d", p.Port, p.VLAN) }

// Place is where the segment is.
func (r *RoCE) Place() Place { return Place{r.Port, r.VLAN} }

// Label names a segment where there are several ports: "af_packet:eth1/100"; otherwise "".
func (r *RoCE) Label() string {
	if !r.several {
		return ""
	}
	return r.Place().String()
}

// nameByPort gives segments of several ports names with their ports.
func nameByPort(all []RoCE) {
	several := slices.ContainsFunc(all, func(r RoCE) bool { return r.Port != all[0].Port })
	for i := range all {
		all[i].several = several
	}
}

// EthPorts are the Ethernet ports, each once, in the order of the file.
func (c *Config) EthPorts() (all []EthPort) {
	for _, r := range c.Segments() {
		if !slices.Contains(all, r.Port) {
			all = append(all, r.Port)
		}
	}
	return all
}

func (h *Host) place() Place { return Place{h.Port, h.VLAN} }

// IsIn reports whether a RoCE host is in a segment.
func (h *Host) IsIn(r *RoCE) bool { return h.place().is(r) }

// IsAt reports whether a RoCE host is at a place, as far as both say where.
func (h *Host) IsAt(p Place) bool {
	return h.VLAN == p.VLAN && (h.Port == p.Port || h.Port == EthPort{} || p.Port == EthPort{})
}

// Shared reports whether the group says itself which segments have it.
func (g *Group) Shared() bool { return len(g.VLANs) > 0 || len(g.Segments) > 0 }

// onVLAN are the segments of a VLAN, of whatever port.
func onVLAN(all []RoCE, vlan uint16) []RoCE {
	return slices.DeleteFunc(slices.Clone(all), func(r RoCE) bool { return r.VLAN != vlan })
}

// place reads which segment an entry names by its keys vlan or segment. Otherwise is what else may be written.
func (t *table) place(otherwise string) Place {
	all := t.p.cfg.Segments()
	if !t.has("segment") {
		vlan := uint16(t.number("vlan"))
		switch of := onVLAN(all, vlan); {
		case len(of) == 0:
			t.fail("vlan", "vlan %d is no segment's; write %s%s", vlan, placesOf(all), otherwise)
		case len(of) > 1:
			t.fail("vlan", "vlan %d is that of segments of several ports; write segment = %s in its place", vlan, labelsOf(of))
		}
		return Place{VLAN: vlan}
	}
	s, _ := t.given("segment")
	if t.has("vlan") {
		t.fail("segment", "segment and vlan are both there; write one of them")
	}
	for _, r := range all {
		if r.Place().String() == s {
			return r.Place()
		}
	}
	t.fail("segment", "segment %s is none; write %s%s", show(s), labelsOf(all), otherwise)
	return Place{}
}

// readSegments reads the key segments of a group. Which there are is checked later.
func readSegments(t *table) (all []Place) {
	for i, s := range t.elements("segments") {
		at := strings.LastIndexByte(s, '/')
		vlan, err := strconv.ParseUint(s[at+1:], 10, 16)
		if at < 0 || err != nil {
			t.failAt("segments", i, "segments has %s, which is not a port and a VLAN; write one like \"af_packet:eth1/100\"", show(s))
			continue
		}
		driver, arg, _ := strings.Cut(s[:at], ":")
		if p := (Place{EthPort{driver, arg}, uint16(vlan)}); !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b Place) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// segmentList is the value of segments; "" for none.
func segmentList(all []Place) string {
	var words []string
	for _, p := range all {
		words = append(words, p.String())
	}
	return strings.Join(words, "+")
}

// placesOf says what names each segment: its VLAN, or with several ports its label.
func placesOf(segments []RoCE) string {
	var all []string
	for _, r := range segments {
		if len(onVLAN(segments, r.VLAN)) > 1 {
			all = append(all, fmt.Sprintf("segment = %q", r.Place().String()))
			continue
		}
		all = append(all, fmt.Sprint("vlan = ", r.VLAN))
	}
	return enumerate(all, "or")
}

func labelsOf(segments []RoCE) string { return enumerate(labels(segments), "or") }

func labels(segments []RoCE) (all []string) {
	for _, r := range segments {
		all = append(all, strconv.Quote(r.Place().String()))
	}
	return all
}

// checkPlaces reports two segments of one place, and ports that do not go together.
func (p *checks) checkPlaces() {
	ts, places, links := p.tables["roce"], map[Place]*table{}, map[EthPort]EthPort{}
	all := p.cfg.Segments()
	for i := range all {
		r, t := &all[i], ts[i]
		if o := places[r.Place()]; o != nil && r.Port != (EthPort{}) {
			t.fail("vlan", "vlan %d of port %q is also that of %s%s; each needs its own VLAN, or its own port", r.VLAN, r.Port.String(), o.who, o.inLine("vlan"))
			continue
		}
		places[r.Place()] = t
		if r.Port.sharingTap() && slices.ContainsFunc(all[:i], func(o RoCE) bool { return o.Port == r.Port }) {
			t.fail("port", "port %q is a tap that shares an interface, which does not tell VLANs apart; use af_packet or mlx5, or one segment", r.Port.String())
		}
		for _, l := range r.Port.Links() {
			if o, taken := links[l]; taken && o != r.Port && l != (EthPort{}) {
				t.fail("port", "port %q has the link %q, which port %q has; write one of the two", r.Port.String(), l.String(), o.String())
			}
			links[l] = r.Port
		}
	}
}

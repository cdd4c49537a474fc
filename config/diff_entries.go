// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// named implements entry: the same host has the same address, or else the same GID.
func (h Host) named() (string, []string) {
	addrs := h.Addrs()
	if len(addrs) == 0 {
		return "", nil
	}
	ids := []string{addrs[0].String()}
	if h.Side == SideRoCE { // two segments may have one address
		ids = []string{fmt.Sprint(addrs[0], " vlan ", h.VLAN), addrs[0].String()}
		if h.Port != (EthPort{}) {
			ids[0] = fmt.Sprint(addrs[0], " segment ", h.place())
		}
	}
	for _, a := range addrs[1:] {
		ids = append(ids, a.String())
	}
	if !h.GID.IsZero() {
		ids = append(ids, "gid "+h.GID.String())
	}
	return addrs[0].String(), ids
}

// fields implements entry.
func (h Host) fields() []field {
	f := []field{{"ip", addrText(h.IP)}, {"ip6", addrText(h.IP6)}, {"side", sideNames[h.Side]}, {"gid", ""}, {"more_gids", ""}, {"lid", ""}, {"sl", ""}, {"pkey", ""}, {"bridge", ""}, {"mac", ""},
		{"vlan", ""}, {"segment", ""}}
	set := func(key, value string) {
		for i := range f {
			if f[i].key == key {
				f[i].value = value
			}
		}
	}
	if h.Side == SideIB {
		set("gid", h.GID.String())
		set("more_gids", h.moreGIDs())
		if h.LID != 0 {
			set("lid", strconv.Itoa(int(h.LID)))
		}
		set("sl", strconv.Itoa(int(h.SL)))
		if h.PKey != 0 {
			set("pkey", fmt.Sprintf("%#x", uint16(h.PKey)))
		}
		set("bridge", strconv.FormatBool(h.Bridge))
		return f
	}
	if h.HasMAC {
		set("mac", net.HardwareAddr(h.MAC[:]).String())
	}
	if h.Port != (EthPort{}) {
		set("segment", h.place().String())
	} else {
		set("vlan", strconv.Itoa(int(h.VLAN)))
	}
	return f
}

func addrText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// named implements entry: a group with another MGID is another group.
func (g Group) named() (string, []string) {
	return addrText(g.IP), []string{addrText(g.IP) + " " + g.MGID.String()}
}

// fields implements entry. The MGID stands for the keys scope and port, too.
func (g Group) fields() []field {
	return append(append([]field{{"ip", addrText(g.IP)}, {"mgid", g.MGID.String()}}, g.common()...), field{"fabrics", g.Fabrics}, field{"dedup", g.Dedup}, field{"vlans", vlanList(g.VLANs)}, field{"segments", segmentList(g.Segments)})
}

// vlanList is the value of vlans; "" for none.
func vlanList(vlans []uint16) string {
	if len(vlans) == 0 {
		return ""
	}
	return strings.ReplaceAll(fmt.Sprint(vlans), " ", ", ")
}

// addrList is the value of sources; "" for none.
func addrList(all []netip.Addr) string {
	texts := make([]string, len(all))
	for i, a := range all {
		texts[i] = a.String()
	}
	return strings.Join(texts, "+")
}

// common returns the fields that groups and ranges share.
func (g Group) common() []field {
	rate := ""
	if g.RatePPS != 0 {
		rate = fmt.Sprintf("%d pps", g.RatePPS)
	}
	ethernet, ttl := "roce", ""
	if g.UDPPort != 0 {
		ethernet, ttl = fmt.Sprintf("%s%d", plainForm, g.UDPPort), strconv.Itoa(int(g.TTL))
	}
	return []field{
		{"ethernet", ethernet}, {"ttl", ttl}, {"direction", g.Direction.String()}, {"qkey", fmt.Sprintf("%#x", uint32(g.QKey))}, {"pkey", fmt.Sprintf("%#x", uint16(g.PKey))},
		{"rate", rate}, {"rewrite_imm", strconv.FormatBool(g.RewriteImm)}, {"pgm", strconv.FormatBool(g.PGM)}, {"sources", addrList(g.Sources)},
	}
}

// named implements entry.
func (r Range) named() (string, []string) {
	return r.Prefix.String(), []string{fmt.Sprint(r.Prefix, " pkey ", r.Group.PKey), r.Prefix.String()} // two segments may have one prefix
}

// fields implements entry.
func (r Range) fields() []field {
	var from []string
	if r.Reports {
		from = append(from, "reports")
	}
	if r.SA {
		from = append(from, "sa")
	}
	port := ""
	if r.form.port != 0 {
		port = strconv.Itoa(int(r.form.port))
	}
	return append([]field{
		{"ip", r.Prefix.String()}, {"from", strings.Join(from, "+")}, {"most", strconv.Itoa(r.Most)},
		{"mgid", r.form.form}, {"scope", strconv.Itoa(int(r.form.scope))}, {"port", port},
	}, r.Group.common()...)
}

// named implements entry: other ports are another service.
func (s Service) named() (string, []string) { return s.Ports(), []string{s.String(), s.Ports()} }

// String returns the port or ports as the file has them, and the VLAN.
func (s Service) String() string { return s.Ports() + s.Scope.String() }

// Ports returns the port or ports as the file has them.
func (s Service) Ports() string {
	if s.First == s.Last {
		return strconv.Itoa(int(s.First))
	}
	return fmt.Sprintf("%d-%d", s.First, s.Last)
}

// fields implements entry.
func (s Service) fields() []field {
	if s.First == s.Last {
		return append([]field{{"port", s.Ports()}}, s.Scope.fields()...)
	}
	return append([]field{{"ports", s.Ports()}}, s.Scope.fields()...)
}

// SPDX-License-Identifier: Apache-2.0

package config

import (
	"math"
	"net/netip"
	"regexp"
	"strconv"

	"causeway/ibside/ib"
)

// Link-local control groups, which belong to one link and so never cross: RFC 5771 §4, RFC 4291 §2.7.
var controlGroups = []netip.Prefix{
	netip.MustParsePrefix("224.0.0.0/24"),
	netip.MustParsePrefix("ff01::/16"),
	netip.MustParsePrefix("ff02::/16"),
}

// group reads one [[group]].
func (p *parser) group(t *table) Group {
	ip := t.groupIP()
	g := p.groupOf(t)
	g.IP, g.MGID = ip, t.mgid(ip, g.PKey)
	return g
}

// groupOf reads what a group and a range of groups have in common.
func (p *parser) groupOf(t *table) Group {
	g := Group{PKey: p.cfg.IB.PKey, RatePPS: t.rate(), RewriteImm: t.truth("rewrite_imm"), PGM: t.truth("pgm")}
	switch t.text("direction") {
	case "both":
		g.Direction = Both
	case "to-ib":
		g.Direction = ToIB
	case "to-roce":
		g.Direction = ToRoCE
	}
	if t.has("pkey") {
		g.PKey = t.pkey("pkey")
	}
	g.QKey = t.qkey()
	return g
}

// groupIP reads the group's IP address.
func (t *table) groupIP() netip.Addr {
	s := t.text("ip")
	if !t.has("ip") || t.mistypedText("ip") {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil || a.Zone() != "":
		t.fail("ip", `ip %s is not a multicast address; write one like "239.1.2.3" or "ff15::1:2:3"`, show(s))
	case a.Is4In6():
		t.fail("ip", "ip %s is an IPv4 address in IPv6 form; write %q", a, a.Unmap().String())
	case !a.IsMulticast():
		t.fail("ip", "ip %s is a host's address, not a group's; write it under [[host]], or use 224.0.1.0 to 239.255.255.255", a)
	case isControlGroup(a):
		t.fail("ip", "ip %s is a link-local control group, which never crosses; use a group such as 239.1.2.3 or ff15::1:2:3", a)
	default:
		return a
	}
	return netip.Addr{}
}

func isControlGroup(a netip.Addr) bool {
	for _, n := range controlGroups {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

// qkey returns the group's Q_Key: by default that of rdma_cm's RDMA_PS_UDP, or of IPoIB.
// A controlled one would be replaced by the sending HCA with the QP's own (IBTA vol 1 §10.2.4).
func (t *table) qkey() ib.QKey {
	if !t.has("qkey") {
		if t.text("mgid") == "ipoib" {
			return ib.QKeyIPoIB
		}
		return ib.QKeyRDMAUDP
	}
	k := ib.QKey(t.number("qkey"))
	if k.IsControlled() {
		t.fail("qkey", "qkey %v is a controlled Q_Key, which a group cannot have; use one below 0x80000000, such as %v", k, ib.QKeyRDMAUDP)
	}
	return k
}

var rateForm = regexp.MustCompile(`^(\d{1,9}(?:\.\d{1,9})?)\s*([kMG]?)\s*pps$`)

// rate returns a rate in packets a second; 0 when there is none.
func (t *table) rate() uint64 {
	s := t.text("rate")
	if !t.has("rate") || t.mistypedText("rate") {
		return 0
	}
	m := rateForm.FindStringSubmatch(s)
	if m == nil {
		t.fail("rate", `rate %s is not a rate; write packets a second: "1000 pps", "250k pps" or "1M pps"`, show(s))
		return 0
	}
	n, _ := strconv.ParseFloat(m[1], 64)
	n = math.Round(n * map[string]float64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[m[2]])
	if n < 1 {
		t.fail("rate", "rate %s is less than one packet a second; leave rate out for no limit, or remove the group", show(s))
		return 0
	}
	return uint64(n)
}

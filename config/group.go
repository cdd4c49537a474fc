// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"causeway/ibside/ib"
)

// controlGroups are link-local and so never cross (RFC 5771 §4, RFC 4291 §2.7).
var controlGroups = []netip.Prefix{
	netip.MustParsePrefix("224.0.0.0/24"),
	netip.MustParsePrefix("ff01::/16"),
	netip.MustParsePrefix("ff02::/16"),
}

// group reads one [[group]].
func (p *parser) group(t *table) Group {
	ip := readGroupIP(t)
	g := p.groupOf(t)
	g.IP, g.MGID = ip, readMGID(t, ip, g.PKey)
	p.noteSources(t, netip.PrefixFrom(ip, ip.BitLen()), &g)
	g.Fabrics, g.Dedup = t.text("fabrics"), t.text("dedup")
	for _, v := range t.numbers("vlans") {
		g.VLANs = append(g.VLANs, uint16(v))
	}
	slices.Sort(g.VLANs)
	g.VLANs = slices.Compact(g.VLANs)
	g.Segments = readSegments(t)
	return g
}

// groupOf reads the keys that [[group]] and [[range]] share, except those of the MGID.
func (p *parser) groupOf(t *table) Group {
	g := Group{Direction: Direction(slices.Index(directionNames, t.text("direction"))), QKey: readQKey(t), PKey: p.cfg.IB.PKey, RatePPS: readRate(t),
		RewriteImm: t.truth("rewrite_imm"), PGM: t.truth("pgm")}
	if t.has("pkey") {
		g.PKey = t.pkey("pkey")
	}
	g.Sources = readSources(t)
	if g.UDPPort, g.TTL = readEthernet(t); g.UDPPort == 0 && t.has("ttl") {
		p.note(t, "ttl", "ttl has no effect without ethernet = \"udp:PORT\": the TTL of RoCE is that of the message")
	}
	return g
}

// oldForm has the IPv4 group a.b.c.d as ff0e::ffff:a.b.c.d, which RoCEv1 writes so. With RoCEv2 no packet of it is accepted.
var oldForm = netip.MustParsePrefix("ff0e::ffff:0:0/96")

// readGroupIP reads the group's IP address; the zero Addr when it is missing or wrong.
func readGroupIP(t *table) netip.Addr {
	s, ok := t.given("ip")
	if !ok {
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
	case oldForm.Contains(a):
		b := a.As16()
		t.fail("ip", "ip %s is RoCEv1's form of an IPv4 group; write %q: frames of both forms are its own", a, netip.AddrFrom4([4]byte(b[12:])).String())
	case isControlGroup(a):
		t.fail("ip", "ip %s is a link-local control group, which never crosses; use a group such as 239.1.2.3 or ff15::1:2:3", a)
	default:
		return a
	}
	return netip.Addr{}
}

// sourcesMost is how many sources a router keeps of a group, at most.
const sourcesMost = 64

// readSources reads the sources of a group, or of the groups of a range.
func readSources(t *table) (all []netip.Addr) {
	ip := t.text("ip")
	for i, s := range t.elements("sources") {
		a, err := netip.ParseAddr(s)
		switch {
		case err != nil || a.Zone() != "" || a.Is4In6() || a.IsMulticast() || a.IsUnspecified():
			t.failAt("sources", i, `sources %s is no host's address; write one like "10.9.0.7"`, show(s))
		case a.Is6() != strings.Contains(ip, ":"):
			t.failAt("sources", i, "sources %s is of another IP version than %s", a, ip)
		default:
			all = append(all, a)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	if all = slices.Compact(all); len(all) > sourcesMost {
		t.fail("sources", "sources has %d hosts, more than %d; leave it out for all sources", len(all), sourcesMost)
	}
	return all
}

// isSourceSpecific reports whether groups of a prefix have members for named sources only (RFC 4607 §1): 232/8, ff3x::/32.
func isSourceSpecific(n netip.Prefix) bool {
	if n.Addr().Is6() {
		b := n.Addr().As16()
		return n.Bits() >= 32 && b[0] == 0xff && b[1]>>4 == 3 && b[2] == 0 && b[3] == 0
	}
	return n.Bits() >= 8 && n.Addr().As4()[0] == 232
}

// noteSources says of a source-specific group without sources what becomes of it.
func (p *parser) noteSources(t *table, of netip.Prefix, g *Group) {
	if of.IsValid() && isSourceSpecific(of) && len(g.Sources) == 0 && g.Direction != ToRoCE {
		p.note(t, "ip", fmt.Sprintf("ip %s is source-specific: routers carry it to the bridge only if sources names the RoCE hosts that send", t.text("ip")))
	}
}

// plainForm begins the value of the key ethernet of a group of plain UDP; the port follows.
const plainForm = "udp:"

// rocePort is the UDP port of RoCEv2 (IBTA Annex A17).
const rocePort = 4791

// readEthernet returns the UDP port and the TTL of a group of plain UDP; zeros for RoCE.
func readEthernet(t *table) (port uint16, ttl uint8) {
	form := t.text("ethernet")
	number, plain := strings.CutPrefix(form, plainForm)
	n, err := strconv.ParseUint(number, 10, 16)
	limit := uint8(t.number("ttl"))
	switch {
	case form == "roce":
	case !plain:
		t.fail("ethernet", `ethernet %s is not known; write "roce", or "udp:PORT" such as "udp:4711"`, show(form))
	case err != nil || n == 0:
		t.fail("ethernet", `ethernet %s has no UDP port; write one from 1 to 65535, such as "udp:4711"`, show(form))
	case n == rocePort:
		t.fail("ethernet", `ethernet %s is the port of RoCEv2; write "roce", or the port that the group's sockets use`, show(form))
	default:
		return uint16(n), limit
	}
	return 0, 0
}

func isControlGroup(a netip.Addr) bool {
	return slices.ContainsFunc(controlGroups, func(n netip.Prefix) bool { return n.Contains(a) })
}

// readQKey returns the group's Q_Key: by default that of rdma_cm's RDMA_PS_UDP, or of IPoIB.
// The sending HCA would replace a controlled one by the QP's own (IBTA vol 1 §10.2.4).
func readQKey(t *table) ib.QKey {
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

// readRate returns a rate in packets a second; 0 when there is none.
func readRate(t *table) uint64 {
	s, ok := t.given("rate")
	if !ok {
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

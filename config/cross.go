// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"causeway/ibside/ib"
)

// tapMTU is the largest MTU of DPDK 22.11's net_tap, whose buffers hold one Ethernet frame with a VLAN tag.
const tapMTU = 1504

// checks look for what does not go together in what has been read. Each table reports its own problems.
type checks struct{ reading }

func (p *parser) crossChecks() *checks { return &checks{p.reading} }

// all reports problems that involve more than one table or entry.
func (p *checks) all(ibSection, workers, policy *table) {
	p.checkSegments(ibSection)
	p.checkHosts()
	p.checkPartitions(ibSection)
	p.checkGroups()
	p.checkRanges(workers)
	p.checkPorts(ibSection, workers)
	p.checkServices()
	p.checkTranslates()
	p.checkPolicy(policy)
	p.checkMemory(workers)
	p.checkLearn(policy)
	w := p.cfg.Workers
	if w.ProxyQPsPerHost > w.ProxyQPs {
		workers.fail("proxy_qps_per_host", "proxy_qps_per_host %d is more than proxy_qps %d; lower it, or raise proxy_qps",
			w.ProxyQPsPerHost, w.ProxyQPs)
	}
	if n := len(w.LCores); n > 1 && slices.ContainsFunc(p.cfg.EthPorts(), EthPort.sharingTap) {
		workers.fail("lcores", "lcores names %d cores, but a tap that shares an interface feeds one worker: it cannot keep a host's packets "+
			"together; name one core", n)
	}
	n := map[Side]int{}
	for _, h := range p.cfg.Hosts {
		n[h.Side]++
	}
	if n[SideRoCE] > w.Hosts {
		workers.fail("hosts", "hosts %d is less than the %d hosts with side = \"roce\" in the file; raise it", w.Hosts, n[SideRoCE])
	}
	if n[SideIB] > w.Nodes {
		workers.fail("nodes", "nodes %d is less than the %d hosts with side = \"ib\" in the file; raise it", w.Nodes, n[SideIB])
	}
}

// checkMTU notes an MTU with which messages that InfiniBand can have are lost, because nothing else tells before they
// come.
func (p *checks) checkMTU(roce *table, c *RoCE) {
	if m := c.IBMTU; roce.has("mtu") && m.Valid() && m < ib.MTU4096 {
		p.note(roce, "mtu", fmt.Sprintf("mtu %d carries messages of at most %d bytes; longer ones from InfiniBand are dropped (mtu_exceeded); "+
			"mtu = 4176, here and on the interface, carries all", c.MTU, m.Bytes()))
	}
}

// firstOf maps a value to the entry that has it first.
type firstOf[K comparable] map[K]*table

// unique reports a value that another entry already has, unless it is said of the same two entries already, and returns that other
// entry; nil: there is none.
func (s firstOf[K]) unique(t *table, key string, v K, said *table) *table {
	other := s[v]
	switch {
	case other == nil:
		s[v] = t
	case other != said:
		t.fail(key, "%s %v is also that of %s%s; each needs its own", key, v, other.who, other.inLine(key))
	}
	return other
}

// checkHosts reports hosts that share an address or that cannot be reached.
func (p *checks) checkHosts() {
	ips, gids, nodes := firstOf[placed]{}, firstOf[ib.GID]{}, map[netip.Addr]*table{}
	for i, h := range p.cfg.Hosts {
		t := p.tables["host"][i]
		var twin *table // which has an address of this one
		for _, a := range h.Addrs() {
			key := t.keyOf(h, a)
			if h.Side == SideIB && len(p.cfg.More) > 0 {
				if o := nodes[a]; o != nil {
					t.fail(key, "%s %v is also that of %s%s: two InfiniBand nodes cannot have one address, even in two partitions; give each its own", key, a, o.who, o.inLine(key))
					continue
				}
				nodes[a] = t
			}
			p.checkPlace(t, key, a, p.cfg.SegmentsOf(h))
			for _, s := range p.cfg.SegmentsOf(h) {
				twin = cmp.Or(ips.unique(t, key, placed{s.Place(), a}, twin), twin)
			}
		}
		if !h.GID.IsZero() {
			gids.unique(t, "gid", h.GID, twin)
		}
		// Such a GID is right on a device whose link layer is Ethernet, but not on the software subnet.
		if h.GID.IsIPv4Mapped() && p.cfg.IB.Port.Fabric {
			t.fail("gid", "gid %s is a GID of RoCE; write that of the node's InfiniBand port, as ibaddr prints it", h.GID)
		}
	}
}

// inLine says where an entry has a key; "" when the entry is from no file.
func (t *table) inLine(key string) string {
	if n := t.line(key); n > 0 {
		return fmt.Sprintf(" in line %d", n)
	}
	return ""
}

// keyOf returns the key that has an address of h in the file.
func (t *table) keyOf(h Host, a netip.Addr) string {
	if a == h.IP6 && t.has("ip6") {
		return "ip6"
	}
	return "ip"
}

// checkPlace reports an address that is the bridge's own or in none of its subnets: hosts of both fabrics resolve each
// other by ARP and ND only, so both must be on the link.
func (p *checks) checkPlace(t *table, key string, a netip.Addr, in []RoCE) {
	inside, addresses := a.IsLinkLocalUnicast(), 0
	for i := range in {
		for _, n := range in[i].Addresses {
			if n.Addr() == a {
				t.fail(key, "%s %s is the bridge's own address in [roce]; give the host another", key, a)
				return
			}
			if n.Contains(a) && isNetOrBroadcast(netip.PrefixFrom(a, n.Bits())) {
				t.fail(key, "%s %s is the address of the subnet %s itself, or its broadcast address", key, a, n.Masked())
				return
			}
			inside = inside || n.Contains(a)
			addresses++
		}
	}
	if !inside && addresses > 0 {
		t.fail(key, "%s %s is in none of the subnets of [roce] addresses; add the bridge's address in that subnet there", key, a)
	}
}

// checkGroups reports groups that are ambiguous on one side. Packets from RoCE hosts have only the IP address, neither
// MGID nor port, so only one RoCE group with an address may have a direction to InfiniBand; and one of plain UDP with
// an address and port.
func (p *checks) checkGroups() {
	type same struct {
		ip   netip.Addr
		mgid ib.GID
	}
	type address struct {
		ip   netip.Addr
		port uint16
		in   int // the segment
	}
	whole, leads, mgids := map[same]*table{}, map[address]*table{}, firstOf[ib.GID]{}
	for i, g := range p.cfg.Groups {
		t := p.tables["group"][i]
		if o := whole[same{g.IP, g.MGID}]; o != nil && g.IP.IsValid() && !g.MGID.IsZero() {
			t.fail("ip", "ip %v is there already%s, with the same MGID %v; change that entry, or remove one", g.IP, o.inLine("ip"), g.MGID)
			continue
		}
		whole[same{g.IP, g.MGID}] = t
		if !g.MGID.IsZero() {
			mgids.unique(t, "mgid", g.MGID, nil)
		}
		if !g.IP.IsValid() || g.Direction&ToIB == 0 {
			continue
		}
		for _, in := range p.cfg.GroupSegments(&g) {
			if o := leads[address{g.IP, g.UDPPort, in}]; o != nil {
				t.fail("ip", `ip %v is there already%s, with another MGID, and both entries lead to InfiniBand, where what RoCE hosts send can go to `+
					`one alone; write direction = "to-roce" in one`, g.IP, o.inLine("ip"))
				break
			}
			leads[address{g.IP, g.UDPPort, in}] = t
		}
	}
	p.checkShared()
}

// checkShared reports groups of several segments whose address another has in one of these.
func (p *checks) checkShared() {
	for i := range p.cfg.Groups {
		g, t := &p.cfg.Groups[i], p.tables["group"][i]
		for j := range p.cfg.Groups {
			o := &p.cfg.Groups[j]
			if i == j || !g.Shared() || o.IP != g.IP || o.UDPPort != g.UDPPort {
				continue
			}
			in := p.cfg.GroupSegments(o)
			if slices.ContainsFunc(p.cfg.GroupSegments(g), func(n int) bool { return slices.Contains(in, n) }) {
				t.fail("vlans", "ip %v is also that of another group%s in one of these segments; a group with vlans has its address alone there",
					g.IP, p.tables["group"][j].inLine("ip"))
				break
			}
		}
	}
}

// note adds a remark on a key that is right but may have no effect.
func (p *reading) note(t *table, key, what string) {
	p.cfg.Notes = append(p.cfg.Notes, Problem{p.file, t.line(key), t.who, "note: " + what})
}

// checkServices reports ports that more than one entry has in a segment.
func (p *checks) checkServices() {
	for i, s := range p.cfg.Services {
		for j, other := range p.cfg.Services[:i] {
			if s.First != 0 && other.First != 0 && s.meets(other.Scope) && s.First <= other.Last && other.First <= s.Last {
				t, before := p.tables["service"][i], p.tables["service"][j]
				t.fail(t.portKey(), "port %d is also that of %s%s; each needs its own", max(s.First, other.First), before.who,
					before.inLine(before.portKey()))
				break
			}
		}
	}
}

// portKey returns the key that has the ports of a [[service]].
func (t *table) portKey() string {
	if t.has("ports") {
		return "ports"
	}
	return "port"
}

// checkPolicy reports hosts all of whose packets would be dropped.
func (p *checks) checkPolicy(policy *table) {
	if len(p.cfg.Hosts)+len(p.cfg.Groups)+len(p.cfg.Ranges) == 0 {
		return
	}
	if !p.cfg.allowsAny() {
		for _, t := range append(p.tables["roce"], policy) {
			if t.has("allow") && !t.isEmptyList("allow") {
				return // its elements are wrong and have been reported
			}
		}
		policy.fail("allow", "allow is empty, so nothing would cross; write allow = [%q]", p.anySubnet())
		return
	}
	for i, h := range p.cfg.Hosts {
		in := p.cfg.SegmentsOf(h)
		for _, a := range h.Addrs() {
			if len(in) > 0 && !slices.ContainsFunc(in, func(r RoCE) bool { return p.cfg.Allows(&r, a) }) {
				key := p.tables["host"][i].keyOf(h, a)
				p.tables["host"][i].fail(key, "%s %s is in no prefix of [policy] allow, so its packets would be dropped; add %q there", key, a,
					netip.PrefixFrom(a, a.BitLen()).String())
			}
		}
	}
}

// allowsAny reports whether any segment has hosts that may send across.
func (c *Config) allowsAny() bool {
	return slices.ContainsFunc(c.Segments(), func(r RoCE) bool { return len(c.AllowedIn(&r)) > 0 })
}

// checkLearn reports what keeps nodes from being learned.
func (p *checks) checkLearn(policy *table) {
	if !p.cfg.IB.Learn {
		return
	}
	if p.cfg.Policy.BridgeUnknown {
		policy.fail("unknown_source", `unknown_source "bridge" hides the nodes that [ib] nodes = "learn" is to learn; write "drop", or `+
			`nodes = "configured"`)
	}
	if !p.cfg.allowsAny() && !policy.has("allow") {
		policy.fail("allow", "allow is empty, so no node would be learned; write allow = [%q]", p.anySubnet())
	}
}

// anySubnet returns a subnet for an example: the bridge's first if it has one.
func (p *checks) anySubnet() string {
	for _, n := range p.cfg.RoCE.Addresses {
		return n.Masked().String()
	}
	return "10.9.0.0/24"
}

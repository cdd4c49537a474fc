// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"causeway/config"
)

// The settings for proxy ARP and proxy ND. For ARP (Linux net/ipv4/arp.c, arp_process): forwarding is on for the
// receiving interface, whatever net.ipv4.ip_forward is; the routing tables would forward a packet with the request's
// two addresses; the target has a unicast route through another interface; and proxy_arp is on, or the target has a
// proxy entry. For ND (net/ipv6/ndisc.c, ndisc_recv_ns): forwarding and proxy_ndp are on, and the target has a proxy
// entry; routes do not matter.

const nodes, roceHosts = config.SideIB, config.SideRoCE

// conf returns the path of a setting of an interface.
func conf(family, dev, name string) string {
	return path.Join("net", family, "conf", dev, name)
}

// sysctl returns a numeric setting; 0 when it does not exist.
func sysctl(k Kernel, at string) int {
	n, _ := strconv.Atoi(k.Sysctl(at))
	return n
}

// effective returns the value in force of rp_filter, arp_ignore or arp_announce: the larger of those for all interfaces
// and for one (Documentation/networking/ip-sysctl.rst).
func effective(k Kernel, netdev, name string) int {
	return max(sysctl(k, conf("ipv4", "all", name)), sysctl(k, conf("ipv4", netdev, name)))
}

func (p *ipoibProbe) largest(name string) int { return effective(p.kernel, p.netdev, name) }

// dotted returns a setting's usual name with dots; with slashes, when an interface has a dot in its name.
func dotted(at string) string {
	if strings.Contains(at, ".") {
		return at
	}
	return strings.ReplaceAll(at, "/", ".")
}

// set returns the command that changes a setting.
func set(at string, value int) string { return fmt.Sprintf("sysctl -w %s=%d", dotted(at), value) }

// bridgesAnswer reports whether the bridges of a fleet answer for RoCE hosts, and not the kernel.
func (p *ipoibProbe) bridgesAnswer() bool { return p.cfg.Fleet.Name != "" }

// families are those whose requests the kernel answers.
func (p *ipoibProbe) families() []string {
	switch {
	case p.bridgesAnswer():
		return nil
	case p.hasNodes(true):
		return []string{"ipv4", "ipv6"}
	default:
		return []string{"ipv4"}
	}
}

// checkForwarding requires forwarding on the interface: otherwise the kernel answers only for itself.
func (p *ipoibProbe) checkForwarding() []Finding {
	var out []Finding
	for _, family := range p.families() {
		at := conf(family, p.netdev, "forwarding")
		if sysctl(p.kernel, at) == 0 {
			out = append(out, bad(Fail, fmt.Sprintf("%s is off: the kernel answers on %s for nobody else", dotted(at), p.netdev), set(at, 1)))
		} else {
			out = append(out, ok("%s is on", dotted(at)))
		}
	}
	return out
}

// checkProxyARP requires proxy_arp, or a proxy entry for each configured RoCE host; in a fleet neither.
func (p *ipoibProbe) checkProxyARP() []Finding {
	if p.bridgesAnswer() {
		entries, _ := p.kernel.Proxied(p.netdev)
		return p.checkNoProxy("ipv4", "proxy_arp", slices.DeleteFunc(slices.Clone(entries), netip.Addr.Is6))
	}
	at := conf("ipv4", p.netdev, "proxy_arp")
	if sysctl(p.kernel, conf("ipv4", "all", "proxy_arp")) != 0 || sysctl(p.kernel, at) != 0 {
		return []Finding{ok("%s is on", dotted(at))}
	}
	have, _ := p.kernel.Proxied(p.netdev)
	hosts := hostsOn(p.cfg, roceHosts, false)
	if len(hosts) > 0 && !slices.ContainsFunc(hosts, func(a netip.Addr) bool { return !slices.Contains(have, a) }) {
		return []Finding{ok("%s is off, but each RoCE host of the configuration has a proxy entry", dotted(at))}
	}
	return []Finding{bad(Fail, fmt.Sprintf("%s is off: nodes that ask for RoCE hosts get no answer", dotted(at)), set(at, 1))}
}

// checkNoProxy requires that the kernel leaves the answers to the fleet's bridges, of which one has a host: a setting is off, and
// there are no entries, which the kernel answers for in any case.
func (p *ipoibProbe) checkNoProxy(family, setting string, entries []netip.Addr) []Finding {
	all, own := conf(family, "all", setting), conf(family, p.netdev, setting)
	if sysctl(p.kernel, all) == 0 && sysctl(p.kernel, own) == 0 && len(entries) == 0 {
		return []Finding{ok("%s is off: the bridges of the fleet answer", dotted(own))}
	}
	fix := []string{set(all, 0), set(own, 0)}
	for _, a := range entries {
		fix = append(fix, fmt.Sprintf("ip neigh del proxy %s dev %s", a, p.netdev))
	}
	return []Finding{bad(Fail, fmt.Sprintf("the kernel answers on %s for RoCE hosts, whichever bridge of the fleet has them", p.netdev), fix...)}
}

// checkMedium requires a medium_id that does not disable proxy ARP.
func (p *ipoibProbe) checkMedium() []Finding {
	if p.bridgesAnswer() {
		return nil
	}
	at := conf("ipv4", p.netdev, "medium_id")
	id := sysctl(p.kernel, at)
	other := 0
	if p.ports.roce != "" {
		other = sysctl(p.kernel, conf("ipv4", p.ports.roce, "medium_id"))
	}
	if id == -1 || id != 0 && (other == id || other == -1) {
		return []Finding{bad(Fail, fmt.Sprintf("%s is %d: the kernel does not answer for what lies behind %s",
			dotted(at), id, cmp.Or(p.ports.roce, "another interface")), set(at, 0))}
	}
	return []Finding{ok("%s is %d", dotted(at), id)}
}

// checkDelay requires a proxy_delay of 0: by default the kernel delays each answer by up to 0.8 s and drops those
// beyond 64.
func (p *ipoibProbe) checkDelay() []Finding {
	var out []Finding
	for _, family := range p.families() {
		at := path.Join("net", family, "neigh", p.netdev, "proxy_delay")
		if delay := sysctl(p.kernel, at); delay != 0 {
			out = append(out, bad(Warn, fmt.Sprintf("%s is %d hundredths of a second: answers are late, and many at a time are lost", dotted(at), delay), set(at, 0)))
		} else {
			out = append(out, ok("%s is 0", dotted(at)))
		}
	}
	return out
}

// checkReversePath requires rp_filter to accept requests of nodes. Strict mode is fine when nodes are routed through
// the interface, which checkNodeRoutes checks.
func (p *ipoibProbe) checkReversePath() []Finding {
	at := conf("ipv4", p.netdev, "rp_filter")
	if n := p.largest("rp_filter"); n == 1 && p.unrouted() > 0 {
		const loose = 2
		return []Finding{bad(Fail, fmt.Sprintf("%s is strict (for this interface or for all), and nodes are routed elsewhere: "+
			"their requests are dropped", dotted(at)), set(at, loose))}
	}
	return []Finding{ok("%s accepts nodes' requests", dotted(at))}
}

// checkIgnore requires answers for the bridge's own address: 2 requires requester and interface in one subnet, which
// fails for an address with a full-length prefix; 3 and above answer for some addresses or none.
func (p *ipoibProbe) checkIgnore() []Finding {
	at := conf("ipv4", p.netdev, "arp_ignore")
	switch n := p.largest("arp_ignore"); {
	case n >= 2:
		return []Finding{bad(Fail, fmt.Sprintf("%s is %d: nodes that ask for the bridge's own address get no answer", dotted(at), n),
			set(conf("ipv4", "all", "arp_ignore"), 1), set(at, 1))}
	case n == 0 && p.twins() > 0:
		return []Finding{bad(Warn, fmt.Sprintf("%s is 0, and there are %d more InfiniBand interfaces: each answers for the others' addresses, "+
			"with the wrong GID", dotted(at), p.twins()), set(at, 1))}
	default:
		return []Finding{ok("%s is %d", dotted(at), n)}
	}
}

// checkAnnounce requires the bridge's own ARP requests to have a source address of the interface.
func (p *ipoibProbe) checkAnnounce() []Finding {
	at := conf("ipv4", p.netdev, "arp_announce")
	const best = 2
	if n := p.largest("arp_announce"); n < best && p.twins() > 0 {
		return []Finding{bad(Warn, fmt.Sprintf("%s is %d, and there are %d more InfiniBand interfaces: the bridge may ask from another's address",
			dotted(at), n, p.twins()), set(at, best))}
	}
	return []Finding{ok("%s is %d", dotted(at), p.largest("arp_announce"))}
}

// twins counts the other IPoIB interfaces that may hear the same requests: those of other partitions do not.
func (p *ipoibProbe) twins() int {
	n := 0
	for _, name := range p.sys.names(classNet) {
		other := p.pkeyOf(name)
		if name != p.netdev && p.sys.number(classNet, name, "type") == arphrdInfiniBand && (other == 0 || number(other) == number(p.pkey)) {
			n++
		}
	}
	return n
}

// checkProxyND requires proxy_ndp, and in a fleet that it is off: without it entries do nothing.
func (p *ipoibProbe) checkProxyND() []Finding {
	if p.bridgesAnswer() {
		return p.checkNoProxy("ipv6", "proxy_ndp", nil)
	}
	if !p.hasNodes(true) {
		return nil
	}
	var out []Finding
	if at := conf("ipv6", p.netdev, "disable_ipv6"); sysctl(p.kernel, at) != 0 {
		out = append(out, bad(Fail, fmt.Sprintf("%s is on: there is no IPv6 on %s", dotted(at), p.netdev), set(at, 0)))
	}
	at := conf("ipv6", p.netdev, "proxy_ndp")
	if sysctl(p.kernel, conf("ipv6", "all", "proxy_ndp")) == 0 && sysctl(p.kernel, at) == 0 {
		return append(out, bad(Fail, dotted(at)+" is off: nodes that ask for RoCE hosts by IPv6 get no answer", set(at, 1)))
	}
	return append(out, ok("%s is on", dotted(at)))
}

// checkEntries requires a proxy entry for each RoCE host with an IPv6 address, as ND has no proxy_arp.
func (p *ipoibProbe) checkEntries() []Finding {
	hosts := hostsOn(p.cfg, roceHosts, true)
	if !p.hasNodes(true) || len(hosts) == 0 || p.bridgesAnswer() {
		return nil
	}
	have, _ := p.kernel.Proxied(p.netdev)
	var fix []string
	for _, a := range hosts {
		if !slices.Contains(have, a) {
			fix = append(fix, fmt.Sprintf("ip -6 neigh add proxy %s dev %s", a, p.netdev))
		}
	}
	if len(fix) > 0 {
		return []Finding{bad(Fail, fmt.Sprintf("%d of %d RoCE hosts with an IPv6 address have no proxy entry on %s", len(fix), len(hosts), p.netdev), fix...)}
	}
	return []Finding{ok("all %d RoCE hosts with an IPv6 address have proxy entries", len(hosts))}
}

// checkRoCESide requires the kernel not to answer on Ethernet, where the bridge answers for existing nodes only.
func (p *ipoibProbe) checkRoCESide() []Finding {
	if p.ports.roce == "" {
		return []Finding{ok("the kernel has no interface on the RoCE side")}
	}
	all, own := conf("ipv4", "all", "proxy_arp"), conf("ipv4", p.ports.roce, "proxy_arp")
	if sysctl(p.kernel, all) == 0 && sysctl(p.kernel, own) == 0 {
		return []Finding{ok("the kernel answers for nobody on %s", p.ports.roce)}
	}
	return []Finding{bad(Warn, fmt.Sprintf("the kernel answers for nodes on %s, too, whether they are there or not: the bridge does that", p.ports.roce),
		set(conf("ipv4", p.netdev, "proxy_arp"), 1), set(all, 0), set(own, 0))}
}

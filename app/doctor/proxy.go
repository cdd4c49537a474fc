// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"causeway/config"
)

// The settings under which the kernel answers for others. For ARP (Linux net/ipv4/arp.c, arp_process): forwarding is on for
// the interface that the question came by, net.ipv4.ip_forward or not; the question's two addresses pass the routing tables as
// a packet would that is to be forwarded; the way to the target is a unicast route by another interface; and proxy_arp is
// on, or the target has a proxy entry. For ND (net/ipv6/ndisc.c, ndisc_recv_ns): forwarding and proxy_ndp are on, and the
// target has a proxy entry; routes do not matter.

const nodes, roceHosts = config.SideIB, config.SideRoCE

// conf returns the path of a setting of an interface.
func conf(family, dev, name string) string {
	return path.Join("net", family, "conf", dev, name)
}

// number returns a setting that is a number; 0 when it is not there.
func (p *patient) number(at string) int {
	n, _ := strconv.Atoi(p.kernel.Sysctl(at))
	return n
}

// largest returns the larger of a setting's values for all interfaces and for one: that is the one that holds for
// rp_filter, arp_ignore and arp_announce (Documentation/networking/ip-sysctl.rst).
func (p *patient) largest(name string) int {
	return max(p.number(conf("ipv4", "all", name)), p.number(conf("ipv4", p.netdev, name)))
}

// dotted returns a setting's name as people write it; with slashes, when an interface has a dot in its name.
func dotted(at string) string {
	if strings.Contains(at, ".") {
		return at
	}
	return strings.ReplaceAll(at, "/", ".")
}

// set is the command that changes a setting.
func set(at string, value int) string { return fmt.Sprintf("sysctl -w %s=%d", dotted(at), value) }

// checkForwarding wants the kernel to forward what comes by the interface, or it answers for itself alone.
func (p *patient) checkForwarding() []Finding {
	var out []Finding
	for _, family := range []string{"ipv4", "ipv6"} {
		at := conf(family, p.netdev, "forwarding")
		switch {
		case family == "ipv6" && len(p.hosts(nodes, true)) == 0:
		case p.number(at) == 0:
			out = append(out, bad(Fail, fmt.Sprintf("%s is off: the kernel answers on %s for nobody else", dotted(at), p.netdev), set(at, 1)))
		default:
			out = append(out, ok("%s is on; that of other interfaces does not matter", dotted(at)))
		}
	}
	return out
}

// checkProxyARP wants proxy_arp, or an entry for each RoCE host that the configuration knows.
func (p *patient) checkProxyARP() []Finding {
	at := conf("ipv4", p.netdev, "proxy_arp")
	if p.number(conf("ipv4", "all", "proxy_arp")) != 0 || p.number(at) != 0 {
		return []Finding{ok("%s is on", dotted(at))}
	}
	have, _ := p.kernel.Proxied(p.netdev)
	hosts := p.hosts(roceHosts, false)
	if len(hosts) > 0 && !slices.ContainsFunc(hosts, func(a netip.Addr) bool { return !slices.Contains(have, a) }) {
		return []Finding{ok("%s is off, but each RoCE host of the configuration has a proxy entry", dotted(at))}
	}
	return []Finding{bad(Fail, fmt.Sprintf("%s is off: nodes that ask for RoCE hosts get no answer", dotted(at)), set(at, 1))}
}

// checkMedium wants the interface not to be kept from proxying by its medium_id.
func (p *patient) checkMedium() []Finding {
	at := conf("ipv4", p.netdev, "medium_id")
	id := p.number(at)
	other := 0
	if p.roce != "" {
		other = p.number(conf("ipv4", p.roce, "medium_id"))
	}
	if id == -1 || id != 0 && (other == id || other == -1) {
		return []Finding{bad(Fail, fmt.Sprintf("%s is %d: the kernel does not answer for what lies behind %s",
			dotted(at), id, cmp.Or(p.roce, "another interface")), set(at, 0))}
	}
	return []Finding{ok("%s is %d", dotted(at), id)}
}

// checkDelay wants answers at once: the kernel would delay each by up to proxy_delay, 0.8 s, and forget those beyond 64.
func (p *patient) checkDelay() []Finding {
	var out []Finding
	for _, family := range []string{"ipv4", "ipv6"} {
		at := path.Join("net", family, "neigh", p.netdev, "proxy_delay")
		switch delay := p.number(at); {
		case family == "ipv6" && len(p.hosts(nodes, true)) == 0:
		case delay != 0:
			out = append(out, bad(Warn, fmt.Sprintf("%s is %d hundredths of a second: answers are late, and many at a time are lost", dotted(at), delay), set(at, 0)))
		default:
			out = append(out, ok("%s is 0", dotted(at)))
		}
	}
	return out
}

// checkReversePath wants questions of nodes not to be refused for their source. Strict is fine when nodes are routed by
// the interface, which checkNodeRoutes looks at.
func (p *patient) checkReversePath() []Finding {
	at := conf("ipv4", p.netdev, "rp_filter")
	if n := p.largest("rp_filter"); n == 1 && p.unrouted() > 0 {
		const loose = 2
		return []Finding{bad(Fail, fmt.Sprintf("%s is strict (for this interface or for all), and nodes are routed elsewhere: "+
			"their questions are refused", dotted(at)), set(at, loose))}
	}
	return []Finding{ok("%s lets nodes' questions pass", dotted(at))}
}

// checkIgnore wants questions for the bridge's own address to be answered: 2 wants asker and interface in one subnet, which
// an address with a full prefix is not; 3 and above answer for some addresses or none.
func (p *patient) checkIgnore() []Finding {
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

// checkAnnounce wants questions of the bridge's own to come from an address of the interface.
func (p *patient) checkAnnounce() []Finding {
	at := conf("ipv4", p.netdev, "arp_announce")
	const best = 2
	if n := p.largest("arp_announce"); n < best && p.twins() > 0 {
		return []Finding{bad(Warn, fmt.Sprintf("%s is %d, and there are %d more InfiniBand interfaces: the bridge may ask from another's address",
			dotted(at), n, p.twins()), set(at, best))}
	}
	return []Finding{ok("%s is %d", dotted(at), p.largest("arp_announce"))}
}

// twins counts the other interfaces of IP over InfiniBand.
func (p *patient) twins() int {
	n := 0
	entries, _ := fs.ReadDir(p.sys, classNet)
	for _, e := range entries {
		if e.Name() != p.netdev && p.attr(classNet, e.Name(), "type") == arphrdInfiniBand {
			n++
		}
	}
	return n
}

func (p *patient) checkProxyND() []Finding {
	if len(p.hosts(nodes, true)) == 0 {
		return nil
	}
	var out []Finding
	if at := conf("ipv6", p.netdev, "disable_ipv6"); p.number(at) != 0 {
		out = append(out, bad(Fail, fmt.Sprintf("%s is on: there is no IPv6 on %s", dotted(at), p.netdev), set(at, 0)))
	}
	at := conf("ipv6", p.netdev, "proxy_ndp")
	if p.number(conf("ipv6", "all", "proxy_ndp")) == 0 && p.number(at) == 0 {
		return append(out, bad(Fail, dotted(at)+" is off: nodes that ask for RoCE hosts by IPv6 get no answer", set(at, 1)))
	}
	return append(out, ok("%s is on", dotted(at)))
}

// checkEntries wants a proxy entry for each RoCE host with an IPv6 address: ND has no other way.
func (p *patient) checkEntries() []Finding {
	hosts := p.hosts(roceHosts, true)
	if len(p.hosts(nodes, true)) == 0 || len(hosts) == 0 {
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

// checkRoCESide wants the kernel not to answer on Ethernet: there the bridge does, for nodes that are there and no others.
func (p *patient) checkRoCESide() []Finding {
	if p.roce == "" {
		return []Finding{ok("the kernel has no interface on the RoCE side")}
	}
	all, own := conf("ipv4", "all", "proxy_arp"), conf("ipv4", p.roce, "proxy_arp")
	if p.number(all) == 0 && p.number(own) == 0 {
		return []Finding{ok("the kernel answers for nobody on %s", p.roce)}
	}
	return []Finding{bad(Warn, fmt.Sprintf("the kernel answers for nodes on %s, too, whether they are there or not: the bridge does that", p.roce),
		set(conf("ipv4", p.netdev, "proxy_arp"), 1), set(all, 0), set(own, 0))}
}

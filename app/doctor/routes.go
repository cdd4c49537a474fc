// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"net/netip"
	"slices"
)

// Which way the kernel would send. The same subnet lies on both sides, by the addresses that InfiniBand knows, so each node needs
// a route of its own by the InfiniBand interface, and the rest of the subnet lies behind another one.

// dummy is the interface that RoCE hosts are routed to where the kernel has none on their side, or where nobody on that side has
// such an address. What is sent there vanishes; proxy ARP wants no more than that it is another one.
const dummy = "causeway0"

// unrouted counts the nodes that are not routed by the interface.
func (p *patient) unrouted() int {
	n := 0
	for _, v6 := range []bool{false, true} {
		for _, a := range p.hosts(nodes, v6) {
			if !p.isByNetdev(a) {
				n++
			}
		}
	}
	return n
}

func (p *patient) isByNetdev(a netip.Addr) bool {
	r, err := p.kernel.Route(a)
	return err == nil && r.Unicast && r.Dev == p.netdev
}

// checkNodeRoutes wants nodes to be routed by the interface: rdma_cm looks for it (drivers/infiniband/core/cma.c,
// validate_net_dev), and so does a strict rp_filter.
func (p *patient) checkNodeRoutes() []Finding {
	var fix []string
	all := slices.Concat(p.hosts(nodes, false), p.hosts(nodes, true))
	for _, a := range all {
		if !p.isByNetdev(a) {
			fix = append(fix, fmt.Sprintf("%s route replace %s/%d dev %s", ipCommand(a), a, a.BitLen(), p.netdev))
		}
	}
	if len(fix) > 0 {
		return []Finding{bad(Fail, fmt.Sprintf("%d of %d nodes' addresses are not routed by %s: rdma_cm refuses what comes from them",
			len(fix), len(all), p.netdev), fix...)}
	}
	return []Finding{ok("all %d nodes' addresses are routed by %s", len(all), p.netdev)}
}

func ipCommand(a netip.Addr) string {
	if a.Is6() {
		return "ip -6"
	}
	return "ip"
}

// target is an address on the RoCE side, and what routes to it.
type target struct {
	addr  netip.Addr
	route netip.Prefix
}

// targets returns the RoCE hosts that the configuration knows, and one address of each of the bridge's subnets, for
// those that it does not. IPv4 alone: for ND routes do not matter.
func (p *patient) targets() []target {
	var out []target
	known := slices.Concat(p.hosts(nodes, false), p.hosts(roceHosts, false), p.own(false)) // they may have routes of their own
	for _, n := range p.subnets() {
		a := n.Addr().Next()
		for n.Contains(a) && slices.Contains(known, a) {
			a = a.Next()
		}
		if n.Contains(a) {
			out = append(out, target{a, n})
		}
	}
	for _, a := range p.hosts(roceHosts, false) {
		i := slices.IndexFunc(out, func(t target) bool { return t.route.Contains(a) })
		if i < 0 || p.isBehind(out[i].addr) && !p.isBehind(a) { // else what mends the subnet mends it
			out = append(out, target{a, netip.PrefixFrom(a, a.BitLen())})
		}
	}
	return out
}

// isBehind reports whether the kernel sends to an address by another interface than that of the nodes.
func (p *patient) isBehind(a netip.Addr) bool {
	r, err := p.kernel.Route(a)
	return err == nil && r.Unicast && r.Dev != p.netdev
}

// checkRoCERoutes wants RoCE hosts to be routed by another interface than that of the nodes.
func (p *patient) checkRoCERoutes() []Finding {
	var wrong []string
	var fix []string
	dummies := false
	for _, t := range p.targets() {
		if p.isBehind(t.addr) {
			continue
		}
		dev := p.roce
		if onRoCE, _ := p.cfg.Translations().ToRoCE(t.addr); dev == "" || onRoCE != t.addr {
			dev, dummies = dummy, true
		}
		wrong = append(wrong, t.route.String())
		fix = append(fix, fmt.Sprintf("ip route replace %s dev %s", t.route, dev))
	}
	if len(wrong) == 0 {
		return []Finding{ok("the RoCE side's addresses are routed elsewhere than by %s", p.netdev)}
	}
	if _, err := p.kernel.Link(dummy); dummies && err != nil {
		fix = append([]string{"ip link add " + dummy + " type dummy", "ip link set " + dummy + " up"}, fix...)
	}
	return []Finding{bad(Fail, fmt.Sprintf("not routed by another interface than %s: %v; the kernel does not answer for what lies on the "+
		"asker's side", p.netdev, wrong), fix...)}
}

// checkAnswers asks the routing tables as the kernel does when a node's question comes in.
func (p *patient) checkAnswers() []Finding {
	askers := p.hosts(nodes, false)
	if len(askers) == 0 {
		return []Finding{ok("no node has an IPv4 address: nobody asks by ARP")}
	}
	for _, asker := range askers {
		for _, t := range p.targets() {
			r, err := p.kernel.Forward(asker, t.addr, p.netdev)
			show := fmt.Sprintf("ip route get %s from %s iif %s", t.addr, asker, p.netdev)
			switch {
			case err != nil:
				return []Finding{bad(Fail, fmt.Sprintf("the kernel would not answer %s when it asks for %s: %v; apply the other fixes, and look again",
					asker, t.addr, err), show)}
			case !r.Unicast || r.Dev == p.netdev:
				return []Finding{bad(Fail, fmt.Sprintf("the kernel would not answer %s when it asks for %s: its way there is by %s itself, or ends here; "+
					"apply the other fixes, and look again", asker, t.addr, r.Dev), show)}
			}
		}
	}
	return []Finding{ok("the routing tables let the kernel answer nodes that ask for RoCE hosts")}
}

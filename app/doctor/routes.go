// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"net/netip"
	"slices"

	"causeway/config"
)

// The kernel's routes. The same subnet is on both sides, so each node needs a host route through the InfiniBand
// interface, and the subnet is routed through another one.

// dummy is the interface that RoCE hosts are routed to when the kernel has no interface on their side, or when they
// have other addresses there. It drops packets; proxy ARP only requires another interface than the receiving one.
const dummy = "causeway0"

// unrouted counts the nodes that are not routed through the interface.
func (p *ipoibProbe) unrouted() int {
	n := 0
	for _, v6 := range []bool{false, true} {
		for _, a := range p.members(v6) {
			if !p.isByNetdev(a) {
				n++
			}
		}
	}
	return n
}

func (p *ipoibProbe) isByNetdev(a netip.Addr) bool {
	r, err := p.kernel.Route(a)
	return err == nil && r.Unicast && r.Dev == p.netdev
}

// checkNodeRoutes requires routes to nodes through the interface: rdma_cm checks this (drivers/infiniband/core/cma.c,
// validate_net_dev), and so does a strict rp_filter. A node that is routed by a subnet's route, which checkRoCERoutes
// has replaced, needs one of its own.
func (p *ipoibProbe) checkNodeRoutes() []Finding {
	var fix []string
	all := slices.Concat(p.members(false), p.members(true))
	moved := p.misrouted()
	for _, a := range all {
		moves := slices.ContainsFunc(moved, func(t target) bool { return t.route.Contains(a) })
		if !p.isByNetdev(a) || moves {
			fix = append(fix, fmt.Sprintf("%s route replace %s/%d dev %s", ipCommand(a), a, a.BitLen(), p.netdev))
		}
	}
	if len(fix) > 0 {
		return []Finding{bad(Fail, fmt.Sprintf("%d of %d nodes' addresses have no route of their own by %s: rdma_cm rejects their requests",
			len(fix), len(all), p.netdev), fix...)}
	}
	return []Finding{ok("all %d nodes' addresses are routed by %s", len(all), p.netdev)}
}

// misrouted returns the targets that are not routed by another interface than that of the nodes. Where the bridges of a fleet
// answer ARP, that does not matter.
func (p *ipoibProbe) misrouted() []target {
	if p.bridgesAnswer() {
		return nil
	}
	return slices.DeleteFunc(p.targets(), func(t target) bool { return p.isBehind(t.addr) })
}

func ipCommand(a netip.Addr) string {
	if a.Is6() {
		return "ip -6"
	}
	return "ip"
}

// target is an address on the RoCE side, and the prefix to route.
type target struct {
	addr  netip.Addr
	route netip.Prefix
}

// unknown returns an address of a subnet, from one on, that the configuration does not have, because known ones may
// have routes of their own; the zero Addr when there is none.
func unknown(c *config.Config, n netip.Prefix, a netip.Addr) netip.Addr {
	v6 := n.Addr().Is6()
	known := slices.Concat(hostsOn(c, nodes, v6), hostsOn(c, roceHosts, v6), bridgeAddrs(c, v6))
	for n.Contains(a) && slices.Contains(known, a) {
		a = a.Next()
	}
	if !n.Contains(a) {
		return netip.Addr{}
	}
	return a
}

// targets returns the configured RoCE hosts, and one address of each of the bridge's subnets for all others, unless
// those may be learned nodes'. IPv4 only: for ND, routes do not matter.
func (p *ipoibProbe) targets() []target {
	var out []target
	for _, n := range roceSubnets(p.cfg) {
		if a := unknown(p.cfg, n, n.Masked().Addr().Next()); a.IsValid() && !p.cfg.IB.Learn {
			out = append(out, target{a, n})
		}
	}
	for _, a := range hostsOn(p.cfg, roceHosts, false) {
		i := slices.IndexFunc(out, func(t target) bool { return t.route.Contains(a) })
		if i < 0 || p.isBehind(out[i].addr) && !p.isBehind(a) { // otherwise the subnet's fix is enough
			out = append(out, target{a, netip.PrefixFrom(a, a.BitLen())})
		}
	}
	return out
}

// isBehind reports whether the route to an address is through another interface than that of the nodes.
func (p *ipoibProbe) isBehind(a netip.Addr) bool {
	r, err := p.kernel.Route(a)
	return err == nil && r.Unicast && r.Dev != p.netdev
}

// checkRoCERoutes requires routes to RoCE hosts through another interface than that of the nodes.
func (p *ipoibProbe) checkRoCERoutes() []Finding {
	if p.bridgesAnswer() {
		return nil
	}
	var wrong []string
	var fix []string
	dummies := false
	for _, t := range p.misrouted() {
		dev := p.ports.roce
		if dev == "" || isTranslated(p.cfg, t.addr) {
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
	return []Finding{bad(Fail, fmt.Sprintf("not routed by another interface than %s: %v; the kernel does not answer for addresses on the "+
		"requester's side", p.netdev, wrong), fix...)}
}

// checkAnswers makes the route look-ups that the kernel makes for a node's ARP request.
func (p *ipoibProbe) checkAnswers() []Finding {
	if p.bridgesAnswer() {
		return nil
	}
	askers := p.members(false)
	for _, s := range p.mayLearn(false) {
		askers = append(askers, s.unknown(p.cfg))
	}
	if len(askers) == 0 {
		return []Finding{ok("no node has an IPv4 address: there are no ARP requests")}
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

// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"causeway/config"
)

// A learnProbe checks what [ib] nodes = "learn" needs of an IPoIB interface, if it is the one that nodes are learned
// from: the kernel asks there who has an address, and keeps the answers.
type learnProbe struct{ *ipoibProbe }

// learns reports whether nodes are learned from the interface.
func (p *ipoibProbe) learns() bool {
	if !p.cfg.IB.Learn {
		return false
	}
	if p.cfg.IB.IPoIB != "" {
		return p.netdev == p.cfg.IB.IPoIB
	}
	return number(p.pkey) == number(p.cfg.IB.PKey)
}

// unlearned is the end of a finding about an interface without which no node is learned.
func (p *ipoibProbe) unlearned() string {
	if p.learns() {
		return ": no node is learned"
	}
	return ""
}

// checkInterface requires the interface that [ib] ipoib names to be one of the port's, in a partition of the
// configuration.
func (p learnProbe) checkInterface() []Finding {
	name := p.cfg.IB.IPoIB
	if !p.cfg.IB.Learn || name == "" || p.ports.ib == nil || name == p.netdev {
		return nil
	}
	var all []string
	for _, i := range p.interfaces(p.ports.ib) {
		if i.name != name {
			all = append(all, i.name)
			continue
		}
		if slices.ContainsFunc(ipPartitions(p.cfg), func(u pkeyUser) bool { return number(u.pkey) == number(i.pkey) }) {
			return nil // the checks of that partition look at it
		}
		return []Finding{bad(Fail, fmt.Sprintf("[ib] ipoib %s is in the partition %v, which nothing in the configuration has: messages "+
			"to nodes that are learned there go by %v", name, i.pkey, p.cfg.IB.PKey), fmt.Sprintf("# write pkey = %v under [ib]", i.pkey))}
	}
	return []Finding{bad(Fail, fmt.Sprintf("[ib] ipoib %s is no IPoIB interface of %s, which has %s: no node is learned", name,
		p.ports.ib.Name(), orNone(strings.Join(all, ", "))), "# name one of these as [ib] ipoib, or write none")}
}

// A learnSubnet is a part of [roce] addresses, as InfiniBand has it, in which nodes may be learned.
type learnSubnet struct {
	netip.Prefix
	own netip.Addr // the bridge's address, as InfiniBand has it; it may be in another part
}

func learnSubnets(c *config.Config) (list []learnSubnet) {
	for _, n := range c.RoCE.Addresses {
		if !slices.ContainsFunc(c.AllowedIn(&c.RoCE), n.Overlaps) {
			continue
		}
		own, _ := c.TranslationsIn(&c.RoCE).ToIB(n.Addr())
		there, _ := c.TranslationsIn(&c.RoCE).PrefixToIB(n)
		for _, part := range there {
			list = append(list, learnSubnet{part, own})
		}
	}
	return list
}

// unknown returns an address that the configuration does not have, from the middle on: the first ones often have routes
// of their own.
func (s learnSubnet) unknown(c *config.Config) netip.Addr {
	a := s.Masked().Addr().AsSlice()
	if n := s.Bits(); n < s.Addr().BitLen() {
		a[n/8] |= 0x80 >> (n % 8)
	}
	middle, _ := netip.AddrFromSlice(a)
	return unknown(c, s.Prefix, middle)
}

// mayLearn returns those of one IP version, where the probe's interface is the one that nodes are learned from.
func (p *ipoibProbe) mayLearn(v6 bool) []learnSubnet {
	if !p.learns() {
		return nil
	}
	return slices.DeleteFunc(learnSubnets(p.cfg), func(s learnSubnet) bool { return s.Addr().Is6() != v6 })
}

// checkSubnets requires an address of the interface in each subnet that nodes are learned in: the kernel asks from it,
// and the bridge asks for addresses of the interface's subnets alone.
func (p learnProbe) checkSubnets() []Finding {
	if !p.learns() {
		return nil
	}
	have, err := p.kernel.Addresses(p.netdev)
	if err != nil {
		return []Finding{bad(Fail, err.Error(), "ip address show dev "+p.netdev)}
	}
	var out []Finding
	for _, s := range learnSubnets(p.cfg) {
		covers := func(n netip.Prefix) bool { return !n.IsSingleIP() && n.Overlaps(s.Prefix) }
		if slices.ContainsFunc(have, covers) {
			out = append(out, ok("%s has an address in %v, where nodes are learned", p.netdev, s.Prefix))
			continue
		}
		out = append(out, bad(Fail, fmt.Sprintf("%s has no address with the subnet %v: no node there is learned", p.netdev, s.Prefix),
			s.give(p.netdev, have)...))
	}
	return out
}

// give returns the commands that give an interface an address in the subnet: the bridge's, if that is in it.
func (s learnSubnet) give(netdev string, have []netip.Prefix) (fix []string) {
	if !s.Contains(s.own) {
		return []string{fmt.Sprintf("# ip address add ADDRESS/%d dev %s # one that is free, of %v", s.Bits(), netdev, s.Prefix)}
	}
	if single := netip.PrefixFrom(s.own, s.own.BitLen()); slices.Contains(have, single) { // IPv6 has each address once
		fix = append(fix, fmt.Sprintf("ip address del %v dev %s", single, netdev))
	}
	return append(fix, fmt.Sprintf("ip address add %s/%d dev %s", s.own, s.Bits(), netdev))
}

// checkSubnetRoutes requires the subnets of learned nodes to be routed by the interface: rdma_cm rejects requests of
// nodes that are routed elsewhere, and with proxy_arp the kernel would answer nodes that ask for each other.
func (p learnProbe) checkSubnetRoutes() []Finding {
	if !p.learns() {
		return nil
	}
	var fix, wrong []string
	for _, s := range learnSubnets(p.cfg) {
		if a := s.unknown(p.cfg); a.IsValid() && !p.isByNetdev(a) {
			wrong = append(wrong, s.String())
			fix = append(fix, fmt.Sprintf("%s route replace %v dev %s", ipCommand(a), s.Masked(), p.netdev))
			fix = append(fix, p.keepHosts(s)...)
		}
	}
	if len(wrong) == 0 {
		return []Finding{ok("learned nodes' addresses are routed by %s", p.netdev)}
	}
	return []Finding{bad(Fail, fmt.Sprintf("not routed by %s: %v; rdma_cm rejects requests of learned nodes, and the kernel answers for them",
		p.netdev, wrong), fix...)}
}

// keepHosts returns the commands that keep the routes to RoCE hosts, which may have been the subnet's.
func (p learnProbe) keepHosts(s learnSubnet) (fix []string) {
	for _, a := range hostsOn(p.cfg, roceHosts, s.Addr().Is6()) {
		if p.ports.roce != "" && !isTranslated(p.cfg, a) && s.Contains(a) {
			fix = append(fix, fmt.Sprintf("%s route replace %v/%d dev %s", ipCommand(a), a, a.BitLen(), p.ports.roce))
		}
	}
	return fix
}

// checkHosts tells that without the subnet's route the kernel answers for configured RoCE hosts alone.
func (p learnProbe) checkHosts() []Finding {
	switch {
	case !p.learns():
		return nil
	case len(hostsOn(p.cfg, roceHosts, false))+len(hostsOn(p.cfg, roceHosts, true)) == 0:
		return []Finding{hint(`with nodes = "learn" the kernel answers nodes that ask for RoCE hosts with a [[host]]; there is none`,
			`# write a [[host]] with side = "roce" for each RoCE host that nodes resolve by ARP or ND`)}
	}
	return []Finding{ok("nodes can resolve the RoCE hosts that have a [[host]]")}
}

// checkNeighbours requires room for as many neighbours as nodes may be known: the kernel soon removes what is beyond
// gc_thresh2, and has nothing beyond gc_thresh3 (Linux net/core/neighbour.c, neigh_alloc). Both count for all
// interfaces together.
func (p learnProbe) checkNeighbours() (out []Finding) {
	for _, v6 := range []bool{false, true} {
		if len(p.mayLearn(v6)) > 0 {
			out = append(out, neighbours(p.kernel, ipName(v6), p.cfg.Workers.Nodes))
		}
	}
	return out
}

// neighbours checks the kernel's room for neighbours of one IP version.
func neighbours(k Kernel, version string, want int) Finding {
	at := path.Join("net", strings.ToLower(version), "neigh/default")
	soft, hard := path.Join(at, "gc_thresh2"), path.Join(at, "gc_thresh3")
	few, most := sysctl(k, soft), sysctl(k, hard)
	var fix []string
	if most < want {
		fix = append(fix, set(hard, 2*want)) // before the other, which must not be larger
	}
	if few < want {
		fix = append(fix, set(soft, want))
	}
	switch {
	case k.Sysctl(soft) == "":
		return ok("not checked: %s is not in this network namespace", dotted(soft))
	case len(fix) == 0:
		return ok("the kernel keeps %d %s neighbours", few, version)
	}
	return bad(Warn, fmt.Sprintf("the kernel keeps %d %s neighbours, and %d for some seconds, but [workers] nodes is %d: of more learned "+
		"nodes it loses who they are", few, version, most, want), fix...)
}

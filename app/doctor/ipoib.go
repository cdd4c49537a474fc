// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"net/netip"
	"slices"

	"causeway/config"
)

const ipoibHeader = 4 // bytes before the IP packet (RFC 4391 §6)

// An ipoibProbe checks the IPoIB interface of a partition, where nodes send ARP and ND requests: the interface itself,
// the kernel's settings for it (proxy.go), and the routes by it (routes.go).
type ipoibProbe struct {
	pkeyUser      // whose partition it is
	first    bool // it also makes the checks that do not depend on the partition
	cfg      *config.Config
	sys      tree
	kernel   Kernel
	ports    *ports
	netdev   string // the interface; "" until findNetdev finds it
}

// newIPoIBProbes makes a probe for each partition that IP is in. s.Netdev is the interface of the first.
func newIPoIBProbes(c *config.Config, s Sources, ports *ports) (list []*ipoibProbe) {
	for i, u := range ipPartitions(c) {
		p := &ipoibProbe{pkeyUser: u, first: i == 0, cfg: c, sys: tree{s.Sys}, kernel: s.Kernel, ports: ports}
		if p.first {
			p.netdev = s.Netdev
		} else if ports.ib == nil || ports.ib.LinkLayer == Ethernet {
			break // without IPoIB there is one interface
		}
		list = append(list, p)
	}
	return list
}

// checks check how InfiniBand nodes resolve RoCE hosts: the kernel answers ARP and ND requests on the IPoIB interface
// (proxy ARP), under many conditions. Of a partition without nodes only the MTU of its groups matters.
func (p *ipoibProbe) checks() []check {
	if !p.nodes {
		return []check{{"interface", p.findNetdev, true}, {"mtu", p.checkMTU, false}}
	}
	all, learn := []check{{"interface", p.findNetdev, true}}, learnProbe{p}
	if p.first {
		all = append(all, check{"learn_interface", learn.checkInterface, false})
	}
	all = append(all, check{"link", p.checkLink, true}, check{"mtu", p.checkMTU, false})
	if p.first {
		all = append(all, check{"gid", p.checkGID, false})
	}
	all = append(all, []check{
		{"address", p.checkAddresses, false},
		{"learn_address", learn.checkSubnets, false},
		{"forwarding", p.checkForwarding, false},
		{"proxy_arp", p.checkProxyARP, false},
		{"medium_id", p.checkMedium, false},
		{"proxy_delay", p.checkDelay, false},
		{"rp_filter", p.checkReversePath, false},
		{"arp_ignore", p.checkIgnore, false},
		{"arp_announce", p.checkAnnounce, false},
		{"proxy_ndp", p.checkProxyND, false},
		{"nd_entries", p.checkEntries, false},
		{"node_routes", p.checkNodeRoutes, false},
		{"learn_routes", learn.checkSubnetRoutes, false},
		{"roce_routes", p.checkRoCERoutes, false},
		{"learn_hosts", learn.checkHosts, false},
		{"neighbours", learn.checkNeighbours, false},
	}...)
	if p.first {
		plain := plainProbe{p}
		all = append(all, check{"roce_side", p.checkRoCESide, false}, check{"plain_ipv4", plain.checkPlainIPv4, false},
			check{"plain_ipv6", plain.checkPlainIPv6, false}, check{"plain_roce", plain.checkCopies, false})
	}
	return append(all, check{"answers", p.checkAnswers, false})
}

func (p *ipoibProbe) checkLink() []Finding {
	l, err := p.kernel.Link(p.netdev)
	up := "ip link set " + p.netdev + " up"
	switch {
	case err != nil:
		return []Finding{bad(Fail, fmt.Sprintf("there is no interface %s: %v", p.netdev, err), "causeway devices # lists the existing ones")}
	case !l.Up:
		return []Finding{bad(Fail, p.netdev+" is down"+p.unlearned(), up)}
	case !l.Carrier:
		return []Finding{bad(Fail, p.netdev+" has no carrier: it has not joined its broadcast group yet, or the subnet manager does not let it"+
			p.unlearned(), up, "sminfo # is there a subnet manager?")}
	}
	return []Finding{ok("%s is up", p.netdev)}
}

// checkMTU compares with the largest message that the configuration lets cross: the broadcast group's MTU, which is the
// interface's and a header in datagram mode, is also what the partition's groups get by default.
func (p *ipoibProbe) checkMTU() []Finding {
	l, err := p.kernel.Link(p.netdev)
	port, want := p.ports.ib, p.cfg.RoCE.IBMTU.Bytes()
	mode := p.sys.text(classNet, p.netdev, "mode")
	if err == nil && !l.Carrier {
		return []Finding{ok("not checked: %s has no carrier", p.netdev)}
	}
	if err != nil || port == nil || port.LinkLayer == Ethernet || mode == "connected" || l.MTU+ipoibHeader >= want {
		return []Finding{ok("%s has MTU %d", p.netdev, l.MTU)}
	}
	return []Finding{bad(Warn, fmt.Sprintf("%s has MTU %d, so the groups of %v carry %d bytes, but [roce] mtu %d lets %d cross",
		p.netdev, l.MTU, p.pkey, l.MTU+ipoibHeader, p.cfg.RoCE.MTU, want),
		fmt.Sprintf("ip link set %s mtu %d # needs mtu=5 of the partition at the subnet manager; or write mtu = %d under [roce]",
			p.netdev, want-ipoibHeader, l.MTU+ipoibHeader+roceHeaders))}
}

func (p *ipoibProbe) checkGID() []Finding {
	port := p.ports.ib
	if port == nil { // the interface was named
		return []Finding{ok("not checked: the port %v is not here", p.cfg.IB.Port)}
	}
	want := p.cfg.IB.GID
	gid, has := port.hasGID(want)
	switch {
	case has:
		return []Finding{ok("%s has %s", port.Name(), gid)}
	case want.IsZero():
		return []Finding{bad(Fail, port.Name()+" has no GID", "sminfo # is there a subnet manager?")}
	}
	return []Finding{bad(Fail, fmt.Sprintf("%s does not have the GID %v of [ib] gid", port.Name(), want),
		"causeway devices # lists the port's GIDs: write one of them as [ib] gid")}
}

// checkAddresses requires an address of each IP version that nodes have: rdma_cm connects from it. Where nodes are
// learned, learnProbe.checkSubnets requires more.
func (p *ipoibProbe) checkAddresses() []Finding {
	have, err := p.kernel.Addresses(p.netdev)
	if err != nil {
		return []Finding{bad(Fail, err.Error(), "ip address show dev "+p.netdev)}
	}
	var out []Finding
	for _, v6 := range []bool{false, true} {
		if !p.hasNodes(v6) || len(p.mayLearn(v6)) > 0 {
			continue
		}
		fits := func(n netip.Prefix) bool { return n.Addr().Is6() == v6 && !n.Addr().IsLinkLocalUnicast() }
		own := bridgeAddrs(p.cfg, v6)
		switch i := slices.IndexFunc(have, fits); {
		case i >= 0:
			out = append(out, ok("%s has %v", p.netdev, have[i]))
		case len(own) == 0:
			out = append(out, bad(Warn, fmt.Sprintf("%s has no %s address, nor has the bridge, but nodes do", p.netdev, ipName(v6)),
				fmt.Sprintf("ip address add ADDRESS dev %s # one that is free", p.netdev)))
		default:
			a := own[0]
			out = append(out, bad(Fail, fmt.Sprintf("%s has no %s address: the bridge cannot connect to nodes", p.netdev, ipName(v6)),
				fmt.Sprintf("ip address add %s/%d dev %s", a, a.BitLen(), p.netdev)))
		}
	}
	return out
}

func ipName(v6 bool) string {
	if v6 {
		return "IPv6"
	}
	return "IPv4"
}

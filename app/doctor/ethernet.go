// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"causeway/config"
	"causeway/ibside/ib"
)

// An ethernetProbe checks the Ethernet side: its interface's MTU, losses, and conflicts with the kernel.
type ethernetProbe struct {
	cfg     *config.Config
	sys     tree
	kernel  Kernel
	process Process
	ports   *ports
}

func newEthernetProbe(c *config.Config, s Sources, ports *ports) *ethernetProbe {
	return &ethernetProbe{cfg: c, sys: tree{s.Sys}, kernel: s.Kernel, process: s.Process, ports: ports}
}

// checkRoCEMTU requires an interface MTU of at least the mtu of each segment, and gives a hint if not every IB MTU fits.
func (p *ethernetProbe) checkRoCEMTU() (out []Finding) {
	port, e := p.cfg.RoCE.Port, p.ports.lower
	if port.Driver == "bond" {
		e = nil // checkBond has its members
	}
	if port.Driver == "af_packet" && e == nil {
		return []Finding{bad(Fail, "there is no interface "+port.Arg+" here", "causeway devices # lists the existing ones")}
	}
	for _, r := range p.cfg.Segments() {
		out = append(out, p.checkSegmentMTU(&r, e))
	}
	return out
}

func (p *ethernetProbe) checkSegmentMTU(r *config.RoCE, e *EthPort) Finding {
	name := roceOf(p.cfg, r)
	if e != nil && r.Port.Driver == "af_packet" && e.MTU < r.MTU {
		return bad(Fail, fmt.Sprintf("%s has MTU %d, %s mtu is %d: the bridge does not start", e.Netdev, e.MTU, name, r.MTU),
			fmt.Sprintf("ip link set %s mtu %d", e.Netdev, r.MTU))
	}
	least := ib.MTU4096.Bytes() + roceHeaders
	if carries := r.IBMTU.Bytes(); carries < ib.MTU4096.Bytes() && r.Port.Kind() != "tap" { // a tap's MTU cannot be larger
		fix := []string{fmt.Sprintf("# write mtu = %d or more under %s, and see that the switches carry it", least, name)}
		if e != nil && e.Netdev != "" && e.MTU < least {
			fix = append(fix, fmt.Sprintf("ip link set %s mtu %d", e.Netdev, least))
		}
		return hint(fmt.Sprintf("%s mtu %d carries messages of %d bytes; larger ones, which InfiniBand may carry, are dropped", name, r.MTU, carries), fix...)
	}
	return ok("%s mtu %d carries messages of %d bytes", name, r.MTU, r.IBMTU.Bytes())
}

// roceOf names a segment's table: "[roce]", or one of several.
func roceOf(c *config.Config, r *config.RoCE) string {
	if len(c.More) == 0 && r.Label() == "" {
		return "[roce]"
	}
	return "[[roce]] " + r.Name()
}

// widest returns the segment with the largest messages.
func widest(c *config.Config) config.RoCE {
	return slices.MaxFunc(c.Segments(), func(a, b config.RoCE) int { return cmp.Compare(a.MTU, b.MTU) })
}

// checkIBMTU compares with the MTU of an RDMA port on Ethernet. That of InfiniBand is not in sysfs; checkSA queries it.
func (p *ethernetProbe) checkIBMTU() []Finding {
	most := widest(p.cfg)
	port, want := p.ports.ib, most.IBMTU.Bytes()
	if port == nil || port.ActiveMTU == 0 {
		return nil
	}
	if port.ActiveMTU >= want {
		return fine("%s carries %d", port.Name(), port.ActiveMTU)
	}
	return []Finding{bad(Fail, fmt.Sprintf("%s carries messages of %d bytes, %s mtu %d lets %d cross: the bridge does not "+
		"start", port.Name(), port.ActiveMTU, roceOf(p.cfg, &most),
		most.MTU, want), fmt.Sprintf("ip link set %s mtu %d # or write mtu = %d under %s", port.Netdev, want+roceHeaders,
		port.ActiveMTU+roceHeaders, roceOf(p.cfg, &most)))}
}

// checkPFC looks for priorities with flow control. UD does not retransmit lost messages.
func (p *ethernetProbe) checkPFC() []Finding {
	e := p.ports.lower
	if e == nil || e.Netdev == "" || e.PCI == "" { // a software interface has no link
		return nil
	}
	show := fmt.Sprintf("# look: dcb pfc show dev %s, or mlnx_qos -i %[1]s", e.Netdev)
	pfc, err := p.process.PFC(e.Netdev)
	switch {
	case err != nil:
		return []Finding{hint(fmt.Sprintf("whether %s has priority flow control cannot be read: %v", e.Netdev, err), show)}
	case pfc == 0:
		return []Finding{hint(e.Netdev+" pauses no priority: a burst that outruns a switch or a card is lost, and UD does not repeat it",
			fmt.Sprintf("dcb pfc set dev %s prio-pfc 3:on # as the switches have it", e.Netdev),
			"# on each RoCE host, so that it sends by that priority (DSCP 24 to 31): cma_roce_tos -d DEVICE -t 104")}
	}
	var list []int
	for i := range 8 {
		if pfc>>i&1 == 1 {
			list = append(list, i)
		}
	}
	return fine("%s pauses priority %s; RoCE hosts must send by it", e.Netdev, cpuList(list))
}

// checkECN checks whether a ConnectX reacts to ECN marks (Linux mlx5, sysfs ecn). This concerns the card's own RoCE
// connections, not the bridge's UD.
func (p *ethernetProbe) checkECN() []Finding {
	e := p.ports.lower
	if e == nil || e.Netdev == "" {
		return nil
	}
	var off []string
	files := append(p.sys.glob(path.Join(classNet, e.Netdev, "ecn/roce_np/enable/*")), p.sys.glob(path.Join(classNet,
		e.Netdev, "ecn/roce_rp/enable/*"))...)
	for _, file := range files {
		if p.sys.text(file) == "0" {
			off = append(off, "echo 1 > /sys/"+file)
		}
	}
	switch {
	case len(files) == 0:
		return nil
	case len(off) > 0:
		return []Finding{hint(fmt.Sprintf("%s ignores marks of congestion (ECN) on %d of %d priorities and ways; RoCE hosts want it "+
			"for their connections",
			e.Netdev, len(off), len(files)), off...)}
	}
	return fine("%s answers marks of congestion", e.Netdev)
}

// checkRoCEUp requires the interface to be up.
func (p *ethernetProbe) checkRoCEUp() []Finding {
	e := p.ports.lower
	switch {
	case e == nil || e.Netdev == "" || p.cfg.RoCE.Port.Driver == "bond":
		return nil
	case e.Link == "down":
		return []Finding{bad(Fail, e.Netdev+" is down", "ip link set "+e.Netdev+" up")}
	case e.Link != "up":
		return []Finding{bad(Fail, fmt.Sprintf("%s has %s", e.Netdev, e.Link), "# check the cable and the switch's port; ethtool "+e.Netdev)}
	}
	return fine("%s is up", e.Netdev)
}

// checkKernelRoCE looks for other users of UDP port 4791 on the bridge's interface.
func (p *ethernetProbe) checkKernelRoCE() []Finding {
	e := p.ports.lower
	if e == nil {
		return nil
	}
	for i := range p.ports.machine.RDMA {
		r := &p.ports.machine.RDMA[i]
		switch {
		case r.PCI == "" && r.Netdev == e.Netdev && e.Netdev != "" && r.Device == p.cfg.IB.Port.Device:
			return []Finding{bad(Fail, fmt.Sprintf("%s lies on %s: both sides of the bridge are one interface", r.Device, e.Netdev), "# "+
				"name another port in [ib] or [roce]")}
		case r.PCI == "" && r.Netdev == e.Netdev && e.Netdev != "":
			return []Finding{bad(Warn, fmt.Sprintf("the kernel's %s takes RoCE (UDP port 4791) on %s, too", r.Device, e.Netdev), "rdma "+
				"link delete "+r.Device)}
		case p.cfg.RoCE.Port.Driver == "mlx5" && r.PCI == e.PCI && slices.ContainsFunc(r.GIDs,
			func(g GID) bool { return strings.Contains(g.Type, "RoCE") }):
			return []Finding{bad(Warn, fmt.Sprintf("RoCE is enabled in the card %s, which then may keep it from the bridge", e.PCI),
				fmt.Sprintf("devlink dev param set pci/%s name enable_roce value false cmode driverinit && devlink dev reload pci/%[1]s", e.PCI))}
		}
	}
	return fine("the kernel takes no RoCE on %s", cmp.Or(e.Netdev, e.PCI))
}

// checkOwnAddress requires the kernel not to have the bridge's addresses on that side, because it would answer for
// them, too.
func (p *ethernetProbe) checkOwnAddress() []Finding {
	level, effect := Fail, "with a shared port, the bridge receives no packets for it"
	if p.cfg.RoCE.Port.Kind() == "af_packet" {
		level, effect = Warn, "both answer ARP for it, and the kernel sends ICMP errors for RoCE"
	}
	var out []Finding
	for _, r := range p.cfg.Segments() {
		netdev := p.ports.netdevOf(p.kernel, &r)
		have, err := p.kernel.Addresses(netdev)
		if netdev == "" || err != nil {
			continue
		}
		mine := len(out)
		for _, n := range r.Addresses {
			if i := slices.IndexFunc(have, func(h netip.Prefix) bool { return h.Addr() == n.Addr() }); i >= 0 {
				out = append(out, bad(level, fmt.Sprintf("%v is the bridge's, but %s has it in the kernel: %s", n.Addr(), netdev, effect),
					fmt.Sprintf("ip address del %v dev %s", have[i], netdev)))
			}
		}
		if len(out) == mine {
			out = append(out, ok("%s has none of the bridge's addresses", netdev))
		}
	}
	return out
}

// checkTwoPorts looks for several of the machine's interfaces in one subnet of RoCE: the kernel answers ARP for the addresses of each by all,
// and a bridge has a host where its data come from.
func (p *ethernetProbe) checkTwoPorts() (out []Finding) {
	var subnets []netip.Prefix
	for _, r := range p.cfg.Segments() {
		for _, n := range r.Addresses {
			if n.Addr().Is4() {
				subnets = append(subnets, n.Masked())
			}
		}
	}
	for _, subnet := range unique(subnets) {
		var in []string
		ignore, announce := 1, 2
		for _, e := range p.ports.machine.Ethernet {
			have, _ := p.kernel.Addresses(e.Netdev)
			if e.Type == arphrdEther && slices.ContainsFunc(have, func(h netip.Prefix) bool { return subnet.Contains(h.Addr()) }) {
				in = append(in, e.Netdev)
				ignore = min(ignore, effective(p.kernel, e.Netdev, "arp_ignore"))
				announce = min(announce, effective(p.kernel, e.Netdev, "arp_announce"))
			}
		}
		if len(in) > 1 && (ignore < 1 || announce < 2) {
			out = append(out, bad(Warn, fmt.Sprintf("%s are in %v: each answers for the addresses of all, so that bridges take them for one host's, and drop what comes by another (src_refused)",
				strings.Join(in, ", "), subnet), set(conf("ipv4", "all", "arp_ignore"), 1), set(conf("ipv4", "all", "arp_announce"), 2)))
		}
	}
	return out
}

// checkFirewall checks for iptables on Linux bridges, which may have the tap as a port.
func (p *ethernetProbe) checkFirewall() []Finding {
	const at = "net/bridge/bridge-nf-call-iptables"
	if p.cfg.RoCE.Port.Kind() != "tap" || sysctl(p.kernel, at) == 0 {
		return nil
	}
	return []Finding{hint(dotted(at)+" is on: what crosses a Linux bridge that the tap is in passes iptables, which may drop it",
		set(at, 0))}
}

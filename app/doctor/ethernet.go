// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"causeway/app/devices"
	"causeway/ibside/ib"
)

// The Ethernet side: what its interface carries, loses, and shares with the kernel.

// roceHeaders are, of an interface's MTU, what the kernel's RoCE sets aside.
const roceHeaders = 80

// lower returns the interface of the Ethernet port without its VLAN; "" where the kernel has none.
func (p *patient) lower() *devices.EthPort {
	name := ""
	switch r := p.cfg.RoCE.Port; r.Driver {
	case "af_packet":
		name = r.Arg
	case "tap":
		_, name, _ = strings.Cut(r.Arg, ",remote=")
	case "mlx5":
		return p.card()
	}
	for i := range p.machine.Ethernet {
		if e := &p.machine.Ethernet[i]; name != "" && e.Netdev == name {
			return e
		}
	}
	return nil
}

// checkRoCEMTU wants the interface to carry what the configuration says, and remarks on what does not cross.
func (p *patient) checkRoCEMTU() []Finding {
	r, e := &p.cfg.RoCE, p.lower()
	if r.Port.Driver == "af_packet" && e == nil {
		return []Finding{bad(Fail, "there is no interface "+r.Port.Arg+" here", "causeway devices # lists those that there are")}
	}
	if e != nil && r.Port.Driver == "af_packet" && e.MTU < r.MTU {
		return []Finding{bad(Fail, fmt.Sprintf("%s has MTU %d, [roce] mtu is %d: the bridge does not start", e.Netdev, e.MTU, r.MTU),
			fmt.Sprintf("ip link set %s mtu %d", e.Netdev, r.MTU))}
	}
	least := ib.MTU4096.Bytes() + roceHeaders
	if carries := r.IBMTU.Bytes(); carries < ib.MTU4096.Bytes() && r.Port.Driver != "tap" { // of which there is none larger
		fix := []string{fmt.Sprintf("# write mtu = %d or more under [roce], and see that the switches carry it", least)}
		if e != nil && e.Netdev != "" && e.MTU < least {
			fix = append(fix, fmt.Sprintf("ip link set %s mtu %d", e.Netdev, least))
		}
		return []Finding{hint(fmt.Sprintf("[roce] mtu %d carries messages of %d bytes; larger ones, which InfiniBand may carry, are "+
			"dropped", r.MTU, carries), fix...)}
	}
	return fine("[roce] mtu %d carries messages of %d bytes", r.MTU, r.IBMTU.Bytes())
}

// checkIBMTU compares with an InfiniBand door over Ethernet; that of InfiniBand is not in sysfs, and checkSA asks for it.
func (p *patient) checkIBMTU() []Finding {
	port, want := p.port(), p.cfg.RoCE.IBMTU.Bytes()
	if p.cfg.IB.Port.Fabric || port == nil || port.ActiveMTU == 0 {
		return nil
	}
	if port.ActiveMTU >= want {
		return fine("%s carries %d", port.Name(), port.ActiveMTU)
	}
	return []Finding{bad(Fail, fmt.Sprintf("%s carries messages of %d bytes, [roce] mtu %d lets %d cross: the bridge does not "+
		"start", port.Name(), port.ActiveMTU,
		p.cfg.RoCE.MTU, want), fmt.Sprintf("ip link set %s mtu %d # or write mtu = %d under [roce]", port.Netdev, want+roceHeaders,
		port.ActiveMTU+roceHeaders))}
}

// checkPFC looks for priorities that are paused rather than lose frames. Nobody sends a lost UD message again.
func (p *patient) checkPFC() []Finding {
	e := p.lower()
	if e == nil || e.Netdev == "" || e.PCI == "" { // made in software: there is no wire to pause
		return nil
	}
	show := fmt.Sprintf("# look: dcb pfc show dev %s, or mlnx_qos -i %[1]s", e.Netdev)
	pfc, err := p.process.PFC(e.Netdev)
	switch {
	case err != nil:
		return []Finding{hint(fmt.Sprintf("whether %s pauses priorities rather than lose frames cannot be read: %v", e.Netdev, err), show)}
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

// checkECN looks whether a ConnectX answers marks of congestion (Linux mlx5, sysfs ecn). They are for the card's own RoCE: the
// bridge's UD has no rate that could be lowered; the RoCE hosts' connections beside it have.
func (p *patient) checkECN() []Finding {
	e := p.lower()
	if e == nil || e.Netdev == "" {
		return nil
	}
	var off []string
	files := append(names(p.sys, path.Join(classNet, e.Netdev, "ecn/roce_np/enable/*")), names(p.sys, path.Join(classNet,
		e.Netdev, "ecn/roce_rp/enable/*"))...)
	for _, file := range files {
		if p.attr(file) == "0" {
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

// checkRoCEUp wants the interface to carry frames.
func (p *patient) checkRoCEUp() []Finding {
	e := p.lower()
	switch {
	case e == nil || e.Netdev == "":
		return nil
	case e.Link == "down":
		return []Finding{bad(Fail, e.Netdev+" is down", "ip link set "+e.Netdev+" up")}
	case e.Link != "up":
		return []Finding{bad(Fail, fmt.Sprintf("%s has %s", e.Netdev, e.Link), "# check the cable and the switch's port; ethtool "+e.Netdev)}
	}
	return fine("%s is up", e.Netdev)
}

// checkKernelRoCE looks for somebody else who takes RoCE's UDP port 4791 on the bridge's interface.
func (p *patient) checkKernelRoCE() []Finding {
	e := p.lower()
	if e == nil {
		return nil
	}
	for i := range p.machine.RDMA {
		r := &p.machine.RDMA[i]
		switch {
		case r.PCI == "" && r.Netdev == e.Netdev && e.Netdev != "" && r.Device == p.cfg.IB.Port.Device:
			return []Finding{bad(Fail, fmt.Sprintf("%s lies on %s: both sides of the bridge are one interface", r.Device, e.Netdev), "# "+
				"name another port in [ib] or [roce]")}
		case r.PCI == "" && r.Netdev == e.Netdev && e.Netdev != "":
			return []Finding{bad(Warn, fmt.Sprintf("the kernel's %s takes RoCE (UDP port 4791) on %s, too", r.Device, e.Netdev), "rdma "+
				"link delete "+r.Device)}
		case p.cfg.RoCE.Port.Driver == "mlx5" && r.PCI == e.PCI && slices.ContainsFunc(r.GIDs,
			func(g devices.GID) bool { return strings.Contains(g.Type, "RoCE") }):
			return []Finding{bad(Warn, fmt.Sprintf("RoCE is enabled in the card %s, which then may keep it from the bridge", e.PCI),
				fmt.Sprintf("devlink dev param set pci/%s name enable_roce value false cmode driverinit && devlink dev reload pci/%[1]s", e.PCI))}
		}
	}
	return fine("the kernel takes no RoCE on %s", cmp.Or(e.Netdev, e.PCI))
}

// checkOwnAddress wants the bridge's addresses not to be the kernel's on that side: it answers for them, too.
func (p *patient) checkOwnAddress() []Finding {
	if p.roce == "" {
		return nil
	}
	have, err := p.kernel.Addresses(p.roce)
	if err != nil {
		return nil
	}
	level, effect := Fail, "with a port that both share, the bridge hears nothing of what comes to it"
	if p.cfg.RoCE.Port.Driver == "af_packet" {
		level, effect = Warn, "both answer questions for it, and the kernel sends ICMP errors for RoCE"
	}
	var out []Finding
	for _, n := range p.cfg.RoCE.Addresses {
		i := slices.IndexFunc(have, func(h netip.Prefix) bool { return h.Addr() == n.Addr() })
		if i >= 0 {
			out = append(out, bad(level, fmt.Sprintf("%v is the bridge's, but %s has it in the kernel: %s", n.Addr(), p.roce, effect),
				fmt.Sprintf("ip address del %v dev %s", have[i], p.roce)))
		}
	}
	if out == nil {
		return fine("%s has none of the bridge's addresses", p.roce)
	}
	return out
}

// checkFirewall looks at taps in a Linux bridge, whose frames iptables may see.
func (p *patient) checkFirewall() []Finding {
	const at = "net/bridge/bridge-nf-call-iptables"
	if p.cfg.RoCE.Port.Driver != "tap" || p.number(at) == 0 {
		return nil
	}
	return []Finding{hint(dotted(at)+" is on: what crosses a Linux bridge that the tap is in passes iptables, which may drop it",
		set(at, 0))}
}

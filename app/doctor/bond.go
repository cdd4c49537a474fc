// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"causeway/config"
)

// checkBond requires the members of a bond to be fit for it, and says of a ConnectX which bond of the kernel is in force.
func (p *ethernetProbe) checkBond() []Finding {
	r := &p.cfg.RoCE
	mode, members := r.Port.Bond()
	switch {
	case members != nil && r.Port.Kind() == "af_packet":
		return p.checkMembers(mode, members)
	case r.Port.Driver == "mlx5" && p.ports.card != nil:
		return p.checkLAG(p.ports.card)
	case r.Port.Driver == "af_packet":
		return p.checkSlave(r.Port.Arg)
	}
	return nil
}

// kernelBond returns the bond of the kernel's that has an interface, its mode and its members; "": none has.
func (p *ethernetProbe) kernelBond(netdev string) (bond, mode string, slaves []string) {
	master := path.Join(classNet, netdev, "master")
	mode, _, _ = strings.Cut(p.sys.text(master, "bonding/mode"), " ")
	if netdev == "" || mode == "" {
		return "", "", nil
	}
	return p.sys.uevent("INTERFACE", master), mode, strings.Fields(p.sys.text(master, "bonding/slaves"))
}

// checkSlave requires that no bond of the kernel's has the interface, which would take its frames.
func (p *ethernetProbe) checkSlave(netdev string) []Finding {
	bond, _, slaves := p.kernelBond(netdev)
	if bond == "" {
		return nil
	}
	var ports []string
	for _, s := range slaves {
		ports = append(ports, "af_packet:"+s)
	}
	return []Finding{bad(Fail, fmt.Sprintf("%s is in the kernel's bond %s, whose address and members the bridge then does not follow", netdev, bond),
		fmt.Sprintf("# write port = \"af_packet:%s\", the bond itself; or take its interfaces out (ip link set %s nomaster), and write", bond, netdev),
		fmt.Sprintf("# port = \"bond:lacp,%s\"", strings.Join(ports, ",")))}
}

// checkMembers checks the members of the bridge's own bond. One without a link is no error while another has one.
func (p *ethernetProbe) checkMembers(mode config.BondMode, members []config.EthPort) []Finding {
	var out []Finding
	up, speeds := 0, map[string]string{}
	for _, m := range members {
		e := p.ports.machine.interfaceNamed(m.Arg)
		if e == nil {
			out = append(out, bad(Fail, fmt.Sprintf("there is no interface %s here, which is to be in the bond", m.Arg), "causeway devices # lists the existing ones"))
			continue
		}
		out = append(out, p.checkSlave(m.Arg)...)
		if most := widest(p.cfg); e.MTU < most.MTU {
			out = append(out, bad(Fail, fmt.Sprintf("%s has MTU %d, %s mtu is %d: the bridge does not start", e.Netdev, e.MTU, roceOf(p.cfg, &most), most.MTU),
				fmt.Sprintf("ip link set %s mtu %d", e.Netdev, most.MTU)))
		}
		if e.Link != "no carrier" { // the bridge sets up what is down
			up++
		} else {
			out = append(out, bad(Warn, fmt.Sprintf("%s, of the bond, has no carrier", e.Netdev), "# check the cable and the switch's port; ethtool "+e.Netdev))
		}
		if s := p.sys.text(classNet, m.Arg, "speed"); s != "" && s != "-1" {
			speeds[s] = m.Arg
		}
	}
	switch {
	case up == 0 && len(out) == len(members):
		return []Finding{bad(Fail, "no member of the bond has a carrier", "# check the cables and the switches' ports")}
	case len(speeds) > 1 && mode == config.LACP:
		out = append(out, bad(Warn, "the members of the bond have different speeds: a switch aggregates only ports of one speed", "# use ports of one speed"))
	}
	if out != nil {
		return out
	}
	return fine("the bond of %d interfaces (%s) has a link by each; causeway ctl show bond has what their other ends say", len(members), mode)
}

// lagModes are those of the kernel's bonds that a ConnectX takes over (Linux mlx5, lag.c): it then has one RDMA device for
// both of its ports, and sends and receives by either.
var lagModes = []string{"active-backup", "balance-xor", "802.3ad"}

// checkLAG says which bond is in force with a ConnectX. The kernel's is the one: the card spreads what the bridge sends over
// its ports, and the kernel speaks LACP.
func (p *ethernetProbe) checkLAG(card *EthPort) []Finding {
	bond, mode, slaves := p.kernelBond(card.Netdev)
	if bond == "" {
		return nil
	}
	slot, _, _ := strings.Cut(card.PCI, ".")
	first := card
	for _, s := range slaves {
		e := p.ports.machine.interfaceNamed(s)
		if e == nil || !strings.HasPrefix(e.PCI, slot+".") {
			return []Finding{bad(Fail, fmt.Sprintf("%s is in the kernel's bond %s with %s, which is no port of the same card: the card cannot take the bond "+
				"over, and the bridge would have one port of it", card.PCI, bond, s), "# bond the two ports of one card")}
		}
		if e.PCI < first.PCI {
			first = e
		}
	}
	switch {
	case !slices.Contains(lagModes, mode):
		return []Finding{bad(Fail, fmt.Sprintf("the mode of the kernel's bond %s is %s, which the card does not take over", bond, mode),
			fmt.Sprintf("ip link set %s down && ip link set %[1]s type bond mode 802.3ad && ip link set %[1]s up # or active-backup, balance-xor", bond))}
	case first != card:
		return []Finding{bad(Fail, fmt.Sprintf("%s is the second port of the kernel's bond %s: the card gives both to the first", card.PCI, bond),
			fmt.Sprintf("# write port = \"mlx5:%s\"", first.PCI))}
	case !slices.ContainsFunc(card.RDMA, func(d string) bool { return strings.Contains(d, "bond") }):
		return []Finding{bad(Warn, fmt.Sprintf("the card has not taken over the kernel's bond %s (its RDMA device is no mlx5_bond_…): the bridge has one port of it", bond),
			"# LAG mode wants both ports as Ethernet, no SR-IOV functions in use when the bond is made, and the firmware's LAG; then make the bond again",
			"# look: dmesg | grep -i lag; devlink dev param show pci/"+card.PCI)}
	}
	return fine("the kernel's bond %s (%s) of %s is in force: the card has taken it over", bond, mode, strings.Join(slaves, ", "))
}

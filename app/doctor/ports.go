// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"

	"causeway/config"
)

// ports are the machine's ports, and which of them the configuration names. Probes share and do not change it.
type ports struct {
	machine *Machine

	ib    *RDMAPort // the InfiniBand port; nil: it is not here, or there is no configuration
	card  *EthPort  // the ConnectX function of the Ethernet port; nil: it has none
	lower *EthPort  // the interface of the Ethernet port without its VLAN; nil: the kernel has none
	upper string    // the interface without its VLAN that the kernel has beside the bridge; "": none
	roce  string    // the kernel's interface of the first segment; "": it has none
}

func findPorts(c *config.Config, s Sources) *ports {
	p := &ports{machine: ReadMachine(s.Sys)}
	if c == nil {
		return p
	}
	p.ib = p.machine.RDMAPort(c.IB.Port)
	upper := ""
	switch r := c.RoCE.Port.Links()[0]; r.Driver { // of a bond, the first: checkBond has the others
	case "af_packet":
		upper, p.lower = r.Arg, p.machine.interfaceNamed(r.Arg)
	case "tap":
		own, remote, shares := strings.Cut(r.Arg, ",remote=")
		if upper = own; shares {
			upper = remote
		}
		p.lower = p.machine.interfaceNamed(remote)
	case "mlx5":
		if p.card = p.machine.function(r.Arg); p.card != nil {
			upper = p.card.Netdev
		}
		p.lower = p.card
	}
	p.upper = upper
	p.roce = p.netdevOf(s.Kernel, &c.RoCE)
	return p
}

// netdevOf returns the kernel's interface of a segment; "": it has none.
func (p *ports) netdevOf(k Kernel, r *config.RoCE) string {
	name := p.upper
	if name != "" && r.VLAN != 0 {
		name = fmt.Sprintf("%s.%d", name, r.VLAN)
	}
	if _, err := k.Link(name); name == "" || err != nil {
		return ""
	}
	return name
}

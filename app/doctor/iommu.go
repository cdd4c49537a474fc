// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"

	"causeway/config"
)

// No port of the bridge needs VFIO: mlx5 works beside the kernel's driver, the others have no card. The bridge cannot
// use a card that is bound to vfio-pci for another DPDK program.
const vfio = "vfio-pci"

// A cardProbe checks how cards are set up: VFIO, IOMMU, link layer.
type cardProbe struct {
	cfg   *config.Config // nil: none
	sys   tree
	ports *ports
}

func newCardProbe(c *config.Config, s Sources, ports *ports) *cardProbe {
	return &cardProbe{cfg: c, sys: tree{s.Sys}, ports: ports}
}

// checkVFIO looks for network cards that are bound to vfio-pci.
func (p *cardProbe) checkVFIO() []Finding {
	var out []Finding
	for i := range p.ports.machine.Ethernet {
		e := &p.ports.machine.Ethernet[i]
		if e.Driver != vfio || p.cfg != nil { // driverProbe checks the configured card
			continue
		}
		to := "DRIVER"
		if e.connectX {
			to = mlx5Driver
		}
		fix := rebind(e.PCI, vfio, to)
		for i := range fix {
			fix[i] = "# " + fix[i]
		}
		out = append(out, hint(fmt.Sprintf("%s is bound to %s: the bridge cannot use it, neither with mlx5 nor with af_packet", e.PCI,
			vfio), fix...))
	}
	if len(out) == 0 && (p.cfg == nil || p.cfg.RoCE.Port.Driver == "mlx5") {
		return fine("no port needs VFIO")
	}
	return out
}

// checkIOMMU looks for cards whose memory accesses the IOMMU translates.
func (p *cardProbe) checkIOMMU() []Finding {
	if p.cfg == nil {
		n := len(p.sys.glob("kernel/iommu_groups/*"))
		if n == 0 {
			return fine("the IOMMU is off")
		}
		return fine("the IOMMU is on, with %s", plural(n, "group"))
	}
	var out []Finding
	for _, pci := range p.cards() {
		switch kind := p.sys.text(pciDevices, pci, "iommu_group/type"); {
		case strings.HasPrefix(kind, "DMA"): // DMA, DMA-FQ; else identity
			out = append(out, hint(fmt.Sprintf("the IOMMU translates for %s (%s): each access to memory that misses its cache is slower",
				pci, kind),
				"# boot parameter: iommu=pt (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub)"))
		default:
			out = append(out, ok("the IOMMU translates nothing for %s", pci))
		}
	}
	return out
}

// cards returns the PCI addresses of both ports.
func (p *cardProbe) cards() []string {
	var out []string
	if card := p.ports.card; card != nil {
		out = append(out, card.PCI)
	}
	if port := p.ports.ib; port != nil && port.PCI != "" && !slices.Contains(out, port.PCI) {
		out = append(out, port.PCI)
	}
	return out
}

// checkIBLink requires InfiniBand as the link layer of the InfiniBand port; a card's firmware sets it.
func (p *cardProbe) checkIBLink() []Finding {
	if p.cfg == nil {
		var list []string
		for i := range p.ports.machine.RDMA {
			list = append(list, p.ports.machine.RDMA[i].Name()+" "+p.ports.machine.RDMA[i].LinkLayer)
		}
		return fine("RDMA ports: %s", orNone(strings.Join(list, ", ")))
	}
	port := p.ports.ib
	if port == nil {
		return nil
	}
	switch {
	case port.LinkLayer == InfiniBand:
		return fine("%s is InfiniBand", port.Name())
	case port.PCI == "":
		return []Finding{hint(fmt.Sprintf("%s is made in software, with %s as link layer: for tests", port.Name(), port.LinkLayer))}
	}
	return []Finding{bad(Fail, fmt.Sprintf("the link layer of %s is %s, [ib] wants InfiniBand", port.Name(), port.LinkLayer),
		linkType(port.PCI, 1))}
}

// checkRoCELink requires Ethernet as the link layer of the ConnectX on the RoCE side.
func (p *cardProbe) checkRoCELink() []Finding {
	if p.cfg == nil {
		return nil
	}
	card := p.ports.card
	if card == nil {
		return nil
	}
	for i := range p.ports.machine.RDMA {
		if r := &p.ports.machine.RDMA[i]; r.PCI == card.PCI && r.LinkLayer != Ethernet {
			return []Finding{bad(Fail, fmt.Sprintf("the link layer of %s (%s) is %s, [roce] wants Ethernet", r.Name(), card.PCI,
				r.LinkLayer), linkType(card.PCI, 2))}
		}
	}
	return fine("%s is Ethernet", card.PCI)
}

// linkType returns the command that changes the link layer of a card's port: 1 is InfiniBand, 2 Ethernet. The firmware
// numbers the card's ports, which are its PCI functions. It is a comment because the machine's network connection may
// depend on the card.
func linkType(pci string, to int) string {
	_, function, _ := strings.Cut(pci, ".")
	port := 1
	if len(function) == 1 {
		port = int(function[0]-'0') + 1
	}
	return fmt.Sprintf("# mlxconfig -d %s set LINK_TYPE_P%d=%d, then a cold reset: the machine off, and on again", pci, port, to)
}

// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"

	"causeway/app/devices"
)

// The IOMMU and VFIO. Of the ports that the bridge can take none needs VFIO: mlx5 works beside the kernel's driver, the others
// have no card. A card that was given to vfio-pci for another DPDK program is out of reach.

const vfio = "vfio-pci"

// checkVFIO looks for network cards that are VFIO's.
func (p *patient) checkVFIO() []Finding {
	var out []Finding
	for i := range p.machine.Ethernet {
		e := &p.machine.Ethernet[i]
		if e.Driver != vfio || p.cfg != nil { // with a configuration its own card counts, which checkCard looks at
			continue
		}
		to := "DRIVER"
		if p.attr("bus/pci/devices", e.PCI, "vendor") == "0x15b3" {
			to = "mlx5_core"
		}
		fix := giveBack(e.PCI, vfio, to)
		for i := range fix {
			fix[i] = "# " + fix[i]
		}
		out = append(out, hint(fmt.Sprintf("%s is given to %s: the bridge cannot use it so, neither by mlx5 nor by af_packet", e.PCI,
			vfio), fix...))
	}
	if len(out) == 0 && (p.cfg == nil || p.cfg.RoCE.Port.Driver == "mlx5") {
		return fine("no port needs VFIO")
	}
	return out
}

// checkIOMMU looks for a card whose every access to memory is translated.
func (p *patient) checkIOMMU() []Finding {
	if p.cfg == nil {
		n := len(names(p.sys, "kernel/iommu_groups/*"))
		if n == 0 {
			return fine("the IOMMU is off")
		}
		return fine("the IOMMU is on, with %s", plural(n, "group"))
	}
	var out []Finding
	for _, pci := range p.cards() {
		switch kind := p.attr("bus/pci/devices", pci, "iommu_group/type"); {
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

// cards returns the PCI addresses of both doors.
func (p *patient) cards() []string {
	var out []string
	if card := p.card(); card != nil {
		out = append(out, card.PCI)
	}
	if !p.cfg.IB.Port.Fabric {
		if port := p.port(); port != nil && port.PCI != "" && !(len(out) > 0 && out[0] == port.PCI) {
			out = append(out, port.PCI)
		}
	}
	return out
}

// checkIBLink wants the InfiniBand door's port to speak InfiniBand, which a card's firmware decides.
func (p *patient) checkIBLink() []Finding {
	if p.cfg == nil {
		var list []string
		for i := range p.machine.RDMA {
			list = append(list, p.machine.RDMA[i].Name()+" "+p.machine.RDMA[i].LinkLayer)
		}
		return fine("RDMA ports: %s", orNone(strings.Join(list, ", ")))
	}
	port := p.port()
	if p.cfg.IB.Port.Fabric || port == nil {
		return nil
	}
	switch {
	case port.LinkLayer == devices.InfiniBand:
		return fine("%s is InfiniBand", port.Name())
	case port.PCI == "":
		return []Finding{hint(fmt.Sprintf("%s is made in software, with %s as link layer: a stand-in for tests", port.Name(), port.LinkLayer))}
	}
	return []Finding{bad(Fail, fmt.Sprintf("the link layer of %s is %s, [ib] wants InfiniBand", port.Name(), port.LinkLayer),
		linkType(port.PCI, 1))}
}

// checkRoCELink wants the ConnectX of the RoCE side to speak Ethernet.
func (p *patient) checkRoCELink() []Finding {
	if p.cfg == nil {
		return nil
	}
	card := p.card()
	if card == nil {
		return nil
	}
	for i := range p.machine.RDMA {
		if r := &p.machine.RDMA[i]; r.PCI == card.PCI && r.LinkLayer != devices.Ethernet {
			return []Finding{bad(Fail, fmt.Sprintf("the link layer of %s (%s) is %s, [roce] wants Ethernet", r.Name(), card.PCI,
				r.LinkLayer), linkType(card.PCI, 2))}
		}
	}
	return fine("%s is Ethernet", card.PCI)
}

// linkType says how a card's port changes its link layer: 1 is InfiniBand, 2 Ethernet. The firmware numbers the ports of the
// card, which are its PCI functions. It is for a person: the other port may be somebody's only way to the machine.
func linkType(pci string, to int) string {
	_, function, _ := strings.Cut(pci, ".")
	port := 1
	if len(function) == 1 {
		port = int(function[0]-'0') + 1
	}
	return fmt.Sprintf("# mlxconfig -d %s set LINK_TYPE_P%d=%d, then a cold reset: the machine off, and on again", pci, port, to)
}

// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"io/fs"
	"slices"
	"strings"

	"causeway/config"
	"causeway/ibside/ib"
)

// Link layers, in the kernel's words (ports/*/link_layer).
const (
	InfiniBand = "InfiniBand"
	Ethernet   = "Ethernet"
)

// A Machine is the ports that a machine has, read from sysfs alone: reading opens, loads and changes nothing and needs
// no privilege. Each list is sorted by name.
type Machine struct {
	RDMA     []RDMAPort `json:"rdma"`
	Ethernet []EthPort  `json:"ethernet"`
}

// RDMAPort is one port of an RDMA device.
type RDMAPort struct {
	Device    string `json:"device"`
	Num       uint8  `json:"port"`
	NodeType  string `json:"node_type"`  // CA; RNIC for iWARP
	LinkLayer string `json:"link_layer"` // InfiniBand or Ethernet
	State     string `json:"state"`      // DOWN, INIT, ARMED or ACTIVE
	PhysState string `json:"phys_state"`
	LID       ib.LID `json:"lid"` // 0 on Ethernet
	SMLID     ib.LID `json:"sm_lid"`
	Rate      string `json:"rate"`

	// ActiveMTU is the largest payload in bytes. On Ethernet the kernel derives it from the interface's MTU.
	// 0 on InfiniBand, whose MTU is not in sysfs.
	ActiveMTU int `json:"active_mtu,omitempty"`

	GIDs  []GID    `json:"gids"`
	PKeys []string `json:"pkeys"`

	PCI    string `json:"pci,omitempty"`    // "": made in software
	Netdev string `json:"netdev,omitempty"` // on Ethernet, the interface below
	Uverbs bool   `json:"uverbs"`           // whether programs can use it
	Uses   []Use  `json:"uses"`
}

// Name returns the port as the key [ib] port has it.
func (p *RDMAPort) Name() string { return config.IBPort{Device: p.Device, Num: p.Num}.String() }

// hasGID returns the port's first usable GID that equals want, or its first usable one when want is zero.
func (p *RDMAPort) hasGID(want ib.GID) (string, bool) {
	i := slices.IndexFunc(p.GIDs, func(g GID) bool {
		have, err := ib.ParseGID(g.GID)
		return err == nil && g.usable() && (want.IsZero() || have == want)
	})
	if i < 0 {
		return "", false
	}
	return p.GIDs[i].GID, true
}

// GID is a non-empty entry of a port's GID table.
type GID struct {
	Index  int    `json:"index"`
	GID    string `json:"gid"`
	Type   string `json:"type"` // "IB", "RoCE v1" or "RoCE v2"
	Netdev string `json:"netdev,omitempty"`
}

// usable reports whether a packet can be sent with this GID: an address handle holds the index in 8 bits
// (struct ibv_global_route, sgid_index), however large the table is.
func (g GID) usable() bool { return g.Index < 256 }

// EthPort is a network interface, or a PCI network function without an interface.
type EthPort struct {
	Netdev   string   `json:"netdev,omitempty"`
	Type     int      `json:"type"` // ARPHRD_*, linux/if_arp.h
	Driver   string   `json:"driver,omitempty"`
	PCI      string   `json:"pci,omitempty"`
	MTU      int      `json:"mtu,omitempty"`
	MAC      string   `json:"mac,omitempty"`
	Link     string   `json:"link"`                // up, down (by the administrator) or no carrier
	RDMA     []string `json:"rdma,omitempty"`      // RDMA devices of this port
	SameCard []string `json:"same_card,omitempty"` // RDMA devices of the card's other functions

	Uses []Use `json:"uses"`

	connectX bool // the PCI vendor is Mellanox
}

// ReadMachine reads a machine's ports. sys is the root of a sysfs: /sys on a running machine.
func ReadMachine(sys fs.FS) *Machine {
	t := tree{sys}
	pci := t.functions()
	m := &Machine{RDMA: t.rdmaPorts(pci), Ethernet: t.ethPorts(pci)}
	m.relate()
	for i := range m.Ethernet {
		e := &m.Ethernet[i]
		e.Uses = m.roceUses(e)
	}
	for i := range m.RDMA {
		p := &m.RDMA[i]
		p.Uses = []Use{use(IBSide, p.Name(), p.whyNotIB(), p.note())}
		if p.LinkLayer == Ethernet {
			p.Uses = append(p.Uses, m.mlx5Uses(p.PCI)...)
		}
	}
	return m
}

// RDMAPort returns the port that [ib] port names; nil when the machine does not have it.
func (m *Machine) RDMAPort(port config.IBPort) *RDMAPort {
	for i := range m.RDMA {
		if p := &m.RDMA[i]; p.Device == port.Device && p.Num == port.Num && !port.Fabric {
			return p
		}
	}
	return nil
}

// interfaceNamed returns a network interface; nil when the machine does not have it.
func (m *Machine) interfaceNamed(name string) *EthPort {
	for i := range m.Ethernet {
		if e := &m.Ethernet[i]; name != "" && e.Netdev == name {
			return e
		}
	}
	return nil
}

// function returns the Ethernet port at a PCI address; nil when there is none.
func (m *Machine) function(pci string) *EthPort {
	for i := range m.Ethernet {
		if e := &m.Ethernet[i]; pci != "" && strings.EqualFold(e.PCI, pci) {
			return e
		}
	}
	return nil
}

// relate finds the RDMA devices of each Ethernet port.
func (m *Machine) relate() {
	for i := range m.Ethernet {
		e := &m.Ethernet[i]
		for _, p := range m.RDMA {
			own := e.PCI != "" && p.PCI == e.PCI || e.Netdev != "" && p.Netdev == e.Netdev
			switch {
			case own && !slices.Contains(e.RDMA, p.Device):
				e.RDMA = append(e.RDMA, p.Device)
			case !own && sameCard(p.PCI, e.PCI) && !slices.Contains(e.SameCard, p.Device):
				e.SameCard = append(e.SameCard, p.Device)
			}
		}
	}
}

// sameCard reports whether two PCI addresses differ in their function alone.
func sameCard(a, b string) bool {
	cardA, _, okA := strings.Cut(a, ".")
	cardB, _, okB := strings.Cut(b, ".")
	return okA && okB && cardA == cardB
}

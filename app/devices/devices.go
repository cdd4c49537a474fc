// SPDX-License-Identifier: Apache-2.0

// Package devices tells what a machine has for Causeway's two doors: its RDMA ports, its Ethernet ports, for
// each whether it can serve as which door, and why not; and whether a configuration suits the machine.
//
//	sysfs ─▶ Read ─▶ Machine ─▶ WriteTable, JSON
//	                    └─────▶ CheckConfig: one line for each thing that is wrong
//
// All is read from sysfs alone, so that nothing is opened, loaded or changed, no privilege is needed, and tests
// can make up a machine. Files that are missing, or that the kernel will not read out, count as empty: a device
// may vanish while it is looked at.
package devices

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"causeway/ibside/ib"
)

// Link layers, in the kernel's words (ports/*/link_layer).
const (
	InfiniBand = "InfiniBand"
	Ethernet   = "Ethernet"
)

// Machine is what was found, each list in the order of names.
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

	// ActiveMTU is the largest payload in bytes. On Ethernet it is what the kernel makes of the interface's MTU;
	// 0 on InfiniBand, whose MTU is not in sysfs.
	ActiveMTU int `json:"active_mtu,omitempty"`

	GIDs  []GID    `json:"gids"`
	PKeys []string `json:"pkeys"`

	PCI    string `json:"pci,omitempty"`    // "": made in software
	Netdev string `json:"netdev,omitempty"` // on Ethernet, the interface below
	Uverbs bool   `json:"uverbs"`           // whether programs can use it
	Uses   []Use  `json:"uses"`
}

// Name is the port as [ib] port has it.
func (p *RDMAPort) Name() string { return p.Device + ":" + strconv.Itoa(int(p.Num)) }

// GID is an entry of a port's GID table that is not empty.
type GID struct {
	Index  int    `json:"index"`
	GID    string `json:"gid"`
	Type   string `json:"type"` // "IB", "RoCE v1" or "RoCE v2"
	Netdev string `json:"netdev,omitempty"`
}

// Usable reports whether a packet can be sent with this GID: an address handle holds the index in 8 bits
// (struct ibv_global_route, sgid_index), whatever the size of the table.
func (g GID) Usable() bool { return g.Index < 256 }

// EthPort is a network interface, or a network function of a PCI card that has none.
type EthPort struct {
	Netdev   string   `json:"netdev,omitempty"`
	Type     int      `json:"type"` // ARPHRD_*, linux/if_arp.h
	Driver   string   `json:"driver,omitempty"`
	PCI      string   `json:"pci,omitempty"`
	MTU      int      `json:"mtu,omitempty"`
	MAC      string   `json:"mac,omitempty"`
	Link     string   `json:"link"`                // up, down (by the administrator) or no carrier
	RDMA     []string `json:"rdma,omitempty"`      // RDMA devices over this very port
	SameCard []string `json:"same_card,omitempty"` // RDMA devices of the card's other functions

	Uses []Use `json:"uses"`

	connectX bool // by its PCI vendor; false without a PCI function
}

// Read looks at a machine. sys is the root of a sysfs, what is /sys on a running one.
func Read(sys fs.FS) *Machine {
	s := sysfs{sys}
	pci := s.functions()
	m := &Machine{RDMA: s.rdmaPorts(pci), Ethernet: s.ethPorts(pci)}
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

// relate tells which RDMA devices belong to which Ethernet ports.
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

// sysfs reads attributes.
type sysfs struct{ root fs.FS }

// text returns an attribute without the line's end; "" when it cannot be read.
func (s sysfs) text(elems ...string) string {
	b, err := fs.ReadFile(s.root, path.Join(elems...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// number returns an attribute that is a number, decimal or with 0x; 0 when it is none.
func (s sysfs) number(elems ...string) int {
	n, err := strconv.ParseInt(s.text(elems...), 0, 64)
	if err != nil {
		return 0
	}
	return int(n)
}

// word returns the word of an attribute such as "4: ACTIVE".
func (s sysfs) word(elems ...string) string {
	t := s.text(elems...)
	if _, word, ok := strings.Cut(t, ": "); ok {
		return word
	}
	return t
}

// names lists a folder; nothing when it is not there.
func (s sysfs) names(elems ...string) []string {
	entries, _ := fs.ReadDir(s.root, path.Join(elems...))
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// indexes lists a folder of numbered entries, in the order of numbers.
func (s sysfs) indexes(elems ...string) []int {
	var out []int
	for _, name := range s.names(elems...) {
		if n, err := strconv.Atoi(name); err == nil && n >= 0 {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// uevent returns a variable of a device's uevent file, such as DRIVER.
func (s sysfs) uevent(name string, elems ...string) string {
	for line := range strings.Lines(s.text(append(elems, "uevent")...)) {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

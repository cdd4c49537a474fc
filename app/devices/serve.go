// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"fmt"
	"strings"

	"causeway/ibside/ib"
)

// The doors.
const (
	RoCESide = "RoCE side"
	IBSide   = "IB side"
)

// Use is one way in which a port could serve.
type Use struct {
	Side   string `json:"side"`
	Port   string `json:"port,omitempty"`    // what the configuration would say; "": there is no way to say it
	WhyNot string `json:"why_not,omitempty"` // "": it can serve so
	Note   string `json:"note,omitempty"`    // of one that can
}

// String says whether and how the port can serve: "IB side: mlx5_0:1".
func (u Use) String() string {
	switch {
	case u.WhyNot != "" && u.Port == "":
		return u.Side + ": no: " + u.WhyNot
	case u.WhyNot != "":
		return u.Side + ": not " + u.Port + ": " + u.WhyNot
	case u.Note != "":
		return u.Side + ": " + u.Port + " (" + u.Note + ")"
	}
	return u.Side + ": " + u.Port
}

// use makes a Use; the note is dropped where there is a reason against it.
func use(side, port, whyNot, note string) Use {
	if whyNot != "" {
		note = ""
	}
	return Use{side, port, whyNot, note}
}

// headerBytes is what rdma_rxe sets aside of an interface's MTU (ib.MTUForNetdev).
const headerBytes = 80

var leastMTU = ib.MTU256.Bytes() + headerBytes

// whyNotIB returns why the port cannot be the InfiniBand door; "": it can.
func (p *RDMAPort) whyNotIB() string {
	switch {
	case p.NodeType != "CA":
		return fmt.Sprintf("%s is no InfiniBand HCA; its node type is %s", p.Device, named(p.NodeType, "not known"))
	case p.LinkLayer != InfiniBand && p.PCI != "":
		return fmt.Sprintf("its link layer is %s; use a port whose link layer is InfiniBand, or change this one's in the card's firmware",
			named(p.LinkLayer, "not known"))
	case p.State != "ACTIVE":
		return p.whyNotActive()
	case !p.Uverbs:
		return fmt.Sprintf("programs cannot use %s; modprobe ib_uverbs", p.Device)
	}
	return ""
}

// whyNotActive says why the port is not ACTIVE, and what would make it so.
func (p *RDMAPort) whyNotActive() string {
	is := "the port is " + named(p.State, "in no state that is known")
	switch {
	case p.State == "INIT" || p.State == "ARMED":
		return is + ": no subnet manager has set it up; start one, such as opensm"
	case p.LinkLayer == Ethernet && p.Netdev != "":
		return fmt.Sprintf("%s; see to the interface %s below it: ip link set %s up", is, p.Netdev, p.Netdev)
	case p.PhysState != "":
		return fmt.Sprintf("%s (%s); check its cable, and the port at the other end", is, p.PhysState)
	}
	return is + "; check its cable, and the port at the other end"
}

// note is a remark on a port that can be the InfiniBand door.
func (p *RDMAPort) note() string {
	if p.LinkLayer != InfiniBand {
		return "a stand-in for tests: its link layer is " + p.LinkLayer
	}
	return ""
}

// roceUses returns the ways in which a port could be the Ethernet door.
func (m *Machine) roceUses(e *EthPort) []Use {
	uses := m.mlx5Uses(e.PCI)
	if e.Netdev != "" {
		return append(uses, use(RoCESide, "af_packet:"+e.Netdev, e.whyNotAFPacket(), e.note()))
	}
	if len(uses) > 0 {
		return uses
	}
	return []Use{use(RoCESide, "", e.noPMD()+", and af_packet needs a network interface; give the card to its kernel driver", "")}
}

// noPMD says that the port's driver is none beside which a PMD of Causeway's works; DPDK may have one.
func (e *EthPort) noPMD() string {
	if e.Driver == "" {
		return "it has no driver"
	}
	return "Causeway uses no PMD for the driver " + e.Driver
}

// mlx5Uses returns how the ConnectX function at a PCI address could be the Ethernet door.
func (m *Machine) mlx5Uses(pci string) []Use {
	for i := range m.Ethernet {
		if e := &m.Ethernet[i]; e.PCI == pci && pci != "" && e.connectX {
			return []Use{use(RoCESide, "mlx5:"+pci, m.whyNotMlx5(e), mtuNote(e.MTU))}
		}
	}
	return nil
}

// whyNotMlx5 returns why a ConnectX function cannot be taken by the mlx5 PMD, which works beside the kernel's
// driver through the RDMA device of the same function; "": it can.
func (m *Machine) whyNotMlx5(e *EthPort) string {
	if e.Driver != mlx5Driver {
		return e.noPMD() + "; the PMD mlx5 works beside " + mlx5Driver
	}
	for _, p := range m.RDMA {
		switch {
		case p.PCI != e.PCI:
			continue
		case p.LinkLayer != Ethernet:
			return fmt.Sprintf("its link layer is %s; use a port whose link layer is Ethernet, or change this one's in the card's firmware",
				named(p.LinkLayer, "not known"))
		case !p.Uverbs:
			return fmt.Sprintf("programs cannot use %s; modprobe ib_uverbs", p.Device)
		}
		return e.whyNotUp()
	}
	return "it has no RDMA device, which the PMD mlx5 works through; modprobe mlx5_ib"
}

// whyNotAFPacket returns why an interface cannot be opened by a packet socket; "": it can.
func (e *EthPort) whyNotAFPacket() string {
	switch e.Type {
	case arphrdEther:
		return e.whyNotUp()
	case arphrdInfiniBand:
		return "its link layer is InfiniBand; use an interface whose link layer is Ethernet"
	}
	return fmt.Sprintf("it is not an Ethernet interface (ARP type %d)", e.Type)
}

// whyNotUp returns why an Ethernet interface carries no RoCE as it is; "": it does. A function without an
// interface in this network namespace has nothing to ask.
func (e *EthPort) whyNotUp() string {
	switch {
	case e.Netdev == "":
		return ""
	case e.Link == "down":
		return fmt.Sprintf("the port is down; ip link set %s up", e.Netdev)
	case e.Link == "no carrier":
		return "the port is down, without a carrier; check its cable, and the port at the other end"
	case e.MTU < leastMTU:
		return fmt.Sprintf("its MTU %d is too small for any IB MTU; ip link set %s mtu %d or more", e.MTU, e.Netdev, leastMTU)
	}
	return ""
}

// note is a remark on an interface that can be the Ethernet door.
func (e *EthPort) note() string {
	var notes []string
	if n := mtuNote(e.MTU); n != "" {
		notes = append(notes, n)
	}
	if e.PCI != "" && !e.connectX {
		notes = append(notes, e.noPMD())
	}
	return strings.Join(notes, "; ")
}

// mtuNote says what an MTU carries when that is not everything.
func mtuNote(mtu int) string {
	m := ib.MTUForNetdev(mtu)
	if !m.Valid() || m == ib.MTU4096 {
		return ""
	}
	return fmt.Sprintf("carries IB MTU %v; 4096 needs an MTU of %d", m, ib.MTU4096.Bytes()+headerBytes)
}

// named returns s, or what stands for nothing.
func named(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"strings"

	"causeway/ibside/ib"
)

// The sides of the bridge.
const (
	RoCESide = "RoCE side"
	IBSide   = "IB side"
)

// Use is one way in which the bridge could use a port.
type Use struct {
	Side   string `json:"side"`
	Port   string `json:"port,omitempty"`    // the value of the key port; "": there is none
	WhyNot string `json:"why_not,omitempty"` // "": the port can be used
	Note   string `json:"note,omitempty"`    // a remark on a usable port
}

// String returns a line such as "IB side: mlx5_0:1" or "IB side: not mlx5_0:1: the port is INIT: ...".
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

// use makes a Use, without the note when whyNot is set.
func use(side, port, whyNot, note string) Use {
	if whyNot != "" {
		note = ""
	}
	return Use{side, port, whyNot, note}
}

// roceHeaders is how many bytes of an interface's MTU the kernel reserves for RoCE's headers (ib.MTUForNetdev).
const roceHeaders = 80

var leastMTU = ib.MTU256.Bytes() + roceHeaders

// whyNotIB returns why the port cannot be the InfiniBand port; "": it can.
func (p *RDMAPort) whyNotIB() string {
	switch {
	case p.NodeType != "CA":
		return fmt.Sprintf("%s is not an InfiniBand HCA; its node type is %s", p.Device, cmp.Or(p.NodeType, "unknown"))
	case p.LinkLayer != InfiniBand && p.PCI != "":
		return fmt.Sprintf("its link layer is %s; use a port whose link layer is InfiniBand, or change this one's in the card's firmware",
			cmp.Or(p.LinkLayer, "unknown"))
	case p.State != "ACTIVE":
		return p.whyNotActive()
	case !p.Uverbs:
		return fmt.Sprintf("programs cannot use %s; modprobe ib_uverbs", p.Device)
	}
	return ""
}

// whyNotActive says why the port is not ACTIVE, and what would make it so.
func (p *RDMAPort) whyNotActive() string {
	is := "the port is " + cmp.Or(p.State, "in an unknown state")
	switch {
	case p.State == "INIT" || p.State == "ARMED":
		return is + ": no subnet manager has set it up; start one, such as opensm"
	case p.LinkLayer == Ethernet && p.Netdev != "":
		return fmt.Sprintf("%s; set its interface %s up: ip link set %s up", is, p.Netdev, p.Netdev)
	case p.PhysState != "":
		return fmt.Sprintf("%s (%s); check its cable, and the port at the other end", is, p.PhysState)
	}
	return is + "; check its cable, and the port at the other end"
}

// note returns a remark on a port that can be the InfiniBand port.
func (p *RDMAPort) note() string {
	if p.LinkLayer != InfiniBand {
		return "for tests: its link layer is " + p.LinkLayer
	}
	return ""
}

// roceUses returns the ways in which a port could be the Ethernet port.
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

// noPMD says that Causeway has no PMD that works with the port's kernel driver; DPDK may have one.
func (e *EthPort) noPMD() string {
	if e.Driver == "" {
		return "it has no driver"
	}
	return "Causeway uses no PMD for the driver " + e.Driver
}

// mlx5Uses returns how the ConnectX function at a PCI address could be the Ethernet port.
func (m *Machine) mlx5Uses(pci string) []Use {
	if e := m.function(pci); e != nil && e.connectX {
		return []Use{use(RoCESide, "mlx5:"+pci, m.whyNotMlx5(e), mtuNote(e.MTU))}
	}
	return nil
}

// whyNotMlx5 returns why the mlx5 PMD cannot use a ConnectX function; "": it can. The PMD works beside the kernel's
// driver, through the RDMA device of the same function.
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
				cmp.Or(p.LinkLayer, "unknown"))
		case !p.Uverbs:
			return fmt.Sprintf("programs cannot use %s; modprobe ib_uverbs", p.Device)
		}
		return e.whyNotUp()
	}
	return "it has no RDMA device, which the PMD mlx5 works through; modprobe mlx5_ib"
}

// whyNotAFPacket returns why a packet socket cannot use an interface; "": it can.
func (e *EthPort) whyNotAFPacket() string {
	switch e.Type {
	case arphrdEther:
		return e.whyNotUp()
	case arphrdInfiniBand:
		return "its link layer is InfiniBand; use an interface whose link layer is Ethernet"
	}
	return fmt.Sprintf("it is not an Ethernet interface (ARP type %d)", e.Type)
}

// whyNotUp returns why an Ethernet interface cannot carry RoCE now; "": it can, or the port has no interface in this
// network namespace.
func (e *EthPort) whyNotUp() string {
	switch {
	case e.Netdev == "":
		return ""
	case e.Link == "down":
		return fmt.Sprintf("the port is down; ip link set %s up", e.Netdev)
	case e.Link == "no carrier":
		return "the port is down, without carrier; check its cable, and the port at the other end"
	case e.MTU < leastMTU:
		return fmt.Sprintf("its MTU %d is too small for any IB MTU; ip link set %s mtu %d or more", e.MTU, e.Netdev, leastMTU)
	}
	return ""
}

// note returns remarks on an interface that can be the Ethernet port.
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

// mtuNote returns a remark on an MTU that does not carry every IB MTU.
func mtuNote(mtu int) string {
	m := ib.MTUForNetdev(mtu)
	if !m.Valid() || m == ib.MTU4096 {
		return ""
	}
	return fmt.Sprintf("carries IB MTU %v; 4096 needs an MTU of %d", m, ib.MTU4096.Bytes()+roceHeaders)
}

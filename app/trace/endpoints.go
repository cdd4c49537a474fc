// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"net/netip"

	"causeway/ibside/ib"
	"causeway/tables"
)

// fromHost adds the source and destination of a frame, as the tables have them.
func (x *explainer) fromHost(e endpoints) {
	if !e.src.IsValid() {
		return
	}
	x.From.add("host", "%v", e.src)
	host, known := x.tables.Host(e.at, e.src)
	if known {
		x.From.add("MAC", "%s", mac(host.MAC))
	} else {
		x.miss("host %v is not known: it has not sent yet, or was removed", e.src)
	}
	if e.transport {
		if e.udpPort == 0 {
			x.From.add("QP", "0x%x", uint32(e.srcQP))
		}
		if s, ok := x.tables.ProxyQP(e.at, tables.HostQP{Host: e.src, HostQPN: e.srcQP, Partition: x.partition(e)}); ok {
			values := Facts{}
			values.add("QPN", "0x%x", uint32(s.QPN))
			values.number("worker", int(s.Worker))
			x.From.several("proxy QP", fmt.Sprintf("0x%x at worker %d", uint32(s.QPN), s.Worker), values)
		} else {
			x.missProxyQP(e)
		}
	}
	if n, ok := x.tables.Node(e.src); ok {
		x.From.add("conflict: also a node's address, GID", "%v", n.GID)
	}
	if e.dst.IsMulticast() {
		addr := tables.GroupAddr{IP: e.dst, UDPPort: e.udpPort}
		g, ok := x.tables.Group(e.at, addr)
		x.group(addr.String(), g, ok, true)
		return
	}
	x.To.add("node", "%v", e.dst)
	n, ok := x.tables.Node(e.dst)
	if !ok {
		x.miss("no InfiniBand node with address %v", e.dst)
		return
	}
	x.To.add("GID", "%v", n.GID)
	x.To.add("LID", "%v", n.LID)
	x.To.number("SL", int(n.SL))
	x.To.size("largest payload", int(n.MTU))
	if n.Bridge {
		x.To.add("is", "another bridge")
	}
}

// partition is the number of the partition that a packet of a RoCE host goes to.
func (x *explainer) partition(e endpoints) uint8 {
	if e.dst.IsMulticast() {
		g, _ := x.tables.Group(e.at, tables.GroupAddr{IP: e.dst, UDPPort: e.udpPort})
		return g.Partition
	}
	n, _ := x.tables.Node(e.dst)
	return n.Partition
}

func (x *explainer) missProxyQP(e endpoints) {
	if e.udpPort != 0 {
		x.miss("no proxy QP for plain UDP of %v", e.src)
		return
	}
	x.miss("no proxy QP for %v, QP 0x%x", e.src, uint32(e.srcQP))
}

func mac(m [6]byte) string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// group adds a group; toIB is the direction of the packet.
func (x *explainer) group(name string, g tables.Group, ok, toIB bool) {
	x.To.add("group", "%s", name)
	if !ok {
		x.miss("group %s is not bridged", name)
		return
	}
	if toIB {
		x.To.add("MGID", "%v", g.MGID)
		x.To.add("MLID", "0x%x", uint16(g.MLID))
		x.To.add("Q_Key", "%#08x", uint32(g.QKey))
		x.onEthernet(g)
		x.To.size("largest payload", int(g.MTUToIB))
	} else {
		x.To.add("IP", "%v", g.IP)
		x.onEthernet(g)
		x.To.size("largest payload", int(g.MTUToRoCE))
	}
	x.To.add("open", "%s", openWays(g))
	if g.Policed {
		x.To.add("rate", "limited")
	}
}

// onEthernet adds what the group is there.
func (x *explainer) onEthernet(g tables.Group) {
	if g.UDPPort != 0 {
		x.To.number("UDP port", int(g.UDPPort))
		return
	}
	x.To.add("Q_Key on RoCE", "%#08x", uint32(g.RoCEQKey))
}

func openWays(g tables.Group) string {
	switch {
	case g.ToIB && g.ToRoCE:
		return "both directions"
	case g.ToIB:
		return "roce_to_ib"
	case g.ToRoCE:
		return "ib_to_roce"
	}
	return "in no direction"
}

// fromNode adds the source and destination of a message, as the tables have them.
func (x *explainer) fromNode(e endpoints) {
	if !e.transport && e.sgid.IsZero() {
		return
	}
	name := fmt.Sprintf("LID %v", e.slid)
	if !e.sgid.IsZero() {
		name = "GID " + e.sgid.String()
	}
	n, own, ok := x.tables.Source(e.sgid, e.slid)
	switch {
	case own:
		x.From.add("the bridge itself", "%s", name)
	case !ok:
		x.miss("no InfiniBand node with %s", name)
	default:
		x.node(name, n)
	}
	if e.dgid.IsMulticast() {
		g, ok := x.tables.MGID(e.dgid)
		x.group(e.dgid.String(), g, ok, false)
		return
	}
	x.To.add("proxy QP", "0x%x", uint32(e.dstQ))
	s, ok := x.tables.ProxyQPN(e.dstQ)
	if !ok {
		x.miss("QP 0x%x is not a proxy QP", uint32(e.dstQ))
		return
	}
	x.To.add("host", "%v", s.Host)
	x.To.add("QP", "0x%x", uint32(s.HostQPN))
	if x.lacks(n, ok, s.Host) {
		x.miss("the node has no address of the IP version of %v", s.Host)
	}
}

func (x *explainer) node(name string, n tables.Node) {
	x.From.add("node", "%s", name)
	if n.IP4.IsValid() && !n.IP4.IsUnspecified() {
		x.From.add("IP", "%v", n.IP4)
	}
	if n.IP6.IsValid() && !n.IP6.IsUnspecified() {
		x.From.add("IPv6", "%v", n.IP6)
	}
	if n.Bridge {
		x.From.add("is", "another bridge")
	}
}

// lacks reports whether a known node has no address of the host's IP version.
func (x *explainer) lacks(n tables.Node, known bool, host netip.Addr) bool {
	a := n.IP6
	if host.Is4() {
		a = n.IP4
	}
	return known && len(x.From) > 0 && x.From[0].Name == "node" && (!a.IsValid() || a.IsUnspecified())
}

// detail returns the values that a check compared.
func (x *explainer) detail() string {
	pair := func(has, wants string) string {
		if has == "" || wants == "" {
			return ""
		}
		return fmt.Sprintf("the packet has %s, expected %s", has, wants)
	}
	switch x.Drop {
	case "qkey":
		return pair(x.Received.Get("Q_Key"), x.To.Get("Q_Key on RoCE"))
	case "mtu_exceeded":
		if most := x.To.Get("largest payload"); most != "" {
			return fmt.Sprintf("the payload is %s, the limit there %s", x.Received.Get("payload"), most)
		}
	case "pkey":
		return pair(x.Received.Get("P_Key"), fmt.Sprintf("%#04x", uint16(ib.PKeyDefault)))
	case "mc_direction":
		return fmt.Sprintf("the packet goes %s, the group is open in %s", x.Direction, x.To.Get("open"))
	case "icrc":
		return x.Received.Get("ICRC")
	}
	return ""
}

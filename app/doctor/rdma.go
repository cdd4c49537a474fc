// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"io/fs"
	"slices"
	"strconv"

	"causeway/ibside/ib"
)

const infiniband = "class/infiniband"

// rdmaPorts reads every port of every RDMA device.
func (t tree) rdmaPorts(pci []function) []RDMAPort {
	out := []RDMAPort{}
	for _, device := range t.names(infiniband) {
		for _, n := range t.indexes(infiniband, device, "ports") {
			if n > 0 && n < 256 {
				out = append(out, t.rdmaPort(device, uint8(n), pci))
			}
		}
	}
	return out
}

// rdmaPort reads one port (Linux Documentation/ABI/stable/sysfs-class-infiniband).
func (t tree) rdmaPort(device string, num uint8, pci []function) RDMAPort {
	at := infiniband + "/" + device + "/ports/" + strconv.Itoa(int(num))
	p := RDMAPort{
		Device: device, Num: num, NodeType: t.word(infiniband, device, "node_type"),
		LinkLayer: t.text(at, "link_layer"), State: t.word(at, "state"), PhysState: t.word(at, "phys_state"),
		LID: ib.LID(t.number(at, "lid")), SMLID: ib.LID(t.number(at, "sm_lid")), Rate: t.text(at, "rate"),
		GIDs: t.gids(at), PKeys: t.pkeys(at), Uverbs: t.hasUverbs(device),
	}
	var function function
	for _, f := range pci {
		if slices.Contains(f.rdma, device) {
			function = f
		}
	}
	p.PCI = function.address
	if p.LinkLayer == Ethernet {
		p.Netdev = t.netdevBelow(&p, function)
		p.ActiveMTU = t.mtuOver(&p)
	}
	return p
}

// gids reads the entries of the GID table that are in use. The attributes of the others cannot be read (EINVAL),
// nor can the netdev's on InfiniBand.
func (t tree) gids(port string) []GID {
	out := []GID{}
	roce := t.text(port, "link_layer") == Ethernet
	for _, i := range t.indexes(port, "gids") {
		index := strconv.Itoa(i)
		gid, err := ib.ParseGID(t.text(port, "gids", index))
		if err != nil || gid.IsZero() {
			continue
		}
		g := GID{Index: i, GID: gid.String()}
		g.Type, g.Netdev = t.text(port, "gid_attrs/types", index), t.text(port, "gid_attrs/ndevs", index)
		if g.Type == "IB/RoCE v1" { // one word for two things, which the link layer tells apart
			g.Type = "IB"
			if roce {
				g.Type = "RoCE v1"
			}
		}
		out = append(out, g)
	}
	return out
}

// pkeys reads the entries of the P_Key table that are partitions (IBTA vol 1 §10.9.1.1).
func (t tree) pkeys(port string) []string {
	out := []string{}
	for _, i := range t.indexes(port, "pkeys") {
		if k := ib.PKey(t.number(port, "pkeys", strconv.Itoa(i))); k.Valid() {
			out = append(out, k.String())
		}
	}
	return out
}

// hasUverbs reports whether ib_uverbs has a character device for an RDMA device.
func (t tree) hasUverbs(device string) bool {
	files, _ := fs.Glob(t, "class/infiniband_verbs/uverbs*/ibdev")
	for _, f := range files {
		if t.text(f) == device {
			return true
		}
	}
	return false
}

// netdevBelow returns the interface that an Ethernet RDMA port works over: rxe names it itself, in others the
// default GID, which is the table's first, is that of the interface.
func (t tree) netdevBelow(p *RDMAPort, f function) string {
	if name := t.text(infiniband, p.Device, "parent"); name != "" {
		return name
	}
	for _, g := range p.GIDs {
		if g.Netdev != "" {
			return g.Netdev
		}
	}
	if len(f.netdevs) == 1 {
		return f.netdevs[0]
	}
	return ""
}

// mtuOver returns the active MTU of an Ethernet RDMA port in bytes, by the rule of its driver; 0: not known.
func (t tree) mtuOver(p *RDMAPort) int {
	mtu := t.number("class/net", p.Netdev, "mtu")
	if p.Netdev == "" || mtu == 0 {
		return 0
	}
	if p.PCI == "" {
		return ib.MTUForNetdev(mtu).Bytes() // rdma_rxe, the one software device with UD
	}
	return ib.MTUForNetdevCore(mtu).Bytes()
}

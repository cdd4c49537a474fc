// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"causeway/app/devices"
	"causeway/ibside/ib"
)

// The interface on the InfiniBand side, by which nodes ask for addresses.

const (
	classNet         = "class/net"
	arphrdInfiniBand = "32" // linux/if_arp.h
	ipoibHeader      = 4    // bytes before the IP packet (RFC 4391 §6)
)

// port returns the configuration's InfiniBand port; nil if it is not there.
func (p *patient) port() *devices.RDMAPort {
	for i := range p.machine.RDMA {
		if r := &p.machine.RDMA[i]; r.Device == p.cfg.IB.Port.Device && r.Num == p.cfg.IB.Port.Num {
			return r
		}
	}
	return nil
}

// findNetdev finds the interface of IP over the InfiniBand port, in the configuration's partition.
func (p *patient) findNetdev() []Finding {
	if p.named {
		return []Finding{ok("%s, as told", p.netdev)}
	}
	port := p.port()
	name := fmt.Sprintf("%s:%d", p.cfg.IB.Port.Device, p.cfg.IB.Port.Num)
	if p.cfg.IB.Port.Fabric || port == nil { // the software subnet has no IP; of a port that is missing, checkRDMADevice speaks
		return nil
	}
	if port.LinkLayer == devices.Ethernet {
		p.netdev = port.Netdev
	} else {
		parent, child := p.ipoib(port)
		if p.netdev = child; child == "" && parent != "" {
			return []Finding{bad(Fail, fmt.Sprintf("%s has no interface in the partition %v; %s is in another", name, p.cfg.IB.PKey, parent),
				fmt.Sprintf("ip link add link %s name %[1]s.%04x type ipoib pkey %#[2]x", parent, uint16(p.cfg.IB.PKey)|0x8000))}
		}
	}
	if p.netdev == "" {
		return []Finding{bad(Fail, name+" has no network interface: nodes have nothing to ask for addresses", "modprobe ib_ipoib")}
	}
	return []Finding{ok("%s is %s", name, p.netdev)}
}

// ipoib returns the port's first interface of IP over InfiniBand, and the one that is in the configuration's partition.
// Which belong to the port they tell themselves (Linux Documentation/ABI/testing/sysfs-class-net: dev_port, from 0).
func (p *patient) ipoib(port *devices.RDMAPort) (first, fits string) {
	entries, _ := fs.ReadDir(p.sys, path.Join("class/infiniband", port.Device, "device/net"))
	for _, e := range entries {
		at := path.Join(classNet, e.Name())
		if p.attr(at, "type") != arphrdInfiniBand || p.attr(at, "dev_port") != strconv.Itoa(int(port.Num)-1) {
			continue
		}
		if first == "" {
			first = e.Name()
		}
		pkey, err := strconv.ParseUint(p.attr(at, "pkey"), 0, 16)
		const number = 0x7fff // without the membership bit, which the kernel sets in any case
		if err == nil && fits == "" && ib.PKey(pkey)&number == p.cfg.IB.PKey&number {
			fits = e.Name()
		}
	}
	return first, fits
}

// roceNetdev returns the interface that the kernel has of the Ethernet port.
func (p *patient) roceNetdev() string {
	r := &p.cfg.RoCE
	name := ""
	switch r.Port.Driver {
	case "af_packet":
		name = r.Port.Arg
	case "tap":
		own, remote, shares := strings.Cut(r.Port.Arg, ",remote=")
		if name = own; shares {
			name = remote
		}
	case "mlx5":
		for _, e := range p.machine.Ethernet {
			if e.PCI != "" && strings.EqualFold(e.PCI, r.Port.Arg) {
				name = e.Netdev
			}
		}
	}
	if name != "" && r.VLAN != 0 {
		name = fmt.Sprintf("%s.%d", name, r.VLAN)
	}
	if _, err := p.kernel.Link(name); name == "" || err != nil {
		return ""
	}
	return name
}

func (p *patient) checkLink() []Finding {
	l, err := p.kernel.Link(p.netdev)
	up := "ip link set " + p.netdev + " up"
	switch {
	case err != nil:
		return []Finding{bad(Fail, fmt.Sprintf("there is no interface %s: %v", p.netdev, err), "causeway devices # lists those that there are")}
	case !l.Up:
		return []Finding{bad(Fail, p.netdev+" is down", up)}
	case !l.Carrier:
		return []Finding{bad(Fail, p.netdev+" has no carrier: it has not joined its broadcast group yet, or the subnet manager does not let it",
			up, "sminfo # is there a subnet manager?")}
	}
	return []Finding{ok("%s is up", p.netdev)}
}

// checkMTU compares with the largest message that the configuration lets cross: the broadcast group's MTU, which is the
// interface's and a header in datagram mode, is also what the subnet's groups get by default.
func (p *patient) checkMTU() []Finding {
	l, err := p.kernel.Link(p.netdev)
	port, want := p.port(), p.cfg.RoCE.IBMTU.Bytes()
	mode := p.attr(classNet, p.netdev, "mode")
	if err != nil || port == nil || port.LinkLayer == devices.Ethernet || mode == "connected" || l.MTU+ipoibHeader >= want {
		return []Finding{ok("%s has MTU %d", p.netdev, l.MTU)}
	}
	const headers = 80 // what the kernel's RoCE sets aside
	return []Finding{bad(Warn, fmt.Sprintf("%s has MTU %d, so the subnet's groups carry %d bytes, but [roce] mtu %d lets %d cross",
		p.netdev, l.MTU, l.MTU+ipoibHeader, p.cfg.RoCE.MTU, want),
		fmt.Sprintf("ip link set %s mtu %d # needs mtu=5 of the partition at the subnet manager; or write mtu = %d under [roce]",
			p.netdev, want-ipoibHeader, l.MTU+ipoibHeader+headers))}
}

func (p *patient) checkGID() []Finding {
	port := p.port()
	if port == nil { // the interface was named
		return []Finding{ok("not looked at: the port %s:%d is not here", p.cfg.IB.Port.Device, p.cfg.IB.Port.Num)}
	}
	want := p.cfg.IB.GID
	i := slices.IndexFunc(port.GIDs, func(g devices.GID) bool {
		has, err := ib.ParseGID(g.GID)
		return err == nil && g.Usable() && (want.IsZero() || has == want)
	})
	switch {
	case i >= 0:
		return []Finding{ok("%s has %s", port.Name(), port.GIDs[i].GID)}
	case want.IsZero():
		return []Finding{bad(Fail, port.Name()+" has no GID", "sminfo # is there a subnet manager?")}
	}
	return []Finding{bad(Fail, fmt.Sprintf("%s does not have the GID %v of [ib] gid", port.Name(), want),
		"causeway devices # lists the port's GIDs: write one of them as [ib] gid")}
}

// checkAddresses wants an address of each version of IP that nodes have: rdma_cm connects to a node from one.
func (p *patient) checkAddresses() []Finding {
	have, err := p.kernel.Addresses(p.netdev)
	if err != nil {
		return []Finding{bad(Fail, err.Error(), "ip address show dev "+p.netdev)}
	}
	var out []Finding
	for _, v6 := range []bool{false, true} {
		if len(p.hosts(nodes, v6)) == 0 {
			continue
		}
		fits := func(n netip.Prefix) bool { return n.Addr().Is6() == v6 && !n.Addr().IsLinkLocalUnicast() }
		own := p.own(v6)
		switch i := slices.IndexFunc(have, fits); {
		case i >= 0:
			out = append(out, ok("%s has %v", p.netdev, have[i]))
		case len(own) == 0:
			out = append(out, bad(Warn, fmt.Sprintf("%s has no %s address, nor has the bridge, but nodes do", p.netdev, ipName(v6)),
				fmt.Sprintf("ip address add ADDRESS dev %s # one that is free", p.netdev)))
		default:
			a := own[0]
			out = append(out, bad(Fail, fmt.Sprintf("%s has no %s address: the bridge cannot connect to nodes", p.netdev, ipName(v6)),
				fmt.Sprintf("ip address add %s/%d dev %s", a, a.BitLen(), p.netdev)))
		}
	}
	return out
}

func ipName(v6 bool) string {
	if v6 {
		return "IPv6"
	}
	return "IPv4"
}

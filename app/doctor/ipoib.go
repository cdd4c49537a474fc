// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"

	"causeway/config"
	"causeway/ibside/ib"
)

const ipoibHeader = 4 // bytes before the IP packet (RFC 4391 §6)

// An ipoibProbe checks the IPoIB interface, where nodes send ARP and ND requests: the interface itself, the kernel's settings for it
// (proxy.go), and the routes by it (routes.go).
type ipoibProbe struct {
	cfg    *config.Config
	sys    tree
	kernel Kernel
	ports  *ports
	netdev string // the interface; "" until findNetdev finds it
}

func newIPoIBProbe(c *config.Config, s Sources, ports *ports) *ipoibProbe {
	return &ipoibProbe{cfg: c, sys: tree{s.Sys}, kernel: s.Kernel, ports: ports, netdev: s.Netdev}
}

// findNetdev finds the interface of IP over the InfiniBand port, in the configuration's partition.
func (p *ipoibProbe) findNetdev() []Finding {
	if p.netdev != "" {
		return []Finding{ok("%s, as told", p.netdev)}
	}
	port := p.ports.ib
	name := p.cfg.IB.Port.String()
	if port == nil { // the software subnet has no IPoIB; checkRDMADevice reports a missing port
		return nil
	}
	if port.LinkLayer == Ethernet {
		p.netdev = port.Netdev
	} else {
		parent, child := p.ipoib(port)
		if p.netdev = child; child == "" && parent != "" {
			return []Finding{bad(Fail, fmt.Sprintf("%s has no interface in the partition %v; %s is in another", name, p.cfg.IB.PKey, parent),
				fmt.Sprintf("ip link add link %s name %[1]s.%04x type ipoib pkey %#[2]x", parent, uint16(p.cfg.IB.PKey)|0x8000))}
		}
	}
	if p.netdev == "" {
		return []Finding{bad(Fail, name+" has no network interface: nodes cannot resolve addresses", "modprobe ib_ipoib")}
	}
	return []Finding{ok("%s is %s", name, p.netdev)}
}

// ipoib returns the port's first IPoIB interface, and the one in the configured partition. dev_port tells which belong to the port
// (Linux Documentation/ABI/testing/sysfs-class-net: from 0).
func (p *ipoibProbe) ipoib(port *RDMAPort) (first, fits string) {
	for _, name := range p.sys.names(infiniband, port.Device, "device/net") {
		at := path.Join(classNet, name)
		if p.sys.number(at, "type") != arphrdInfiniBand || p.sys.text(at, "dev_port") != strconv.Itoa(int(port.Num)-1) {
			continue
		}
		if first == "" {
			first = name
		}
		pkey, err := strconv.ParseUint(p.sys.text(at, "pkey"), 0, 16)
		const number = 0x7fff // without the membership bit, which the kernel sets in any case
		if err == nil && fits == "" && ib.PKey(pkey)&number == p.cfg.IB.PKey&number {
			fits = name
		}
	}
	return first, fits
}

func (p *ipoibProbe) checkLink() []Finding {
	l, err := p.kernel.Link(p.netdev)
	up := "ip link set " + p.netdev + " up"
	switch {
	case err != nil:
		return []Finding{bad(Fail, fmt.Sprintf("there is no interface %s: %v", p.netdev, err), "causeway devices # lists the existing ones")}
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
func (p *ipoibProbe) checkMTU() []Finding {
	l, err := p.kernel.Link(p.netdev)
	port, want := p.ports.ib, p.cfg.RoCE.IBMTU.Bytes()
	mode := p.sys.text(classNet, p.netdev, "mode")
	if err != nil || port == nil || port.LinkLayer == Ethernet || mode == "connected" || l.MTU+ipoibHeader >= want {
		return []Finding{ok("%s has MTU %d", p.netdev, l.MTU)}
	}
	return []Finding{bad(Warn, fmt.Sprintf("%s has MTU %d, so the subnet's groups carry %d bytes, but [roce] mtu %d lets %d cross",
		p.netdev, l.MTU, l.MTU+ipoibHeader, p.cfg.RoCE.MTU, want),
		fmt.Sprintf("ip link set %s mtu %d # needs mtu=5 of the partition at the subnet manager; or write mtu = %d under [roce]",
			p.netdev, want-ipoibHeader, l.MTU+ipoibHeader+roceHeaders))}
}

func (p *ipoibProbe) checkGID() []Finding {
	port := p.ports.ib
	if port == nil { // the interface was named
		return []Finding{ok("not checked: the port %v is not here", p.cfg.IB.Port)}
	}
	want := p.cfg.IB.GID
	gid, has := port.hasGID(want)
	switch {
	case has:
		return []Finding{ok("%s has %s", port.Name(), gid)}
	case want.IsZero():
		return []Finding{bad(Fail, port.Name()+" has no GID", "sminfo # is there a subnet manager?")}
	}
	return []Finding{bad(Fail, fmt.Sprintf("%s does not have the GID %v of [ib] gid", port.Name(), want),
		"causeway devices # lists the port's GIDs: write one of them as [ib] gid")}
}

// checkAddresses requires an address of each IP version that nodes have: rdma_cm connects from it.
func (p *ipoibProbe) checkAddresses() []Finding {
	have, err := p.kernel.Addresses(p.netdev)
	if err != nil {
		return []Finding{bad(Fail, err.Error(), "ip address show dev "+p.netdev)}
	}
	var out []Finding
	for _, v6 := range []bool{false, true} {
		if len(hostsOn(p.cfg, nodes, v6)) == 0 {
			continue
		}
		fits := func(n netip.Prefix) bool { return n.Addr().Is6() == v6 && !n.Addr().IsLinkLocalUnicast() }
		own := bridgeAddrs(p.cfg, v6)
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

// hostsOn returns the configured addresses of one side and IP version, translated to InfiniBand.
func hostsOn(c *config.Config, side config.Side, v6 bool) []netip.Addr {
	var out []netip.Addr
	known := c.Translations()
	for _, h := range c.Hosts {
		for _, a := range h.Addrs() {
			if there, ok := known.ToIB(a); ok && h.Side == side && a.Is6() == v6 {
				out = append(out, there)
			}
		}
	}
	return out
}

// bridgeAddrs returns the bridge's addresses of one IP version, translated to InfiniBand.
func bridgeAddrs(c *config.Config, v6 bool) []netip.Addr {
	var out []netip.Addr
	for _, n := range c.RoCE.Addresses {
		if a, ok := c.Translations().ToIB(n.Addr()); ok && a.Is6() == v6 {
			out = append(out, a)
		}
	}
	return out
}

// roceSubnets returns the IPv4 subnets of the RoCE side, translated to InfiniBand.
func roceSubnets(c *config.Config) []netip.Prefix {
	var out []netip.Prefix
	for _, n := range c.RoCE.Addresses {
		if n.Addr().Is4() {
			there, _ := c.Translations().PrefixToIB(n)
			out = append(out, there...)
		}
	}
	return out
}

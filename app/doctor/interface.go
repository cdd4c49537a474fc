// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"path"
	"strconv"

	"causeway/ibside/ib"
)

// findNetdev finds the interface of IP over the InfiniBand port, in the partition.
func (p *ipoibProbe) findNetdev() []Finding {
	if p.netdev != "" {
		return []Finding{ok("%s, as told", p.netdev)}
	}
	port := p.ports.ib
	name := p.cfg.IB.Port.String()
	if port == nil { // the software subnet has no IPoIB; checkRDMADevice reports a missing port
		return nil
	}
	all := p.interfaces(port)
	switch p.netdev = p.interfaceOf(all); {
	case port.LinkLayer == Ethernet:
		p.netdev = port.Netdev
	case p.netdev == "" && len(all) > 0:
		return []Finding{p.noInterface(name, all[0].name)}
	case p.netdev == "" && !p.first: // the first probe says that there is no IPoIB at all
		return nil
	}
	if p.netdev == "" {
		return []Finding{bad(Fail, name+" has no network interface: nodes cannot resolve addresses"+p.unlearned(), "modprobe ib_ipoib")}
	}
	return []Finding{ok("%s is %s", name, p.netdev)}
}

// noInterface is a finding about a partition without an interface, beside one in another. A group does without: the
// bridge joins it by itself.
func (p *ipoibProbe) noInterface(port, other string) Finding {
	found := fmt.Sprintf("%s has no interface in the partition %v of %s; %s is in another", port, p.pkey, p.key(), other)
	fix := fmt.Sprintf("ip link add link %s name %[1]s.%04x type ipoib pkey %#[2]x", other, uint16(p.pkey)|0x8000)
	if p.nodes {
		return bad(Fail, found+p.unlearned(), fix)
	}
	return hint(found+": what MTU its groups have is not known here", fix)
}

// An ipoibInterface is one of a port's.
type ipoibInterface struct {
	name string
	pkey ib.PKey // 0: unknown
}

// interfaces returns the port's IPoIB interfaces. dev_port tells which belong to it (Linux
// Documentation/ABI/testing/sysfs-class-net: from 0).
func (p *ipoibProbe) interfaces(port *RDMAPort) (all []ipoibInterface) {
	for _, name := range p.sys.names(infiniband, port.Device, "device/net") {
		at := path.Join(classNet, name)
		if p.sys.number(at, "type") == arphrdInfiniBand && p.sys.text(at, "dev_port") == strconv.Itoa(int(port.Num)-1) {
			all = append(all, ipoibInterface{name, p.pkeyOf(name)})
		}
	}
	return all
}

// pkeyOf returns the P_Key of an IPoIB interface, 0 when it cannot be read.
func (p *ipoibProbe) pkeyOf(name string) ib.PKey {
	n, _ := strconv.ParseUint(p.sys.text(classNet, name, "pkey"), 0, 16)
	return ib.PKey(n)
}

// interfaceOf returns the interface of the partition: the one that nodes are learned from, or else the first; "" if
// there is none.
func (p *ipoibProbe) interfaceOf(all []ipoibInterface) (name string) {
	for _, i := range all {
		fits := i.pkey != 0 && number(i.pkey) == number(p.pkey)
		if fits && (name == "" || p.cfg.IB.Learn && i.name == p.cfg.IB.IPoIB) {
			name = i.name
		}
	}
	return name
}

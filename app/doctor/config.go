// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"causeway/config"
	"causeway/ibside/ib"
)

// OnHardware reports whether a configuration names a port of the machine, so that CheckConfig has something to check.
// The bridge itself makes the other kinds: tap, memif, pcap, ring, null and the embedded fabric.
func OnHardware(c *config.Config) bool {
	return !c.IB.Port.Fabric || slices.ContainsFunc(c.EthPorts(), func(p config.EthPort) bool {
		return p.Kind() == "mlx5" || p.Kind() == "af_packet"
	})
}

// CheckConfig returns the reasons why a valid configuration cannot run on the machine with this sysfs, one line each,
// such as "ib: port \"mlx5_0:1\": ..."; none when it can. mayCome is true when the only reasons are that the RDMA
// device is missing or not up, or that the network interface or card is missing, which may change by itself: after a
// reboot, or when the driver is loaded again.
func CheckConfig(c *config.Config, sys fs.FS) (problems []string, mayCome bool) {
	if !OnHardware(c) {
		return nil, false
	}
	m := ReadMachine(sys)
	ib := m.checkIB(c)
	mayCome = len(ib) == 0 || m.awaits(c.IB.Port)
	seen := map[config.EthPort]bool{}
	for _, r := range c.Segments() {
		if seen[r.Port] {
			continue
		}
		seen[r.Port] = true
		roce := m.checkRoCE(&r)
		problems = append(problems, roce...)
		mayCome = mayCome && (len(roce) == 0 || m.lacks(r.Port))
	}
	problems = append(problems, ib...)
	return problems, mayCome && len(problems) > 0
}

// lacks reports whether the interface or card of an Ethernet port is not there, or all of a bond's: it starts with one.
func (m *Machine) lacks(port config.EthPort) bool { return !slices.ContainsFunc(port.Links(), m.has) }

func (m *Machine) has(l config.EthPort) bool {
	return (l.Driver != "af_packet" || m.interfaceNamed(l.Arg) != nil) && (l.Driver != "mlx5" || m.function(l.Arg) != nil)
}

// awaits reports whether the port's device is missing, or the port is not usable yet. A device that lacks the port will
// not get it.
func (m *Machine) awaits(port config.IBPort) bool {
	if p := m.RDMAPort(port); p != nil {
		return p.NodeType == "CA" && (p.State != "ACTIVE" || !p.Uverbs)
	}
	return !slices.ContainsFunc(m.RDMA, func(p RDMAPort) bool { return p.Device == port.Device })
}

// checkRoCE checks the Ethernet port.
func (m *Machine) checkRoCE(r *config.RoCE) []string {
	var out []string
	for _, link := range r.Port.Links() {
		if !m.has(link) && !m.lacks(r.Port) {
			continue // the bond goes on without it
		}
		var why string
		switch link.Driver {
		case "af_packet":
			why = m.checkAFPacket(r, link.Arg)
		case "mlx5":
			why = m.checkMlx5(link.Arg)
		}
		if why != "" {
			out = append(out, fmt.Sprintf("roce: port %q: %s", link.String(), why))
		}
	}
	return out
}

func (m *Machine) checkAFPacket(r *config.RoCE, name string) string {
	e := m.interfaceNamed(name)
	if e == nil {
		names := m.ethNames(func(e *EthPort) string { return e.Netdev })
		return fmt.Sprintf("there is no interface %s here; %s", name, thereAre(names))
	}
	why := e.withLink().whyNotAFPacket()
	if why == "" && r.MTU > e.MTU {
		why = fmt.Sprintf("its MTU %d is less than mtu %d; ip link set %s mtu %d, or write mtu = %d",
			e.MTU, r.MTU, e.Netdev, r.MTU, e.MTU)
	}
	return why
}

// checkMlx5 checks a ConnectX function. It does not check the MTU: the PMD sets the port's MTU to [roce] mtu.
func (m *Machine) checkMlx5(address string) string {
	e := m.function(address)
	if e == nil {
		names := m.ethNames(func(e *EthPort) string {
			if !e.connectX {
				return ""
			}
			return e.PCI
		})
		return fmt.Sprintf("there is no network card at %s here; of ConnectX %s", address, thereAre(names))
	}
	if !e.connectX {
		return fmt.Sprintf("it is not a ConnectX; its driver is %s", cmp.Or(e.Driver, "none"))
	}
	return m.whyNotMlx5(e.withLink())
}

// withLink returns a port as it is with a link: a bridge starts without one, and waits for it.
func (e *EthPort) withLink() *EthPort {
	up := *e
	up.Link = "up"
	return &up
}

// LinkNote says why frames could not pass the Ethernet port of a configuration now; "": they could, or nobody knows.
func LinkNote(c *config.Config, sys fs.FS) string {
	m := ReadMachine(sys)
	for _, p := range c.EthPorts() {
		if note := m.linkNote(p); note != "" {
			return note
		}
	}
	return ""
}

func (m *Machine) linkNote(p config.EthPort) string {
	note := ""
	for _, link := range p.Links() { // one of a bond suffices
		var e *EthPort
		switch link.Driver {
		case "af_packet":
			e = m.interfaceNamed(link.Arg)
		case "mlx5":
			e = m.function(link.Arg)
		}
		if e == nil || e.Netdev == "" || e.Link == "up" {
			return ""
		}
		note = fmt.Sprintf("roce: port %q: %s; the bridge waits for it", link.String(), e.whyNotUp())
	}
	return note
}

// ethNames returns the names of Ethernet ports that are not empty.
func (m *Machine) ethNames(name func(*EthPort) string) []string {
	var out []string
	for i := range m.Ethernet {
		if n := name(&m.Ethernet[i]); n != "" {
			out = append(out, n)
		}
	}
	return out
}

// checkIB checks the InfiniBand port: its partitions and MTU only once it is ACTIVE.
func (m *Machine) checkIB(c *config.Config) []string {
	if c.IB.Port.Fabric {
		return nil
	}
	var why string
	if p := m.RDMAPort(c.IB.Port); p == nil {
		why = m.whyNoPort(c.IB.Port)
	} else if why = p.whyNotIB(); why == "" {
		return slices.Concat(p.checkGID(c.IB.GID), p.checkPKeys(c), p.checkMTU(&c.RoCE))
	}
	return []string{fmt.Sprintf("ib: port %q: %s", c.IB.Port.String(), why)}
}

// whyNoPort says what the machine has instead of a port that it does not have.
func (m *Machine) whyNoPort(port config.IBPort) string {
	var devices, ports []string
	for i := range m.RDMA {
		p := &m.RDMA[i]
		devices = append(devices, p.Device)
		if p.Device == port.Device {
			ports = append(ports, p.Name())
		}
	}
	if len(ports) > 0 {
		return fmt.Sprintf("%s has no port %d; %s", port.Device, port.Num, thereAre(ports))
	}
	if len(devices) == 0 {
		return fmt.Sprintf("there is no RDMA device %s here, nor any other; load the card's driver (modprobe mlx5_ib) and see "+
			"\"causeway devices\", or write port = \"fabric:\" for the software subnet", port.Device)
	}
	return fmt.Sprintf("there is no RDMA device %s here; %s", port.Device, thereAre(slices.Compact(devices)))
}

// checkGID looks for the configured GID of the bridge among the port's usable ones.
func (p *RDMAPort) checkGID(want ib.GID) []string {
	if _, ok := p.hasGID(want); ok || want.IsZero() {
		return nil
	}
	var have []string
	for _, g := range p.GIDs {
		if g.usable() {
			have = append(have, g.GID)
		}
	}
	slices.Sort(have)
	return []string{fmt.Sprintf("ib: gid %v: the port %s does not have it; %s", want, p.Name(), thereAre(slices.Compact(have)))}
}

// checkPKeys looks for partitions that the port is not a member of. It compares the membership bit, too: an entry of a
// limited member does not serve as one of a full member.
func (p *RDMAPort) checkPKeys(c *config.Config) []string {
	var out []string
	for _, u := range pkeyUsers(c) {
		if !slices.Contains(p.PKeys, u.pkey.String()) {
			out = append(out, fmt.Sprintf("%s: pkey %v: the port %s does not have it; %s; write one of these, or have the subnet "+
				"manager add the port to the partition", u.String(), u.pkey, p.Name(), thereAre(p.PKeys)))
		}
	}
	return out
}

// checkMTU compares the two sides' MTUs, where that of the InfiniBand side is known. A larger one on the InfiniBand
// side is no error: what does not fit is dropped and counted, and no configuration would change that.
func (p *RDMAPort) checkMTU(r *config.RoCE) []string {
	have, want := p.ActiveMTU, r.IBMTU.Bytes()
	if have == 0 || have >= want {
		return nil
	}
	return []string{fmt.Sprintf("roce: mtu %d carries IB MTU %d, but the port %s has IB MTU %d; write mtu = %d, or raise "+
		"the MTU of the interface %s", r.MTU, want, p.Name(), have, have+roceHeaders, p.Netdev)}
}

// thereAre lists names for an error message.
func thereAre(names []string) string {
	const most = 12 // a container host may have hundreds of interfaces
	switch {
	case len(names) == 0:
		return "there is none"
	case len(names) == 1:
		return "there is " + names[0]
	case len(names) > most:
		return fmt.Sprintf("there are %s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return "there are " + strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"causeway/config"
	"causeway/ibside/ib"
)

// OnHardware reports whether a configuration names a port of the machine's, so that CheckConfig has something to
// check. The kinds that the bridge makes itself (tap, memif, ring, the embedded fabric) are no such ports.
func OnHardware(c *config.Config) bool {
	return c.RoCE.Port.Driver == "mlx5" || c.RoCE.Port.Driver == "af_packet" || !c.IB.Port.Fabric
}

// CheckConfig returns what keeps a valid configuration from running on the machine whose sysfs this is, one line
// each, in the form "ib: port \"mlx5_0:1\": ..."; nothing when it suits.
func CheckConfig(c *config.Config, sys fs.FS) []string {
	problems, _ := Examine(c, sys)
	return problems
}

// Examine is CheckConfig that also tells whether nothing is wrong but that the RDMA device is not there or not up: it
// may come, as after a reboot, or when its driver is loaded again.
func Examine(c *config.Config, sys fs.FS) (problems []string, mayCome bool) {
	if !OnHardware(c) {
		return nil, false
	}
	m := Read(sys)
	problems = m.checkRoCE(&c.RoCE)
	mayCome = len(problems) == 0 && !c.IB.Port.Fabric && m.awaits(c.IB.Port)
	return append(problems, m.checkIB(c)...), mayCome
}

// awaits reports whether the port's device is missing, or the port not usable yet.
func (m *Machine) awaits(port config.IBPort) bool {
	there := false
	for i := range m.RDMA {
		p := &m.RDMA[i]
		if p.Device != port.Device {
			continue
		}
		there = true
		if p.Num == port.Num {
			return p.NodeType == "CA" && (p.State != "ACTIVE" || !p.Uverbs)
		}
	}
	return !there
}

// checkRoCE checks the Ethernet port.
func (m *Machine) checkRoCE(r *config.RoCE) []string {
	var why string
	switch r.Port.Driver {
	case "af_packet":
		why = m.checkAFPacket(r)
	case "mlx5":
		why = m.checkMlx5(r.Port.Arg)
	}
	if why == "" {
		return nil
	}
	return []string{fmt.Sprintf("roce: port %q: %s", r.Port.String(), why)}
}

func (m *Machine) checkAFPacket(r *config.RoCE) string {
	var names []string
	for i := range m.Ethernet {
		e := &m.Ethernet[i]
		if e.Netdev == "" {
			continue
		}
		names = append(names, e.Netdev)
		if e.Netdev != r.Port.Arg {
			continue
		}
		why := e.whyNotAFPacket()
		if why == "" && r.MTU > e.MTU {
			why = fmt.Sprintf("its MTU %d is less than mtu %d; ip link set %s mtu %d, or write mtu = %d",
				e.MTU, r.MTU, e.Netdev, r.MTU, e.MTU)
		}
		return why
	}
	return fmt.Sprintf("there is no interface %s here; %s", r.Port.Arg, thereAre(names))
}

// checkMlx5 checks a ConnectX function. The MTU is not asked: the PMD gives the port the configuration's.
func (m *Machine) checkMlx5(address string) string {
	var names []string
	for i := range m.Ethernet {
		e := &m.Ethernet[i]
		if strings.EqualFold(e.PCI, address) && e.PCI != "" {
			if !e.connectX {
				return fmt.Sprintf("it is no ConnectX; its driver is %s", named(e.Driver, "none"))
			}
			return m.whyNotMlx5(e)
		}
		if e.connectX {
			names = append(names, e.PCI)
		}
	}
	return fmt.Sprintf("there is no network card's function %s here; of ConnectX %s", address, thereAre(names))
}

// checkIB checks the InfiniBand port. What its partitions and MTU are counts only once it is ACTIVE.
func (m *Machine) checkIB(c *config.Config) []string {
	if c.IB.Port.Fabric {
		return nil
	}
	name := fmt.Sprintf("%s:%d", c.IB.Port.Device, c.IB.Port.Num)
	where := fmt.Sprintf("ib: port %q: ", name)
	var devices, ports []string
	for i := range m.RDMA {
		p := &m.RDMA[i]
		devices = append(devices, p.Device)
		if p.Device != c.IB.Port.Device {
			continue
		}
		ports = append(ports, p.Name())
		if p.Num != c.IB.Port.Num {
			continue
		}
		if why := p.whyNotIB(); why != "" {
			return []string{where + why}
		}
		return slices.Concat(p.checkGID(c.IB.GID), p.checkPKeys(c), p.checkMTU(&c.RoCE))
	}
	if len(ports) > 0 {
		return []string{where + fmt.Sprintf("%s has no port %d; %s", c.IB.Port.Device, c.IB.Port.Num, thereAre(ports))}
	}
	return []string{where + fmt.Sprintf("there is no RDMA device %s here; %s", c.IB.Port.Device, thereAre(slices.Compact(devices)))}
}

// checkGID looks for the GID that is to be the bridge's own, among those that packets can be sent with.
func (p *RDMAPort) checkGID(want ib.GID) []string {
	var have []string
	for _, g := range p.GIDs {
		if !g.Usable() {
			continue
		}
		if got, err := ib.ParseGID(g.GID); err == nil && got == want {
			return nil
		}
		have = append(have, g.GID)
	}
	if want.IsZero() {
		return nil
	}
	slices.Sort(have)
	return []string{fmt.Sprintf("ib: gid %v: the port %s does not have it; %s", want, p.Name(), thereAre(slices.Compact(have)))}
}

// checkPKeys looks for partitions that the port is not in. The membership counts too: a limited member's entry
// does not stand for the full member's.
func (p *RDMAPort) checkPKeys(c *config.Config) []string {
	var out []string
	check := func(who string, k ib.PKey) {
		if !slices.Contains(p.PKeys, k.String()) {
			out = append(out, fmt.Sprintf("%s: pkey %v: the port %s does not have it; %s; write one of these, or have the subnet "+
				"manager add the port to the partition", who, k, p.Name(), thereAre(p.PKeys)))
		}
	}
	check("ib", c.IB.PKey)
	for _, g := range c.Groups {
		if g.PKey != c.IB.PKey {
			check(fmt.Sprintf("group %v", g.IP), g.PKey)
		}
	}
	return out
}

// checkMTU compares the two sides, where the InfiniBand side's is known. One that is larger than RoCE's is
// right: what nodes send that does not fit is dropped, by name, and no configuration would change that.
func (p *RDMAPort) checkMTU(r *config.RoCE) []string {
	have, want := p.ActiveMTU, r.IBMTU.Bytes()
	if have == 0 || have >= want {
		return nil
	}
	return []string{fmt.Sprintf("roce: mtu %d carries IB MTU %d, but the port %s has IB MTU %d; write mtu = %d, or raise "+
		"the MTU of the interface %s", r.MTU, want, p.Name(), have, have+headerBytes, p.Netdev)}
}

// thereAre lists what there is instead.
func thereAre(names []string) string {
	const most = 12 // of a machine with hundreds of containers' interfaces
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

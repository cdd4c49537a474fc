// SPDX-License-Identifier: Apache-2.0

// Package doctor looks at a machine for what a configuration needs of it, and says of each thing how it is and which
// command mends it.
//
//	configuration, sysfs, /proc, kernel ─▶ Examine ─▶ Findings ─▶ WriteText, WriteFixes, JSON
//
// It changes nothing. What it can look at is a list of groups of checks; each check looks at one thing, and only where the
// configuration uses it. Without a configuration it looks at what holds for any bridge.
package doctor

import (
	"fmt"
	"io/fs"
	"net/netip"

	"causeway/app/devices"
	"causeway/config"
)

// A Verdict says whether a thing needs mending.
type Verdict string

// The verdicts. What only warns works, but not well, or not always.
const (
	OK   Verdict = "ok"
	Warn Verdict = "warn"
	Fail Verdict = "fail"
)

// A Level says how much a finding matters.
type Level string

// The levels.
const (
	Well    Level = "ok"
	Hint    Level = "hint"    // nothing need be done; its verdict is OK
	Warning Level = "warning" // it runs, but worse
	Error   Level = "error"   // it does not run, or some of it does not
)

// A Finding is what a check found of one thing.
type Finding struct {
	Group   string  `json:"group"`
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Level   Level   `json:"level"`
	Found   string  `json:"found"` // what, with its value, and why it matters

	// Fix is lines for a shell, as root; none when all is well. A line that begins with # is for a person: a file to edit,
	// a boot parameter, or what nobody should have done to his machine unasked.
	Fix []string `json:"fix,omitempty"`
}

// A check looks at one thing. When bars is set, and it fails or finds nothing, those after it in its group have nothing to look at.
type check struct {
	name string
	look func(*patient) []Finding
	bars bool
}

// A group is checks that belong together, in the order in which their fixes must be applied.
type group struct {
	name    string
	anybody bool // there is something to look at without a configuration
	checks  []check
}

// Findings are those of all checks, in order.
type Findings []Finding

// A patient is a machine, and what a configuration wants of it.
type patient struct {
	cfg     *config.Config // nil: the machine alone
	sys     fs.FS          // what /sys is on a running machine
	proc    fs.FS
	root    fs.FS
	kernel  Kernel
	process Process

	machine *devices.Machine
	netdev  string // the interface of IP on the InfiniBand side
	named   bool   // by who asks
	roce    string // the interface of the Ethernet side that the kernel has; "": none
}

// A Machine is where Examine looks.
type Machine struct {
	Sys, Proc, Root fs.FS // what /sys, /proc and / are on a running machine
	Kernel          Kernel
	Process         Process
	Netdev          string // the interface of IP over InfiniBand, where it is not found by the port, such as a bond
}

// Examine looks at all there is to look at; without a configuration (nil), at what any bridge would meet.
func Examine(c *config.Config, m Machine) Findings {
	p := &patient{cfg: c, sys: m.Sys, proc: m.Proc, root: m.Root, kernel: m.Kernel, process: m.Process, machine: devices.Read(m.Sys),
		netdev: m.Netdev, named: m.Netdev != ""}
	if c != nil {
		p.roce = p.roceNetdev()
	}
	out := Findings{} // none is [] in JSON
	for _, g := range groups() {
		if c != nil || g.anybody {
			out = append(out, p.examine(g)...)
		}
	}
	return out
}

// examine looks at what one group is about.
func (p *patient) examine(g group) (out Findings) {
	for _, c := range g.checks {
		found := c.look(p)
		for _, f := range found {
			f.Group, f.Check = g.name, c.name
			out = append(out, f)
		}
		if c.bars && (len(found) == 0 || !Findings(found).Fine()) {
			break
		}
	}
	return out
}

// groups lists what is looked at. The machine comes first: without its drivers there is no port to look at.
func groups() []group {
	return []group{
		{"hugepages", true, []check{{"memory", (*patient).checkMemory, false}, {"numa", (*patient).checkMemoryNodes, false}}},
		{"cpu", true, []check{
			{"lcores", (*patient).checkLcores, true},
			{"numa", (*patient).checkNodes, false},
			{"isolated", (*patient).checkIsolated, false},
			{"nohz_full", (*patient).checkTicks, false},
			{"siblings", (*patient).checkSiblings, false},
			{"governor", (*patient).checkGovernor, false},
			{"irqs", (*patient).checkInterrupts, false},
		}},
		{"drivers", true, []check{
			{"pmd", (*patient).checkPMD, false},
			{"card", (*patient).checkCard, false},
			{"rdma_device", (*patient).checkRDMADevice, false},
			{"device_files", (*patient).checkFiles, false},
		}},
		{"iommu", true, []check{{"vfio", (*patient).checkVFIO, false}, {"iommu", (*patient).checkIOMMU, false}}},
		{"link_type", true, []check{{"ib", (*patient).checkIBLink, false}, {"roce", (*patient).checkRoCELink, false}}},
		{"mtu", false, []check{{"roce", (*patient).checkRoCEMTU, false}, {"ib", (*patient).checkIBMTU, false}}},
		{"qos", false, []check{{"pfc", (*patient).checkPFC, false}, {"ecn", (*patient).checkECN, false}}},
		{"roce", false, []check{
			{"link", (*patient).checkRoCEUp, false},
			{"kernel_roce", (*patient).checkKernelRoCE, false},
			{"own_address", (*patient).checkOwnAddress, false},
			{"firewall", (*patient).checkFirewall, false},
		}},
		{"sm", true, []check{{"port", (*patient).checkPorts, true}, {"pkey", (*patient).checkPKey, false}, {"sa", (*patient).checkSA, false}}},
		{"ipoib", false, ipoibChecks()},
		{"clock", true, []check{
			{"synchronised", (*patient).checkSynchronised, false},
			{"clocksource", (*patient).checkClocksource, false},
			{"tsc", (*patient).checkTSC, false},
		}},
		{"limits", true, []check{
			{"capabilities", (*patient).checkCapabilities, false},
			{"memlock", (*patient).checkMemlock, false},
			{"files", (*patient).checkOpenFiles, false},
		}},
	}
}

// ipoibChecks are about the way on which InfiniBand nodes find RoCE hosts: the kernel answers their ARP and ND questions on
// the interface of IP over InfiniBand (proxy ARP), under conditions that lie in many places.
func ipoibChecks() []check {
	return []check{
		{"interface", (*patient).findNetdev, true},
		{"link", (*patient).checkLink, true},
		{"mtu", (*patient).checkMTU, false},
		{"gid", (*patient).checkGID, false},
		{"address", (*patient).checkAddresses, false},
		{"forwarding", (*patient).checkForwarding, false},
		{"proxy_arp", (*patient).checkProxyARP, false},
		{"medium_id", (*patient).checkMedium, false},
		{"proxy_delay", (*patient).checkDelay, false},
		{"rp_filter", (*patient).checkReversePath, false},
		{"arp_ignore", (*patient).checkIgnore, false},
		{"arp_announce", (*patient).checkAnnounce, false},
		{"proxy_ndp", (*patient).checkProxyND, false},
		{"nd_entries", (*patient).checkEntries, false},
		{"node_routes", (*patient).checkNodeRoutes, false},
		{"roce_routes", (*patient).checkRoCERoutes, false},
		{"roce_side", (*patient).checkRoCESide, false},
		{"answers", (*patient).checkAnswers, false},
	}
}

func ok(format string, args ...any) Finding {
	return Finding{Verdict: OK, Level: Well, Found: fmt.Sprintf(format, args...)}
}

// fine is a list of one thing that is well.
func fine(format string, args ...any) []Finding { return []Finding{ok(format, args...)} }

// hint is a finding that nobody need act on.
func hint(found string, fix ...string) Finding {
	return Finding{Verdict: OK, Level: Hint, Found: found, Fix: fix}
}

// bad is a finding that fix mends.
func bad(v Verdict, found string, fix ...string) Finding {
	level := Warning
	if v == Fail {
		level = Error
	}
	return Finding{Verdict: v, Level: level, Found: found, Fix: fix}
}

// Errors reports whether something keeps the bridge, or a part of it, from running.
func (fs Findings) Errors() bool { return fs.count(Error) > 0 }

func (fs Findings) count(l Level) (n int) {
	for _, f := range fs {
		if f.Level == l {
			n++
		}
	}
	return n
}

// Fine reports whether there is nothing to mend; hints do not count.
func (fs Findings) Fine() bool {
	for _, f := range fs {
		if f.Verdict != OK {
			return false
		}
	}
	return true
}

// hosts returns the configuration's addresses of one side and one version of IP, as InfiniBand knows them.
func (p *patient) hosts(side config.Side, v6 bool) []netip.Addr {
	var out []netip.Addr
	known := p.cfg.Translations()
	for _, h := range p.cfg.Hosts {
		for _, a := range h.Addrs() {
			if there, ok := known.ToIB(a); ok && h.Side == side && a.Is6() == v6 {
				out = append(out, there)
			}
		}
	}
	return out
}

// own returns the bridge's addresses of one version of IP, as InfiniBand knows them.
func (p *patient) own(v6 bool) []netip.Addr {
	var out []netip.Addr
	for _, n := range p.cfg.RoCE.Addresses {
		if a, ok := p.cfg.Translations().ToIB(n.Addr()); ok && a.Is6() == v6 {
			out = append(out, a)
		}
	}
	return out
}

// subnets returns the IPv4 subnets of the RoCE side, as InfiniBand knows them.
func (p *patient) subnets() []netip.Prefix {
	var out []netip.Prefix
	for _, n := range p.cfg.RoCE.Addresses {
		if n.Addr().Is4() {
			there, _ := p.cfg.Translations().PrefixToIB(n)
			out = append(out, there...)
		}
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0

// Package doctor lists a machine's ports, checks a machine for what a configuration needs, and prints commands that fix problems.
//
//	configuration, sysfs, /proc, kernel ─▶ Examine ─▶ Findings ─▶ WriteText, WriteFixes, JSON
//
// It changes nothing. Checks are listed in groups; a check examines one thing, and only if the configuration uses it. Without a
// configuration, doctor checks what every bridge needs.
package doctor

import (
	"fmt"
	"io/fs"
	"net/netip"

	"causeway/config"
)

// A Verdict says whether something needs to be fixed.
type Verdict string

// The verdicts. With Warn, the bridge works, but not well or not always.
const (
	OK   Verdict = "ok"
	Warn Verdict = "warn"
	Fail Verdict = "fail"
)

// A Level is the severity of a finding.
type Level string

// The levels.
const (
	Well    Level = "ok"
	Hint    Level = "hint"    // optional; the verdict is OK
	Warning Level = "warning" // the bridge runs, but worse
	Error   Level = "error"   // the bridge, or a part of it, does not run
)

// A Finding is a result of a check.
type Finding struct {
	Group   string  `json:"group"`
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Level   Level   `json:"level"`
	Found   string  `json:"found"` // what, with its value, and why it matters

	// Fix is commands for a root shell; none when nothing needs to be fixed. A line that begins with # is for a person: a file to
	// edit, a boot parameter, or a change that must not be made automatically.
	Fix []string `json:"fix,omitempty"`
}

// A check examines one thing. If bars is set and the check fails or finds nothing, the rest of its group is skipped.
type check struct {
	name string
	look func(*probe) []Finding
	bars bool
}

// A group is a list of checks, in the order in which their fixes must be applied.
type group struct {
	name    string
	anybody bool // it also runs without a configuration
	checks  []check
}

// Findings are the results of checks, in order.
type Findings []Finding

// Sources are what Examine reads.
type Sources struct {
	Sys, Proc, Root fs.FS // /sys, /proc and / of a running machine
	Kernel          Kernel
	Process         Process
	Netdev          string // the IPoIB interface where it is not the port's own, such as a bond; "": find it by the port
}

// A probe is one examination: the configuration and what has been read of the machine.
type probe struct {
	Sources
	cfg             *config.Config // nil: examine the machine alone
	sys, proc, root tree

	machine *Machine
	netdev  string // the IPoIB interface
	roce    string // the kernel's interface of the Ethernet port; "": it has none
}

func newProbe(c *config.Config, s Sources) *probe {
	p := &probe{Sources: s, cfg: c, sys: tree{s.Sys}, proc: tree{s.Proc}, root: tree{s.Root},
		machine: ReadMachine(s.Sys), netdev: s.Netdev}
	if c != nil {
		p.roce = p.roceNetdev()
	}
	return p
}

// Examine runs all checks; without a configuration (nil), those that apply to any bridge.
func Examine(c *config.Config, s Sources) Findings {
	p := newProbe(c, s)
	out := Findings{} // none is [] in JSON
	for _, g := range groups() {
		if c != nil || g.anybody {
			out = append(out, p.examine(g)...)
		}
	}
	return out
}

// examine runs the checks of one group.
func (p *probe) examine(g group) (out Findings) {
	for _, c := range g.checks {
		found := c.look(p)
		for _, f := range found {
			f.Group, f.Check = g.name, c.name
			out = append(out, f)
		}
		if c.bars && (len(found) == 0 || !Findings(found).fine()) {
			break
		}
	}
	return out
}

// groups lists all checks. The machine comes first: without drivers there are no ports.
func groups() []group {
	return []group{
		{"hugepages", true, []check{{"memory", (*probe).checkMemory, false}, {"numa", (*probe).checkMemoryNodes, false}}},
		{"cpu", true, []check{
			{"lcores", (*probe).checkLcores, true},
			{"numa", (*probe).checkNodes, false},
			{"isolated", (*probe).checkIsolated, false},
			{"nohz_full", (*probe).checkTicks, false},
			{"siblings", (*probe).checkSiblings, false},
			{"governor", (*probe).checkGovernor, false},
			{"irqs", (*probe).checkInterrupts, false},
		}},
		{"drivers", true, []check{
			{"pmd", (*probe).checkPMD, false},
			{"card", (*probe).checkCard, false},
			{"rdma_device", (*probe).checkRDMADevice, false},
			{"device_files", (*probe).checkFiles, false},
		}},
		{"iommu", true, []check{{"vfio", (*probe).checkVFIO, false}, {"iommu", (*probe).checkIOMMU, false}}},
		{"link_type", true, []check{{"ib", (*probe).checkIBLink, false}, {"roce", (*probe).checkRoCELink, false}}},
		{"mtu", false, []check{{"roce", (*probe).checkRoCEMTU, false}, {"ib", (*probe).checkIBMTU, false}}},
		{"qos", false, []check{{"pfc", (*probe).checkPFC, false}, {"ecn", (*probe).checkECN, false}}},
		{"roce", false, []check{
			{"link", (*probe).checkRoCEUp, false},
			{"kernel_roce", (*probe).checkKernelRoCE, false},
			{"own_address", (*probe).checkOwnAddress, false},
			{"firewall", (*probe).checkFirewall, false},
		}},
		{"sm", true, []check{{"port", (*probe).checkPorts, true}, {"pkey", (*probe).checkPKey, false}, {"sa", (*probe).checkSA, false}}},
		{"ipoib", false, ipoibChecks()},
		{"clock", true, []check{
			{"synchronised", (*probe).checkSynchronised, false},
			{"clocksource", (*probe).checkClocksource, false},
			{"tsc", (*probe).checkTSC, false},
		}},
		{"limits", true, []check{
			{"capabilities", (*probe).checkCapabilities, false},
			{"memlock", (*probe).checkMemlock, false},
			{"files", (*probe).checkOpenFiles, false},
		}},
	}
}

// ipoibChecks check how InfiniBand nodes resolve RoCE hosts: the kernel answers ARP and ND requests on the IPoIB interface (proxy
// ARP), under many conditions.
func ipoibChecks() []check {
	return []check{
		{"interface", (*probe).findNetdev, true},
		{"link", (*probe).checkLink, true},
		{"mtu", (*probe).checkMTU, false},
		{"gid", (*probe).checkGID, false},
		{"address", (*probe).checkAddresses, false},
		{"forwarding", (*probe).checkForwarding, false},
		{"proxy_arp", (*probe).checkProxyARP, false},
		{"medium_id", (*probe).checkMedium, false},
		{"proxy_delay", (*probe).checkDelay, false},
		{"rp_filter", (*probe).checkReversePath, false},
		{"arp_ignore", (*probe).checkIgnore, false},
		{"arp_announce", (*probe).checkAnnounce, false},
		{"proxy_ndp", (*probe).checkProxyND, false},
		{"nd_entries", (*probe).checkEntries, false},
		{"node_routes", (*probe).checkNodeRoutes, false},
		{"roce_routes", (*probe).checkRoCERoutes, false},
		{"roce_side", (*probe).checkRoCESide, false},
		{"answers", (*probe).checkAnswers, false},
	}
}

func ok(format string, args ...any) Finding {
	return Finding{Verdict: OK, Level: Well, Found: fmt.Sprintf(format, args...)}
}

// fine is a list of one finding without a problem.
func fine(format string, args ...any) []Finding { return []Finding{ok(format, args...)} }

// hint is an optional finding.
func hint(found string, fix ...string) Finding {
	return Finding{Verdict: OK, Level: Hint, Found: found, Fix: fix}
}

// bad is a problem that the commands fix.
func bad(v Verdict, found string, fix ...string) Finding {
	level := Warning
	if v == Fail {
		level = Error
	}
	return Finding{Verdict: v, Level: level, Found: found, Fix: fix}
}

// Errors reports whether there is a finding with the level Error.
func (fs Findings) Errors() bool { return fs.count(Error) > 0 }

func (fs Findings) count(l Level) (n int) {
	for _, f := range fs {
		if f.Level == l {
			n++
		}
	}
	return n
}

// fine reports whether nothing needs to be fixed; hints do not count.
func (fs Findings) fine() bool {
	for _, f := range fs {
		if f.Verdict != OK {
			return false
		}
	}
	return true
}

// hosts returns the configured addresses of one side and IP version, translated to InfiniBand.
func (p *probe) hosts(side config.Side, v6 bool) []netip.Addr {
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

// own returns the bridge's addresses of one IP version, translated to InfiniBand.
func (p *probe) own(v6 bool) []netip.Addr {
	var out []netip.Addr
	for _, n := range p.cfg.RoCE.Addresses {
		if a, ok := p.cfg.Translations().ToIB(n.Addr()); ok && a.Is6() == v6 {
			out = append(out, a)
		}
	}
	return out
}

// subnets returns the IPv4 subnets of the RoCE side, translated to InfiniBand.
func (p *probe) subnets() []netip.Prefix {
	var out []netip.Prefix
	for _, n := range p.cfg.RoCE.Addresses {
		if n.Addr().Is4() {
			there, _ := p.cfg.Translations().PrefixToIB(n)
			out = append(out, there...)
		}
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0

// Package doctor lists a machine's ports, checks a machine for what a configuration needs, and prints commands that fix
// problems.
//
//	configuration, sysfs, /proc, kernel ─▶ Examine ─▶ Findings ─▶ WriteText, WriteFixes, JSON
//
// It changes nothing. Checks are listed in groups; a check examines one thing, and only if the configuration uses it.
// Without a configuration, doctor checks what every bridge needs.
package doctor

import (
	"fmt"
	"io/fs"

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

	// Fix is commands for a root shell; none when nothing needs to be fixed. A line that begins with # is for a person: a
	// file to edit, a boot parameter, or a change that must not be made automatically.
	Fix []string `json:"fix,omitempty"`
}

// A check examines one thing. If bars is set and the check fails or finds nothing, the rest of its group is skipped.
type check struct {
	name string
	look func() []Finding
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

// Examine runs all checks; without a configuration (nil), those that apply to any bridge.
func Examine(c *config.Config, s Sources) Findings {
	if c != nil {
		return examinePairs(c, s)
	}
	out := Findings{} // none is [] in JSON
	for _, g := range groups(nil, s) {
		if g.anybody {
			out = append(out, g.examine()...)
		}
	}
	return out
}

// examine runs the group's checks.
func (g group) examine() (out Findings) {
	for _, c := range g.checks {
		found := c.look()
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
func groups(c *config.Config, s Sources) []group {
	ports := findPorts(c, s)
	memory, cpu, clock, limits := newMemoryProbe(c, s), newCPUProbe(c, s), newClockProbe(s), newLimitsProbe(c, s)
	drivers, cards := newDriverProbe(c, s, ports), newCardProbe(c, s, ports)
	ethernet, sm, losses := newEthernetProbe(c, s, ports), newSMProbe(c, s, ports), newLossProbe(s, ports)
	all := []group{
		{"hugepages", true, []check{{"memory", memory.checkMemory, false}, {"numa", memory.checkMemoryNodes, false}}},
		{"cpu", true, []check{
			{"lcores", cpu.checkLcores, true},
			{"numa", cpu.checkNodes, false},
			{"isolated", cpu.checkIsolated, false},
			{"nohz_full", cpu.checkTicks, false},
			{"siblings", cpu.checkSiblings, false},
			{"governor", cpu.checkGovernor, false},
			{"irqs", cpu.checkInterrupts, false},
		}},
		{"drivers", true, []check{
			{"pmd", drivers.checkPMD, false},
			{"card", drivers.checkCard, false},
			{"rdma_device", drivers.checkRDMADevice, false},
			{"device_files", drivers.checkFiles, false},
		}},
		{"iommu", true, []check{{"vfio", cards.checkVFIO, false}, {"iommu", cards.checkIOMMU, false}}},
		{"link_type", true, []check{{"ib", cards.checkIBLink, false}, {"roce", cards.checkRoCELink, false}}},
		{"mtu", false, []check{{"roce", ethernet.checkRoCEMTU, false}, {"ib", ethernet.checkIBMTU, false}}},
		{"qos", false, []check{{"pfc", ethernet.checkPFC, false}, {"ecn", ethernet.checkECN, false}}},
		{"roce", false, []check{
			{"link", ethernet.checkRoCEUp, false},
			{"bond", ethernet.checkBond, false},
			{"kernel_roce", ethernet.checkKernelRoCE, false},
			{"own_address", ethernet.checkOwnAddress, false},
			{"two_ports", ethernet.checkTwoPorts, false},
			{"firewall", ethernet.checkFirewall, false},
		}},
		{"sm", true, []check{{"port", sm.checkPorts, true}, {"pkey", sm.checkPKeys, false}, {"sa", sm.checkSA, false}}},
		{"losses", false, []check{{"device", losses.checkDevice, false}}},
	}
	for _, p := range newIPoIBProbes(c, s, ports) {
		all = append(all, group{"ipoib", false, p.checks()})
	}
	return append(all, []group{
		{"clock", true, []check{
			{"synchronised", clock.checkSynchronised, false},
			{"clocksource", clock.checkClocksource, false},
			{"tsc", clock.checkTSC, false},
		}},
		{"limits", true, []check{
			{"capabilities", limits.checkCapabilities, false},
			{"memlock", limits.checkMemlock, false},
			{"files", limits.checkOpenFiles, false},
		}},
	}...)
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

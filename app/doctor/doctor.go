// SPDX-License-Identifier: Apache-2.0

// Package doctor looks at a machine for what a configuration needs of it, and says of each thing how it is and which
// command mends it.
//
//	configuration, sysfs, kernel ─▶ Examine ─▶ Findings ─▶ WriteText, WriteFixes, JSON
//
// It changes nothing. What it can look at is a list of checks; each looks at one thing. Those that are here are about the
// way on which InfiniBand nodes find RoCE hosts: the kernel answers their ARP and ND questions on the interface of IP
// over InfiniBand (proxy ARP), under conditions that lie in many places.
package doctor

import (
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"strings"

	"causeway/app/devices"
	"causeway/config"
)

// A Verdict says how a thing is.
type Verdict string

// The verdicts. What only warns works, but not well, or not always.
const (
	OK   Verdict = "ok"
	Warn Verdict = "warn"
	Fail Verdict = "fail"
)

// A Finding is what a check found of one thing.
type Finding struct {
	Check   string   `json:"check"`
	Verdict Verdict  `json:"verdict"`
	Found   string   `json:"found"`
	Fix     []string `json:"fix,omitempty"` // commands for a shell, as root; none when all is well
}

// A check looks at one thing. When it fails and bars is set, those after it have nothing to look at.
type check struct {
	name string
	look func(*patient) []Finding
	bars bool
}

// Findings are those of all checks, in order.
type Findings []Finding

// A patient is a machine, and what a configuration wants of it.
type patient struct {
	cfg    *config.Config
	sys    fs.FS // what /sys is on a running machine
	kernel Kernel

	machine *devices.Machine
	netdev  string // the interface of IP on the InfiniBand side
	named   bool   // by who asks
	roce    string // the interface of the Ethernet side that the kernel has; "": none
}

// A Machine is where Examine looks.
type Machine struct {
	Sys    fs.FS
	Kernel Kernel
	Netdev string // the interface of IP over InfiniBand, where it is not found by the port, such as a bond
}

// Examine looks at all there is to look at.
func Examine(c *config.Config, m Machine) Findings {
	p := &patient{cfg: c, sys: m.Sys, kernel: m.Kernel, machine: devices.Read(m.Sys), netdev: m.Netdev, named: m.Netdev != ""}
	if c.IB.Port.Fabric && !p.named {
		return Findings{{Check: "interface", Verdict: OK, Found: "the software subnet has no IP of its own: there is nothing that the kernel must do for it"}}
	}
	p.roce = p.roceNetdev()
	var out Findings
	for _, c := range checks() {
		found := c.look(p)
		for _, f := range found {
			f.Check = c.name
			out = append(out, f)
		}
		if c.bars && !Findings(found).Fine() {
			break
		}
	}
	return out
}

// checks lists them in the order in which their fixes must be applied.
func checks() []check {
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
	return Finding{Verdict: OK, Found: fmt.Sprintf(format, args...)}
}

// bad is a finding that fix mends.
func bad(v Verdict, found string, fix ...string) Finding {
	return Finding{Verdict: v, Found: found, Fix: fix}
}

// Fine reports whether all is well.
func (fs Findings) Fine() bool {
	for _, f := range fs {
		if f.Verdict != OK {
			return false
		}
	}
	return true
}

// WriteText writes a line for each finding, and below it the commands that mend it.
func (fs Findings) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, f := range fs {
		fmt.Fprintf(&b, "%-4s  %-12s  %s\n", f.Verdict, f.Check, f.Found)
		for _, fix := range f.Fix {
			fmt.Fprintf(&b, "%-4s  %12s  %s\n", "", "fix:", fix)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteFixes writes the commands alone, for a shell.
func (fs Findings) WriteFixes(w io.Writer) error {
	for _, f := range fs {
		for _, fix := range f.Fix {
			if _, err := fmt.Fprintln(w, fix); err != nil {
				return err
			}
		}
	}
	return nil
}

// hosts returns the configuration's addresses of one side and one version of IP.
func (p *patient) hosts(side config.Side, v6 bool) []netip.Addr {
	var out []netip.Addr
	for _, h := range p.cfg.Hosts {
		for _, a := range h.Addrs() {
			if h.Side == side && a.Is6() == v6 {
				out = append(out, a)
			}
		}
	}
	return out
}

// own returns the bridge's addresses of one version of IP.
func (p *patient) own(v6 bool) []netip.Prefix {
	var out []netip.Prefix
	for _, n := range p.cfg.RoCE.Addresses {
		if n.Addr().Is6() == v6 {
			out = append(out, n)
		}
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A clockProbe checks clocks: latencies are measured with the CPU's counter, packet times and one-way latencies with
// the system clock.
type clockProbe struct {
	sys, proc tree
	process   Process
}

func newClockProbe(s Sources) *clockProbe {
	return &clockProbe{sys: tree{s.Sys}, proc: tree{s.Proc}, process: s.Process}
}

// checkSynchronised requires the system clock to be synchronised.
func (p *clockProbe) checkSynchronised() []Finding {
	good, wrong := p.process.Clock()
	if good {
		return fine("synchronised, by at most %v", wrong.Round(10*time.Microsecond))
	}
	return []Finding{hint("the system clock is not synchronised: latencies between machines are wrong, and "+
		"their captures do not match",
		"timedatectl set-ntp true # or chrony, or ptp4l and phc2sys for microseconds")}
}

// checkClocksource requires a clock source that is read without a device access.
func (p *clockProbe) checkClocksource() []Finding {
	const at = "devices/system/clocksource/clocksource0/"
	current, available := p.sys.text(at, "current_clocksource"), strings.Fields(p.sys.text(at, "available_clocksource"))
	if !slices.Contains([]string{"hpet", "acpi_pm", "jiffies", "refined-jiffies"}, current) {
		return fine("clocksource %s", cmp.Or(current, "not known"))
	}
	found := fmt.Sprintf("the clocksource is %s, where each reading takes microseconds", current)
	if slices.Contains(available, "tsc") {
		return []Finding{bad(Warn, found, "echo tsc > /sys/"+at+"current_clocksource")}
	}
	return []Finding{bad(Warn, found, "# the kernel found the TSC to be unstable: dmesg | grep -i tsc")}
}

// checkTSC requires the TSC to run at a constant rate, at any CPU frequency and in sleep states. Other architectures
// than x86 always have such a counter.
func (p *clockProbe) checkTSC() []Finding {
	flags := strings.Fields(field(p.proc.text("cpuinfo"), "flags"))
	if len(flags) == 0 || !slices.Contains(flags, "tsc") {
		return nil
	}
	var lacks []string
	for _, flag := range []string{"constant_tsc", "nonstop_tsc"} {
		if !slices.Contains(flags, flag) {
			lacks = append(lacks, flag)
		}
	}
	if len(lacks) > 0 {
		return []Finding{bad(Warn, fmt.Sprintf("the TSC is not constant (no %s): the bridge's latencies are not reliable, and in a fleet it may give its lease up",
			strings.Join(lacks, ", ")),
			"# in a virtual machine: use the host's CPU model (qemu: -cpu host,+invtsc)")}
	}
	return fine("the TSC is constant")
}

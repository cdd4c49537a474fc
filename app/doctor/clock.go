// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Clocks: the figures of latency come from the CPU's counter, times of packets and one-way latencies from the system's clock.

// checkSynchronised wants the system's clock to be kept right.
func (p *patient) checkSynchronised() []Finding {
	good, wrong := p.process.Clock()
	if good {
		return fine("synchronised, by at most %v", wrong.Round(10*time.Microsecond))
	}
	return []Finding{hint("nothing keeps the system's clock right: latencies from one machine to another mean nothing, and "+
		"captures of two do not match",
		"timedatectl set-ntp true # or chrony, or ptp4l and phc2sys for microseconds")}
}

// checkClocksource wants a clock that is read without asking a device.
func (p *patient) checkClocksource() []Finding {
	const at = "devices/system/clocksource/clocksource0/"
	current, available := p.attr(at, "current_clocksource"), strings.Fields(p.attr(at, "available_clocksource"))
	if !slices.Contains([]string{"hpet", "acpi_pm", "jiffies", "refined-jiffies"}, current) {
		return fine("clocksource %s", cmp.Or(current, "not known"))
	}
	found := fmt.Sprintf("the clocksource is %s, of which each reading takes microseconds", current)
	if slices.Contains(available, "tsc") {
		return []Finding{bad(Warn, found, "echo tsc > /sys/"+at+"current_clocksource")}
	}
	return []Finding{bad(Warn, found, "# the kernel found the CPU's counter not to be steady: dmesg | grep -i tsc")}
}

// checkTSC wants the CPU's counter to go on evenly, whatever the CPU's frequency and sleep. Other machines than x86 have such
// a counter by their architecture.
func (p *patient) checkTSC() []Finding {
	flags := strings.Fields(field(text(p.proc, "cpuinfo"), "flags"))
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
		return []Finding{bad(Warn, fmt.Sprintf("the CPU's counter is not steady (no %s): the bridge's latencies are not to be trusted",
			strings.Join(lacks, ", ")),
			"# in a guest: have its CPU be the host's (qemu: -cpu host,+invtsc)")}
	}
	return fine("the CPU's counter is steady")
}

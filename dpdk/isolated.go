// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"os"
	"strconv"
	"strings"
)

// isolatedCPUs returns the CPUs that the kernel's command line sets aside (isolcpus=). A kernel that does not tell has
// none.
func isolatedCPUs() []int {
	b, err := os.ReadFile("/sys/devices/system/cpu/isolated")
	if err != nil {
		return nil
	}
	return parseCPUs(strings.TrimSpace(string(b)))
}

// parseCPUs reads what cpuList writes, and skips what it does not understand.
func parseCPUs(list string) []int {
	var cpus []int
	for _, part := range strings.Split(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		if err != nil {
			continue
		}
		to, err := strconv.Atoi(last)
		if err != nil {
			continue
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

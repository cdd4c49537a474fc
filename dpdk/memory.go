// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// sysRoot is where /proc and /sys are looked for; tests point it to a tree of their own.
var sysRoot = "/"

// freeHugepagesMiB adds up the hugepages of all sizes that nobody has taken. No mount is needed to use them:
// --in-memory maps them anonymously.
func freeHugepagesMiB() int { return freePagesMiB("sys/kernel/mm/hugepages") }

// freePagesMiB does so for a folder of sysfs, of all nodes or of one.
func freePagesMiB(folder string) int {
	dirs, _ := filepath.Glob(filepath.Join(sysRoot, folder, "hugepages-*kB"))
	total := 0
	for _, dir := range dirs {
		var kB int
		if _, err := fmt.Sscanf(filepath.Base(dir), "hugepages-%dkB", &kB); err != nil {
			continue
		}
		total += readInt(filepath.Join(dir, "free_hugepages"), 0) * kB / 1024
	}
	return total
}

// availableMiB is how much memory this process can still get without swapping: MemAvailable, or what its cgroup
// has left, when that is less.
func availableMiB() int {
	available := memAvailableMiB()
	group := filepath.Join(sysRoot, "sys/fs/cgroup")
	limit := readInt(filepath.Join(group, "memory.max"), -1) // "max" is no number: no limit
	if used := readInt(filepath.Join(group, "memory.current"), -1); limit >= 0 && used >= 0 {
		available = min(available, max(0, limit-used)>>20)
	}
	return available
}

func memAvailableMiB() int {
	f, err := os.Open(filepath.Join(sysRoot, "proc/meminfo"))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kB int
		if _, err := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kB); err == nil {
			return kB / 1024
		}
	}
	return 0
}

func readInt(path string, otherwise int) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return otherwise
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return otherwise
	}
	return n
}

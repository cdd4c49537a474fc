// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Host describes the machine as far as it affects figures.
type Host struct {
	CPU        string `json:"cpu"`
	CPUs       int    `json:"cpus"`
	Caches     string `json:"caches,omitempty"`
	Hypervisor bool   `json:"hypervisor"`
	Kernel     string `json:"kernel"`
	System     string `json:"system"`
	MemoryMiB  int    `json:"memory_mib"`
	Hugepages  string `json:"hugepages"`
	Governor   string `json:"governor,omitempty"`
	Isolated   string `json:"isolated_cpus,omitempty"`
	Load       string `json:"load_before"` // averages over 1, 5 and 15 minutes before the run
}

// ThisHost describes the machine that the program runs on. What cannot be read stays empty.
func ThisHost() Host {
	info := read("/proc/cpuinfo")
	h := Host{
		CPU: field(info, "model name"), CPUs: runtime.NumCPU(), Caches: caches(), Kernel: kernel(),
		Hypervisor: strings.Contains(" "+field(info, "flags")+" ", " hypervisor "),
		System:     strings.Trim(valueOf(read("/etc/os-release"), "PRETTY_NAME", "="), `"`),
		Governor:   read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
		Isolated:   read("/sys/devices/system/cpu/isolated"),
		Load:       strings.Join(firstWords(read("/proc/loadavg"), 3), " "),
	}
	if h.CPU == "" {
		h.CPU = runtime.GOARCH
	}
	memory := read("/proc/meminfo")
	h.MemoryMiB = mib(memory, "MemTotal")
	h.Hugepages = fmt.Sprintf("%s of %s free, %s each", field(memory, "HugePages_Free"), field(memory, "HugePages_Total"), field(memory, "Hugepagesize"))
	return h
}

// AvailableMiB is how much memory the kernel can give; 0: unknown.
func AvailableMiB() int { return mib(read("/proc/meminfo"), "MemAvailable") }

func mib(meminfo, name string) int {
	kB, _ := strconv.Atoi(strings.TrimSuffix(field(meminfo, name), " kB"))
	return kB / 1024
}

// String identifies the machine for comparing figures.
func (h Host) String() string { return fmt.Sprintf("%s, %d CPUs, kernel %s", h.CPU, h.CPUs, h.Kernel) }

func read(name string) string {
	b, _ := os.ReadFile(name)
	return strings.TrimSpace(string(b))
}

// field returns the value of the first line "name: value".
func field(text, name string) string { return valueOf(text, name, ":") }

func valueOf(text, name, separator string) string {
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(line, separator); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func firstWords(text string, n int) []string {
	words := strings.Fields(text)
	return words[:min(n, len(words))]
}

// caches lists the first CPU's, such as "L1d 48K, L2 2048K".
func caches() string {
	dirs, _ := filepath.Glob("/sys/devices/system/cpu/cpu0/cache/index*")
	var out []string
	for _, d := range dirs {
		kind := map[string]string{"Data": "d", "Instruction": "i"}[read(filepath.Join(d, "type"))]
		out = append(out, fmt.Sprintf("L%s%s %s", read(filepath.Join(d, "level")), kind, read(filepath.Join(d, "size"))))
	}
	return strings.Join(out, ", ")
}

func kernel() string {
	var u unix.Utsname
	_ = unix.Uname(&u) // it stays empty
	return unix.ByteSliceToString(u.Release[:])
}

// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// runDelay is how long threads were runnable while another thread had their CPU: the kernel's run delay
// (/proc/PID/task/TID/schedstat). Time taken by a hypervisor is not in it.
func runDelay(threads []string) time.Duration {
	var sum time.Duration
	for _, dir := range threads {
		var ran, delayed uint64
		text, _ := os.ReadFile(filepath.Join(dir, "schedstat")) // a kernel without it, or a process that has ended: unknown
		if n, _ := fmt.Sscan(string(text), &ran, &delayed); n == 2 {
			sum += time.Duration(delayed)
		}
	}
	return sum
}

// lcoreThreads finds the threads of EAL worker lcores in a process, "self" or a number, by name; without lcores all of
// them.
func lcoreThreads(process string, lcores ...uint) []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/" + process + "/task/*")
	for _, dir := range dirs {
		name, _ := os.ReadFile(filepath.Join(dir, "comm")) // it may have ended
		number, ok := strings.CutPrefix(strings.TrimSpace(string(name)), "rte-worker-")
		id, err := strconv.ParseUint(number, 10, 32)
		if ok && err == nil && (len(lcores) == 0 || slices.Contains(lcores, uint(id))) {
			found = append(found, dir)
		}
	}
	return found
}

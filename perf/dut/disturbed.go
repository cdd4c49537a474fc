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

	"golang.org/x/sys/unix"
)

// runDelay is how long threads have been ready to run and did not, because something else had their CPUs: the kernel's
// run delay (proc(5), /proc/PID/task/TID/schedstat). What a hypervisor takes is not in it.
func runDelay(threads []string) time.Duration {
	var sum time.Duration
	for _, dir := range threads {
		var ran, delayed uint64
		text, _ := os.ReadFile(filepath.Join(dir, "schedstat")) // a kernel without it, or a process that has ended: no delay is known
		if n, _ := fmt.Sscan(string(text), &ran, &delayed); n == 2 {
			sum += time.Duration(delayed)
		}
	}
	return sum
}

// lcoreThreads finds the EAL's worker threads in a process, "self" or a number, by their names; without lcores all of them.
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

// favour sets the nice value of the lcores' threads: below 0 they are served before other programs.
func favour(lcores []uint, nice int) error {
	for _, dir := range lcoreThreads("self", lcores...) {
		tid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil {
			err = unix.Setpriority(unix.PRIO_PROCESS, tid, nice)
		}
		if err != nil {
			return fmt.Errorf("dut: nice value %d: %w; below 0 it needs root", nice, err)
		}
	}
	return nil
}

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

// waited is how long the threads of the pairs' lcores have been ready to run and did not, because something else had
// their CPUs: the kernel's run delay (proc(5), /proc/PID/task/TID/schedstat). What a hypervisor takes is not in it.
func (b *Bridge) waited() time.Duration {
	if b.threads == nil {
		b.threads = lcoreThreads(append(slices.Clone(b.cfg.Workers), b.cfg.Generators...))
	}
	var sum time.Duration
	for _, dir := range b.threads {
		var ran, delayed uint64
		text, _ := os.ReadFile(filepath.Join(dir, "schedstat")) // a kernel without it: no delay is known
		if n, _ := fmt.Sscan(string(text), &ran, &delayed); n == 2 {
			sum += time.Duration(delayed)
		}
	}
	return sum
}

// lcoreThreads finds the EAL's threads by their names.
func lcoreThreads(lcores []uint) []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/self/task/*")
	for _, dir := range dirs {
		name, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil {
			continue // it has ended
		}
		for _, l := range lcores {
			if strings.TrimSpace(string(name)) == fmt.Sprintf("rte-worker-%d", l) {
				found = append(found, dir)
			}
		}
	}
	return found
}

// favour sets the nice value of the lcores' threads: below 0 they are served before other programs.
func favour(lcores []uint, nice int) error {
	for _, dir := range lcoreThreads(lcores) {
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

// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// keepOff keeps the process' threads off the workers' CPUs, where each of their turns would interrupt a worker that
// polls. It comes after the workers' own threads, which have no other CPU and are left there; threads that are made
// later inherit it. Where workers have every CPU, all stays as it is.
func keepOff(cpus []int) error {
	done := map[int]bool{}
	for before := -1; len(done) > before; { // a thread may be made by one that has not had its turn yet
		before = len(done)
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("bridge: threads of this process: %w", err)
		}
		for _, t := range threads {
			tid, err := strconv.Atoi(t.Name())
			if err != nil || done[tid] {
				continue
			}
			if err := moveOff(tid, cpus); err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: it has ended
				return fmt.Errorf("bridge: keep a thread off the workers' CPUs: %w", err)
			}
			done[tid] = true
		}
	}
	return nil
}

// moveOff takes CPUs away from a thread, unless it has no others.
func moveOff(tid int, cpus []int) error {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(tid, &set); err != nil {
		return err
	}
	for _, cpu := range cpus {
		set.Clear(cpu)
	}
	if set.Count() == 0 {
		return nil
	}
	return unix.SchedSetaffinity(tid, &set)
}

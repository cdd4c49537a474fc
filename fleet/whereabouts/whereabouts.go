// SPDX-License-Identifier: Apache-2.0

// Package whereabouts tells for certain that a process has ended, so that others need not wait for it.
package whereabouts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Of returns where a process is: the boot of its machine, its namespace of process numbers, its number there, and when
// it began, in ticks since the boot. No other process ever has the same.
func Of(pid int) (string, error) {
	where, _, err := of(pid)
	return where, err
}

// of also returns the process's state, a letter of proc(5).
func of(pid int) (where, state string, err error) {
	machine, err := here()
	if err != nil {
		return "", "", err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", "", err
	}
	const began = 22 - 3 // proc(5): the 22nd field; the first two end with the last parenthesis
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) <= began {
		return "", "", fmt.Errorf("whereabouts: /proc/%d/stat has %d fields", pid, len(fields)+2)
	}
	return fmt.Sprintf("%s/%d/%s", machine, pid, fields[began]), fields[0], nil
}

// here is the boot of this machine, and this process's namespace.
func here() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	return strings.TrimSpace(string(boot)) + "/" + namespace, err
}

// Ended reports whether the process that was there has ended. The error says why that cannot be known here.
func Ended(where string) (bool, error) {
	machine, err := here()
	if err != nil {
		return false, err
	}
	rest, same := strings.CutPrefix(where, machine+"/")
	number, _, _ := strings.Cut(rest, "/")
	pid, err := strconv.Atoi(number)
	if !same || err != nil {
		return false, errors.New("it is on another machine or in another container, or this machine has started anew")
	}
	now, state, err := of(pid)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil && (now != where || state == zombie && alone(pid)), err
}

// zombie is the state of a process that nobody has waited for yet. Of one whose first thread has ended before others, too.
const zombie = "Z"

// alone reports whether a process has no other thread.
func alone(pid int) bool {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return err == nil && len(threads) <= 1
}

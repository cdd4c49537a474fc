// SPDX-License-Identifier: Apache-2.0

// Package whereabouts tells for certain that a process has ended, so that others need not wait for it.
package whereabouts

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// place is where a process is.
type place struct {
	boot      string // of its machine
	namespace string // of its number
	pid       int
	began     string // in ticks since the boot
	machine   string // as machine returns it
}

// Of returns where a process is: the boot of its machine, its namespace of process numbers, its number there, when it began, in
// ticks since the boot, and its machine. No other process ever has the same.
func Of(pid int) (string, error) {
	p, _, err := of(pid)
	return fmt.Sprintf("%s/%s/%d/%s/%s", p.boot, p.namespace, p.pid, p.began, p.machine), err
}

// parse reads what Of returned, also of versions before this, which had no machine.
func parse(where string) (p place, is bool) {
	fields := strings.Split(where, "/")
	if len(fields) < 4 || len(fields) > 5 {
		return p, false
	}
	pid, err := strconv.Atoi(fields[2])
	p = place{boot: fields[0], namespace: fields[1], pid: pid, began: fields[3]}
	if len(fields) == 5 {
		p.machine = fields[4]
	}
	return p, err == nil
}

// of also returns the process's state, a letter of proc(5).
func of(pid int) (p place, state string, err error) {
	if p, err = here(); err != nil {
		return p, "", err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, "", err
	}
	const began = 22 - 3 // proc(5): the 22nd field; the first two end with the last parenthesis
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) <= began {
		return p, "", fmt.Errorf("whereabouts: /proc/%d/stat has %d fields", pid, len(fields)+2)
	}
	p.pid, p.began = pid, fields[began]
	return p, fields[0], nil
}

// here is what all processes of this namespace have.
func here() (p place, err error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return p, err
	}
	p.boot = strings.TrimSpace(string(boot))
	if p.namespace, err = os.Readlink("/proc/self/ns/pid"); err == nil {
		p.machine = machine("/", p.namespace)
	}
	return p, err
}

// first is the namespace of a machine's own processes (PROC_PID_INIT_INO of linux/proc_ns.h).
const first = "pid:[4026531836]"

// machine tells a machine from others, after it has started anew, too: by machine-id(5), which is not to be told to others, and by
// the number that its maker or its hypervisor gave it, because copies of a virtual machine may have the same machine-id. "": a
// container, whose image may have any, or a machine without one.
func machine(root, namespace string) string {
	id, err := os.ReadFile(filepath.Join(root, "etc/machine-id"))
	if err != nil || namespace != first || len(strings.TrimSpace(string(id))) != 32 {
		return ""
	}
	number, _ := os.ReadFile(filepath.Join(root, "sys/class/dmi/id/product_uuid")) // not all have one, and only root may know
	sum := sha256.Sum256(append(append([]byte("causeway "), id...), number...))
	return hex.EncodeToString(sum[:8])
}

// Ended reports whether the process that was there has ended. The error says why that cannot be known here.
func Ended(where string) (bool, error) {
	own, err := here()
	if err != nil {
		return false, err
	}
	return endedFor(own, where)
}

// endedFor is Ended for a process of this place.
func endedFor(own place, where string) (bool, error) {
	was, is := parse(where)
	switch {
	case is && was.boot != own.boot && was.machine != "" && was.machine == own.machine:
		return true, nil // this machine has started anew
	case !is || was.boot != own.boot || was.namespace != own.namespace:
		return false, errors.New("it is on another machine or in another container, or this machine has started anew")
	}
	now, state, err := of(was.pid)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil && (now.began != was.began || state == zombie && alone(was.pid)), err
}

// zombie is the state of a process that nobody has waited for yet. Of one whose first thread has ended before others, too.
const zombie = "Z"

// alone reports whether a process has no other thread.
func alone(pid int) bool {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return err == nil && len(threads) <= 1
}

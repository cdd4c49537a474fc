// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A threadStatus is /proc/PID/task/TID/status, by key.
type threadStatus map[string]string

// number returns a value in a base.
func (s threadStatus) number(t *testing.T, key string, base int) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s[key], base, 64)
	if err != nil {
		t.Fatalf("%s of %s: %v", key, s["Name"], err)
	}
	return n
}

// threads reads the status of each thread of a process.
func threads(t *testing.T, pid int) (all []threadStatus) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("threads of %d: %v, %v", pid, files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		s := threadStatus{}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(line, ":")
			s[key] = strings.TrimSpace(value)
		}
		all = append(all, s)
	}
	return all
}

// rightsOf counts the threads of a process, and those with another system call filter than this process has; and
// returns the capabilities that any of them has or may get.
func rightsOf(t *testing.T, pid int) (all, filtered, locked int, capabilities uint64) {
	t.Helper()
	own := threads(t, os.Getpid())[0].number(t, "Seccomp_filters", 10)
	for _, s := range threads(t, pid) {
		all++
		if n := s.number(t, "Seccomp_filters", 10); n != own {
			filtered++
			if n != own+1 || s["Seccomp"] != "2" || !strings.Contains(s["Name"], "worker") {
				t.Errorf("thread %s has %d filters in mode %s", s["Name"], n, s["Seccomp"])
			}
		}
		locked += int(s.number(t, "NoNewPrivs", 10))
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
			capabilities |= s.number(t, set, 16)
		}
	}
	return all, filtered, locked, capabilities
}

// TestRights reads what the threads of running bridges may do. This one has no port of the machine, and so needs no
// capability.
func TestRights(t *testing.T) {
	p, _ := launchBridge(t)
	all, filtered, locked, capabilities := rightsOf(t, p.cmd.Process.Pid)
	if filtered != 1 || locked != all || capabilities != 0 {
		t.Errorf("%d threads: %d with a filter, %d with no_new_privs, capabilities %#x", all, filtered, locked, capabilities)
	}
	if got := p.line("rights")["capabilities"]; got != "none" {
		t.Errorf("it says that it has %v", got)
	}
	p.end(syscall.SIGTERM)
}

// TestRightsUnconfined checks that a bridge for debugging keeps what it has.
func TestRightsUnconfined(t *testing.T) {
	p := launch(t, "run", "-unconfined", "-c", bridgeIn(t))
	p.awaitLine(`"msg":"ready"`)
	_, _, lockedHere, here := rightsOf(t, os.Getpid())
	_, filtered, locked, capabilities := rightsOf(t, p.cmd.Process.Pid)
	if filtered != 0 || locked > 0 != (lockedHere > 0) || capabilities != here {
		t.Errorf("%d threads with a filter, %d with no_new_privs, capabilities %#x; this process has %#x", filtered, locked, capabilities, here)
	}
	p.end(syscall.SIGTERM)
}

// TestRightsOfPorts checks what bridges keep for a port of the machine, and that they end properly with it.
func TestRightsOfPorts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making an interface takes root")
	}
	const packet = 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_NET_RAW | 1<<unix.CAP_IPC_LOCK
	file := bridgeIn(t, `port = "ring"`, `port = "tap:dtap0"`, "mtu = 4200", "mtu = 1500")
	cmd := exec.Command(os.Args[0], "run", "-c", file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	p := start(t, cmd)
	p.awaitLine(`"msg":"ready"`)
	all, filtered, locked, capabilities := rightsOf(t, p.cmd.Process.Pid)
	if filtered != 1 || locked != all || capabilities != packet {
		t.Errorf("%d threads: %d with a filter, %d with no_new_privs, capabilities %#x", all, filtered, locked, capabilities)
	}
	p.end(syscall.SIGTERM)
}

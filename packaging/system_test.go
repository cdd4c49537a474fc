// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package packaging

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// release is the Debian that packages and images are for.
const release = "bookworm"

// must runs a program of this machine and returns what it prints.
func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// needs fails if a program is missing, and names its package. Each is name:package.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("root is needed, to make file systems' trees and namespaces: run sudo make packages")
	}
	for _, p := range programs {
		program, pkg, _ := strings.Cut(p, ":")
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is missing: apt-get install %s", program, pkg)
		}
	}
}

// base is a Debian tree, made once.
var base struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if base.dir != "" {
		if err := os.RemoveAll(base.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// debian returns the tree of a small Debian, from the mirror that this machine's apt uses. Callers must not change it.
func debian(t *testing.T) string {
	t.Helper()
	needs(t, "debootstrap:debootstrap", "apt-get:apt")
	base.once.Do(func() { base.dir, base.err = bootstrap() })
	if base.err != nil {
		t.Fatal(base.err)
	}
	return filepath.Join(base.dir, "tree")
}

func bootstrap() (string, error) {
	mirror, err := mirrorOfApt()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "causeway-debian")
	if err != nil {
		return "", err
	}
	tree := filepath.Join(dir, "tree")
	if out, err := exec.Command("debootstrap", "--variant=minbase", release, tree, mirror).CombinedOutput(); err != nil {
		return dir, fmt.Errorf("debootstrap: %w\n%s", err, tail(string(out)))
	}
	// The tree's apt gets this machine's proxy settings.
	settings, err := exec.Command("sh", "-c", `apt-config dump | grep -E '^Acquire::(https?::|Retries|Check)' || true`).Output()
	if err != nil {
		return dir, err
	}
	if err := os.WriteFile(filepath.Join(tree, "etc/apt/apt.conf.d/99host"), settings, 0o644); err != nil {
		return dir, err
	}
	for _, useless := range []string{"var/cache/apt/archives", "var/lib/apt/lists"} {
		if err := os.RemoveAll(filepath.Join(tree, useless)); err != nil {
			return dir, err
		}
	}
	return dir, nil
}

// mirrorOfApt returns where apt has the release from.
func mirrorOfApt() (string, error) {
	out, err := exec.Command("apt-get", "indextargets", "--format", "$(CODENAME) $(ORIGIN) $(COMPONENT) $(REPO_URI)",
		"Created-By: Packages").Output()
	if err != nil {
		return "", fmt.Errorf("apt-get indextargets: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 4 && f[0] == release && f[1] == "Debian" && f[2] == "main" {
			return f[3], nil
		}
	}
	return "", errors.New("apt has no " + release + " main of Debian among its sources")
}

// tail returns the last lines of a program's output.
func tail(s string) string {
	const most = 4000
	if len(s) > most {
		s = "…" + s[len(s)-most:]
	}
	return s
}

// copyOf copies a tree to a folder that is removed with the test.
func copyOf(t *testing.T, tree string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "causeway-tree")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	to := filepath.Join(dir, "tree")
	must(t, "cp", "-a", "--reflink=auto", tree, to)
	return to
}

// A machine is a tree booted by systemd-nspawn, with a systemd of its own.
type machine struct {
	t      *testing.T
	leader string // process id of its init on this machine
}

// boot boots a tree. Its network has only what the test adds.
func boot(t *testing.T, tree string) *machine {
	t.Helper()
	needs(t, "systemd-nspawn:systemd-container", "nsenter:util-linux", "pgrep:procps", "ip:iproute2")
	// DPDK reads /sys/module; the bridge locks memory.
	flags := []string{"--quiet", "--directory=" + tree, "--keep-unit", "--register=no", "--private-network",
		"--bind-ro=/sys/module", "--capability=CAP_IPC_LOCK,CAP_NET_ADMIN,CAP_NET_RAW", "--console=pipe"}
	if out, err := exec.Command("systemd-nspawn", append(flags, "/bin/true")...).CombinedOutput(); err != nil {
		t.Skipf("built and installed, but not started: systemd-nspawn cannot run anything on this machine: %v\n%s", err, out)
	}
	cmd := exec.Command("systemd-nspawn", append(flags, "--boot")...)
	var console bytes.Buffer
	cmd.Stdout, cmd.Stderr = &console, &console
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }() // its exit code does not matter
	m := &machine{t: t}
	t.Cleanup(func() {
		if m.leader != "" {
			_, _ = m.run("systemctl", "poweroff") // it may lose the connection
		}
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Error("the machine does not power off")
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	m.await("the machine is up", func() bool {
		select {
		case <-ended:
			t.Fatalf("systemd-nspawn has ended; it said\n%s", console.String())
		default:
		}
		out, err := exec.Command("pgrep", "-P", fmt.Sprint(cmd.Process.Pid)).Output()
		if err != nil {
			return false
		}
		m.leader = strings.Fields(string(out))[0]
		state, _ := m.run("systemctl", "is-system-running")
		return state == "running" || state == "degraded"
	})
	return m
}

// run runs a program in the machine, as root.
func (m *machine) run(words ...string) (string, error) {
	out, err := exec.Command("nsenter", append([]string{"-t", m.leader, "-a"}, words...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// must runs a program in the machine, and fails the test if it fails.
func (m *machine) must(words ...string) string {
	m.t.Helper()
	out, err := m.run(words...)
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return out
}

// await waits up to a minute for a condition.
func (m *machine) await(what string, so func() bool) {
	m.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !so(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			log, _ := m.run("journalctl", "--no-pager", "-n", "40")
			m.t.Fatalf("%s: not within a minute\n%s", what, log)
		}
	}
}

// unit returns a property of the bridge's unit.
func (m *machine) unit(property string) string {
	m.t.Helper()
	return m.must("systemctl", "show", "causeway.service", "--value", "-p", property)
}

// within runs a test of the machine as a subtest.
func (m *machine) within(t *testing.T, name string, test func(m *machine)) bool {
	t.Helper()
	return t.Run(name, func(t *testing.T) { test(&machine{t: t, leader: m.leader}) })
}

// SPDX-License-Identifier: Apache-2.0

// Package opensmtest provides subnets for tests: ibsim simulates a subnet, and the real opensm manages it. The
// processes end with the test. Where these programs are missing, the test is skipped, and fails if the environment has
// CI set.
package opensmtest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"causeway/ibside/sa"
)

// preload is the library that replaces the kernel's user_mad device for opensm, and uses ibsim instead.
const preload = "/usr/lib/*/umad2sim/libumad2sim.so"

// topology is the simulated subnet: a switch with the SM's host, the bridge, and others.
const topology = `Switch 8 "switch"
[1] "smhost"[1]
[2] "bridge"[1]
[3] "hosta"[1]
[4] "hostb"[1]
[5] "standby"[1]

Hca 1 "smhost"
[1] "switch"[1]

Hca 1 "bridge"
[1] "switch"[2]

Hca 1 "hosta"
[1] "switch"[3]

Hca 1 "hostb"
[1] "switch"[4]

Hca 1 "standby"
[1] "switch"[5]
`

// needSimulator returns the paths of ibsim, opensm and the library between them. Without them the test fails in CI, and
// is skipped elsewhere.
func needSimulator(t testing.TB) (library string) {
	t.Helper()
	found, _ := filepath.Glob(preload)
	_, noSim := exec.LookPath("ibsim")
	_, noSM := exec.LookPath("opensm")
	if len(found) > 0 && noSim == nil && noSM == nil {
		return found[0]
	}
	const missing = "ibsim or opensm is not installed: no subnet manager to test against (apt-get install opensm ibsim-utils)"
	if os.Getenv("CI") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// Subnet is a simulated subnet of one test alone: a switch with the hosts "smhost", "bridge", "hosta", "hostb" and
// "standby".
type Subnet struct {
	Name    string // the name of its sockets
	Dir     string
	Library string // replaces the kernel's user_mad device for a program

	t    testing.TB
	sims io.Writer // ibsim's console
}

// Start starts ibsim, without an SM.
func Start(t testing.TB) *Subnet {
	t.Helper()
	s := &Subnet{t: t, Library: needSimulator(t), Dir: t.TempDir()}
	s.Name = fmt.Sprintf("%s-%d-%d", strings.ReplaceAll(t.Name(), "/", "-"), os.Getpid(), time.Now().UnixNano()%1e6)
	net := filepath.Join(s.Dir, "net")
	if err := os.WriteFile(net, []byte(topology), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ibsim", "-s", net)
	cmd.Env = append(os.Environ(), "IBSIM_SOCKNAME="+s.Name)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.sims = in
	p := s.start(cmd, "ibsim")
	p.await("Network simulator ready", time.Minute)
	return s
}

// Process is a program of the test, with its output.
type Process struct {
	t      testing.TB
	cmd    *exec.Cmd
	name   string
	exited chan struct{}
}

// start starts a program that ends with the test, at the latest.
func (s *Subnet) start(cmd *exec.Cmd, name string) *Process {
	s.t.Helper()
	out, err := os.Create(filepath.Join(s.Dir, fmt.Sprintf("%s-%d.out", name, time.Now().UnixNano())))
	if err != nil {
		s.t.Fatal(err)
	}
	defer out.Close()
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // in case the test itself is killed
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	p := &Process{t: s.t, cmd: cmd, name: out.Name(), exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(p.exited)
	}()
	s.t.Cleanup(p.Kill)
	return p
}

// Kill ends the program as a crash would.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// await waits until the program has written a text.
func (p *Process) await(text string, patience time.Duration) {
	p.t.Helper()
	awaitIn(p.t, p.name, text, patience)
}

// awaitIn waits until a file contains a text.
func awaitIn(t testing.TB, file, text string, patience time.Duration) {
	t.Helper()
	if !HasWritten(file, text, patience) {
		b, _ := os.ReadFile(file)
		t.Fatalf("%s has not written %q within %v, but:\n%s", filepath.Base(file), text, patience, tail(b))
	}
}

// HasWritten waits until a file contains a text, or the time is over.
func HasWritten(file, text string, patience time.Duration) bool {
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		b, _ := os.ReadFile(file)
		if bytes.Contains(b, []byte(text)) {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }

// Stop stops a program and waits until all its threads are stopped.
func (p *Process) Stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		p.t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		running := 0
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
		for _, name := range threads {
			stat, _ := os.ReadFile(name)
			if _, after, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(after, "T") {
				running++
			}
		}
		if len(threads) > 0 && running == 0 {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("%d threads of %d are not stopped", running, len(threads))
		}
	}
}

// Continue undoes Stop.
func (p *Process) Continue() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		p.t.Fatal(err)
	}
}

// Console sends ibsim a command.
func (s *Subnet) Console(command string) {
	s.t.Helper()
	if _, err := io.WriteString(s.sims, command+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

// Manager is an opensm.
type Manager struct {
	*Process
	Log string // the file
}

// opensm and its library wait for ever for a datagram that was lost because its receiver ended: the library has none of
// the kernel's timeouts. So an opensm that is not up within some time is started again, several times.
const UpTries = 5

// UpPatience is how long a try may take. Each has twice as long as the one before: it may be that the machine is busy.
func UpPatience(try int) time.Duration { return 4 * time.Second << (try - 1) }

// Manage starts opensm at a host and waits until it has brought up the subnet.
func (s *Subnet) Manage(host string, args ...string) *Manager {
	s.t.Helper()
	for try := 1; ; try++ {
		m := s.StartManager(host, args...)
		if HasWritten(m.Log, "SUBNET UP", UpPatience(try)) {
			return m
		}
		if try == UpTries {
			s.t.Fatalf("opensm has not brought up the subnet in %d tries", try)
		}
		m.Kill()
	}
}

// StartManager starts opensm at a host.
func (s *Subnet) StartManager(host string, args ...string) *Manager {
	s.t.Helper()
	dir := filepath.Join(s.Dir, fmt.Sprintf("%s-%d", host, time.Now().UnixNano()))
	if err := os.Mkdir(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	cmd := exec.Command("opensm", append([]string{"-e", "-f", log, "-d", "2", "-s", "1"}, args...)...)
	cmd.Env = append(os.Environ(), "IBSIM_SOCKNAME="+s.Name, "SIM_HOST="+host, "LD_PRELOAD="+s.Library,
		"OSM_TMP_DIR="+dir, "OSM_CACHE_DIR="+dir,
		// libumad2sim leaves a received MAD's pkey_index as malloc's memory has it. opensm compares it, so that it took a
		// subscription for another port's, once in some hundred: all that malloc returns is zeros.
		"GLIBC_TUNABLES=glibc.malloc.perturb=255:glibc.malloc.tcache_count=0")
	return &Manager{s.start(cmd, "opensm-"+host), log}
}

// Client attaches to a host.
func (s *Subnet) Client(host string, cfg sa.Config) *sa.Client {
	s.t.Helper()
	port, err := DialIbsim(s.Name, host)
	if err != nil {
		s.t.Fatal(err)
	}
	c := sa.NewClient(port, cfg)
	s.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			s.t.Error(err)
		}
		CheckStats(s.t, host, c.Stats())
	})
	return c
}

// CheckStats asserts that each received MAD is counted as handled or dropped.
func CheckStats(t testing.TB, who string, s sa.Stats) {
	t.Helper()
	sum := s.Answers + s.Segments + s.Notices + s.Repeated + s.NoticesDropped + s.Late + s.Ignored + s.Lost
	if s.Received != sum {
		t.Errorf("%s: %d MADs were received, %d are accounted for: %+v", who, s.Received, sum, s)
	}
}

// failover makes a standby SM notice the master's end quickly.
const failover = "sminfo_polling_timeout 100\npolling_retry_number 2\n"

// ManagePair starts a master at "smhost" and a standby at "standby". It returns false when the standby has not come up,
// which is opensm's affair and no failure of the test: see UpPatience.
func (s *Subnet) ManagePair(try int) (master, standby *Manager, ok bool) {
	s.t.Helper()
	conf := filepath.Join(s.Dir, "failover.conf")
	if err := os.WriteFile(conf, []byte(failover), 0o600); err != nil {
		s.t.Fatal(err)
	}
	master = s.Manage("smhost", "-p", "10", "-F", conf)
	standby = s.StartManager("standby", "-p", "1", "-F", conf)
	return master, standby, HasWritten(standby.Log, "Entering STANDBY", UpPatience(try))
}

// SPDX-License-Identifier: Apache-2.0

package sa_test

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

	"causeway/ibside/ib"
	"causeway/ibside/sa"
)

// preload stands between opensm and the kernel's user_mad device, and speaks to ibsim instead.
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

// needSimulator says where ibsim, opensm and the library between them are. Without them the test fails where tests run
// for the record, and says so elsewhere.
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

// subnet is a simulated subnet of this test alone.
type subnet struct {
	t       testing.TB
	name    string // of its sockets
	dir     string
	library string
	sims    io.Writer // ibsim's console
}

// startSubnet starts ibsim, without an SM.
func startSubnet(t testing.TB) *subnet {
	t.Helper()
	s := &subnet{t: t, library: needSimulator(t), dir: t.TempDir()}
	s.name = fmt.Sprintf("%s-%d-%d", strings.ReplaceAll(t.Name(), "/", "-"), os.Getpid(), time.Now().UnixNano()%1e6)
	net := filepath.Join(s.dir, "net")
	if err := os.WriteFile(net, []byte(topology), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ibsim", "-s", net)
	cmd.Env = append(os.Environ(), "IBSIM_SOCKNAME="+s.name)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.sims = in
	p := s.start(cmd, "ibsim")
	p.await("Network simulator ready", 5*time.Second)
	return s
}

// process is a program of the test, with what it has written.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	name   string
	exited chan struct{}
}

// start starts a program that ends with the test, at the latest.
func (s *subnet) start(cmd *exec.Cmd, name string) *process {
	s.t.Helper()
	out, err := os.Create(filepath.Join(s.dir, fmt.Sprintf("%s-%d.out", name, time.Now().UnixNano())))
	if err != nil {
		s.t.Fatal(err)
	}
	defer out.Close()
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // should the test itself be killed
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	p := &process{t: s.t, cmd: cmd, name: out.Name(), exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(p.exited)
	}()
	s.t.Cleanup(p.kill)
	return p
}

// kill ends the program as a crash would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// await waits until the program has written a text.
func (p *process) await(text string, patience time.Duration) {
	p.t.Helper()
	awaitIn(p.t, p.name, text, patience)
}

// awaitIn waits until a file has a text.
func awaitIn(t testing.TB, file, text string, patience time.Duration) {
	t.Helper()
	if !hasWritten(file, text, patience) {
		b, _ := os.ReadFile(file)
		t.Fatalf("%s has not written %q within %v, but:\n%s", filepath.Base(file), text, patience, tail(b))
	}
}

// hasWritten waits until a file has a text, or patience ends.
func hasWritten(file, text string, patience time.Duration) bool {
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

// console gives ibsim a command.
func (s *subnet) console(command string) {
	s.t.Helper()
	if _, err := io.WriteString(s.sims, command+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

// manager is an opensm.
type manager struct {
	*process
	log string
}

// opensm and its library wait for ever for a datagram that died with its receiver: the library has none of the kernel's
// timeouts. So what does not come up in this time is started anew, some times.
const (
	upPatience = 4 * time.Second
	upTries    = 4
)

// manage starts opensm at a host and waits until it has brought up the subnet.
func (s *subnet) manage(host string, args ...string) *manager {
	s.t.Helper()
	for try := 1; ; try++ {
		m := s.manager(host, args...)
		if hasWritten(m.log, "SUBNET UP", upPatience) {
			return m
		}
		if try == upTries {
			s.t.Fatalf("opensm has not brought up the subnet in %d tries", try)
		}
		m.kill()
	}
}

func (s *subnet) manager(host string, args ...string) *manager {
	s.t.Helper()
	dir := filepath.Join(s.dir, fmt.Sprintf("%s-%d", host, time.Now().UnixNano()))
	if err := os.Mkdir(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	cmd := exec.Command("opensm", append([]string{"-e", "-f", log, "-d", "2", "-s", "1"}, args...)...)
	cmd.Env = append(os.Environ(), "IBSIM_SOCKNAME="+s.name, "SIM_HOST="+host, "LD_PRELOAD="+s.library,
		"OSM_TMP_DIR="+dir, "OSM_CACHE_DIR="+dir)
	return &manager{s.start(cmd, "opensm-"+host), log}
}

// client attaches to a host.
func (s *subnet) client(host string, cfg sa.Config) *sa.Client {
	s.t.Helper()
	port, err := sa.DialIbsim(s.name, host)
	if err != nil {
		s.t.Fatal(err)
	}
	c := sa.NewClient(port, cfg)
	s.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			s.t.Error(err)
		}
		checkBooks(s.t, host, c.Stats())
	})
	return c
}

// checkBooks asserts that each MAD that came is counted by what became of it.
func checkBooks(t testing.TB, who string, s sa.Stats) {
	t.Helper()
	sum := s.Answers + s.Segments + s.Notices + s.Repeated + s.NoticesDropped + s.Late + s.Ignored + s.Lost
	if s.Received != sum {
		t.Errorf("%s: %d MADs were received, %d are accounted for: %+v", who, s.Received, sum, s)
	}
}

func gid(s string) ib.GID {
	g, err := ib.ParseGID(s)
	if err != nil {
		panic(err)
	}
	return g
}

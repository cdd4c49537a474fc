// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// mainVariable makes the test binary run the program: tests of processes start their own binary again with it.
const mainVariable = "CAUSEWAY_TEST_IS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainVariable) != "" {
		main() // does not return
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "10") // those that say so wait more than they compute
	os.Exit(m.Run())
}

// text is the output of a process.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

// A program is causeway in a process of its own.
type program struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr text
	done           chan struct{}
}

// launch starts it. The test's end kills what still runs.
func launch(t *testing.T, args ...string) *program {
	t.Helper()
	return start(t, exec.Command(os.Args[0], args...))
}

// launchOn starts it with one CPU to use.
func launchOn(t *testing.T, cpu string, args ...string) *program {
	t.Helper()
	return start(t, exec.Command("taskset", append([]string{"-c", cpu, os.Args[0]}, args...)...))
}

// launchAs starts it as a user without privileges. The program is copied to where that user may read it.
func launchAs(t *testing.T, user uint32, args ...string) *program {
	t.Helper()
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "causeway")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "causeway")
	if err := errors.Join(os.WriteFile(file, program, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(file, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	return start(t, cmd)
}

func start(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	return startWith(t, cmd, nil)
}

// startWith starts it with another file as its standard error; nil: none.
func startWith(t *testing.T, cmd *exec.Cmd, stderr *os.File) *program {
	t.Helper()
	p := &program{t: t, cmd: cmd, done: make(chan struct{})}
	p.cmd.Env = append(cmd.Environ(), mainVariable+"=1")
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if stderr != nil {
		p.cmd.Stderr = stderr
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		var exit *exec.ExitError
		if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
			t.Errorf("%v: %v", cmd, err)
		}
	}()
	t.Cleanup(func() {
		select {
		case <-p.done:
		default:
			_ = p.cmd.Process.Kill() // an error means that it has already ended
			<-p.done
		}
	})
	return p
}

// within is how long anything may take: these processes share a few CPUs with others.
const within = 3 * time.Minute

// await waits until said reports true; it fails when the process ends first.
func (p *program) await(what string, said func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(within); !said(); time.Sleep(10 * time.Millisecond) {
		select {
		case <-p.done:
			if said() {
				return
			}
			p.t.Fatalf("%s: it ended with exit code %d instead; its output:\n%v%v", what, p.cmd.ProcessState.ExitCode(), &p.stdout, &p.stderr)
		default:
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s: not within %v; its output:\n%v%v", what, within, &p.stdout, &p.stderr)
		}
	}
}

// awaitLine waits for a part of what it prints to stderr.
func (p *program) awaitLine(part string) {
	p.t.Helper()
	p.await("a line with "+part, func() bool { return strings.Contains(p.stderr.String(), part) })
}

// wait waits for the end and returns the exit code, -1 for a signal's.
func (p *program) wait() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		p.t.Fatalf("it does not end; its output:\n%v%v", &p.stdout, &p.stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

// end sends a signal and checks that the exit code is 0.
func (p *program) end(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
	if code := p.wait(); code != exitOK {
		p.t.Fatalf("%v: exit code %d; its output:\n%v%v", s, code, &p.stdout, &p.stderr)
	}
}

// files writes files, each a name and a text, to a folder of the test's and returns the folder. DIR in a text is
// replaced by the folder.
func files(t *testing.T, named map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range named {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// firstCPU returns a CPU that the process may use.
func firstCPU(t *testing.T) int {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for cpu := range 1024 {
		if set.IsSet(cpu) {
			return cpu
		}
	}
	t.Fatal("no CPU")
	return 0
}

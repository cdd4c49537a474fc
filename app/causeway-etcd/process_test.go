// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// mainVariable makes the test binary run the program: tests of processes start their own binary again with it.
const mainVariable = "CAUSEWAY_ETCD_TEST_IS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainVariable) != "" {
		main() // does not return
	}
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

// A process is causeway-etcd.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr text
	done           chan struct{}
}

// launch starts it. The test's end kills what still runs.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0], args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), mainVariable+"=1")
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		var exit *exec.ExitError
		if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
			t.Errorf("%v: %v", p.cmd, err)
		}
	}()
	t.Cleanup(func() { p.signal(syscall.SIGKILL); <-p.done })
	return p
}

// signal sends a signal, and does nothing if the process has ended.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// within is how long anything may take: these processes share a few CPUs with others.
const within = time.Minute

// awaitLine waits for a part of what it prints to stderr.
func (p *process) awaitLine(part string) {
	p.t.Helper()
	for deadline := time.Now().Add(within); !strings.Contains(p.stderr.String(), part); time.Sleep(5 * time.Millisecond) {
		select {
		case <-p.done:
			if !strings.Contains(p.stderr.String(), part) {
				p.t.Fatalf("no %s: it ended with exit code %d; its output:\n%v%v", part, p.cmd.ProcessState.ExitCode(), &p.stdout, &p.stderr)
			}
		default:
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("no %s within %v; its output:\n%v%v", part, within, &p.stdout, &p.stderr)
		}
	}
}

// wait waits for the end and returns the exit code, -1 for a signal's.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		p.t.Fatalf("it does not end; its output:\n%v%v", &p.stdout, &p.stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

// end sends SIGTERM, and checks that the exit code is 0. It returns how long that took.
func (p *process) end() time.Duration {
	p.t.Helper()
	begun := time.Now()
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != exitOK {
		p.t.Errorf("after SIGTERM: exit code %d; its output:\n%v", code, &p.stderr)
	}
	return time.Since(begun)
}

// try runs the program within this process.
func try(args ...string) (code int, stdout, stderr string) {
	var out, wrong strings.Builder
	code = run(args, &out, &wrong)
	return code, out.String(), wrong.String()
}

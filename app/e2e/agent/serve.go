// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	// killAfter is how long a command may take to obey SIGTERM: on a busy machine the kernel closes a packet socket in seconds.
	killAfter = 5 * time.Second
	// pipeAfter is how long output is still awaited once a command has ended but
	// its children hold the pipe.
	pipeAfter = 500 * time.Millisecond
	// exitNotRun is the exit code of a command that could not be started, as in
	// a shell.
	exitNotRun = 127
)

// preload makes the commands' standard output line buffered (line_buffered.c).
const preload = "/usr/lib/line_buffered.so"

// server is the guest's end of one port.
type server struct {
	sending sync.Mutex // guards out
	out     *json.Encoder
	mu      sync.Mutex // guards running
	running map[uint64]*exec.Cmd
}

// Serve carries out the commands that come in by port until reading fails.
// Commands still running then go on.
func Serve(port io.ReadWriter) error {
	s := &server{out: json.NewEncoder(port), running: map[uint64]*exec.Cmd{}}
	in := json.NewDecoder(port)
	for {
		var q Request
		if err := in.Decode(&q); err != nil {
			return err
		}
		switch {
		case q.Hello:
			s.send(Report{Ready: true})
		case q.Kill:
			s.kill(q.ID)
		default:
			s.run(q.ID, q.Run)
		}
	}
}

func (s *server) send(r Report) {
	s.sending.Lock()
	defer s.sending.Unlock()
	_ = s.out.Encode(r) // fails when nobody is connected
}

// run starts a command in a process group of its own, so that kill reaches
// its children too.
func (s *server) run(id uint64, line string) {
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = environment()
	cmd.WaitDelay = pipeAfter
	out := &outputWriter{s: s, id: id}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		s.send(Report{ID: id, Out: []byte(err.Error() + "\n")})
		code := exitNotRun
		s.send(Report{ID: id, Exit: &code})
		return
	}
	s.mu.Lock()
	s.running[id] = cmd
	s.mu.Unlock()
	go s.reap(id, cmd)
}

func environment() []string {
	env := os.Environ()
	if _, err := os.Stat(preload); err == nil {
		env = append(env, "LD_PRELOAD="+preload)
	}
	return env
}

// reap reports how a command ended: its exit code, or 128 + signal as a shell
// does.
func (s *server) reap(id uint64, cmd *exec.Cmd) {
	err := cmd.Wait()
	code := cmd.ProcessState.ExitCode()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	if err != nil && code == 0 && !errors.Is(err, exec.ErrWaitDelay) {
		code = exitNotRun // its output could not be read
	}
	s.mu.Lock()
	delete(s.running, id)
	s.mu.Unlock()
	s.send(Report{ID: id, Exit: &code})
}

func (s *server) kill(id uint64) {
	s.mu.Lock()
	cmd := s.running[id]
	s.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	time.AfterFunc(killAfter, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.running[id] == cmd { // not reaped: the group's number is still its own
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	})
}

const (
	// soon is how many writes of a command are reported at once.
	soon = 20
	// later is how long to wait between the reports after these.
	later = 100 * time.Millisecond
)

// outputWriter reports what a command prints: at first at once, then several lines together, because a report costs an
// emulated CPU more than the packet that most lines are about. The lines wait in the command's pipe.
type outputWriter struct {
	s      *server
	id     uint64
	writes int
}

func (w *outputWriter) Write(b []byte) (int, error) {
	w.s.send(Report{ID: w.id, Out: b})
	if w.writes++; w.writes > soon {
		time.Sleep(later)
	}
	return len(b), nil
}

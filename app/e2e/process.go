// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	pollEvery = 20 * time.Millisecond
	// obeyFor is how long a process may take to end after SIGINT or SIGTERM, before it is killed.
	obeyFor = 30 * time.Second
)

// process is a program of this machine that the rig started. Its output goes to
// a file, which outlives it.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended; err is valid then
	err  error
}

// launch starts a program inside the namespace, its output going to log.
func (ns *namespace) launch(name, log string, words ...string) (*process, error) {
	return ns.launchOn(nil, nil, name, log, words...)
}

// launchWithInput is launch for a program that is written to.
func (ns *namespace) launchWithInput(name, log string, words ...string) (*process, *os.File, error) {
	in, to, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	p, err := ns.launchOn(in, nil, name, log, words...)
	if err != nil {
		to.Close()
		return nil, nil, err
	}
	return p, to, nil
}

// launchOn is launch with standard input, where nil is none, and with further files: 3, 4 ... A program with such files is
// a guest's kernel: it has processes of its own, which end with it because it is the first of its process namespace.
func (ns *namespace) launchOn(in *os.File, more []*os.File, name, log string, words ...string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{name: name, log: log, cmd: exec.Command(words[0], words[1:]...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.ExtraFiles = out, out, more
	if in != nil {
		p.cmd.Stdin = in
	}
	if more != nil {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	}
	if err := ns.start(p.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// output returns what the process has printed until now.
func (p *process) output() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// await waits until match accepts the output. It fails when the process ends first.
func (p *process) await(ctx context.Context, match func(output string) bool) error {
	for {
		var ended bool
		select {
		case <-p.done:
			ended = true
		case <-ctx.Done():
			return fmt.Errorf("%s: %w; it printed:\n%s", p.name, ctx.Err(), lastLines(p.output()))
		case <-time.After(pollEvery):
		}
		if match(p.output()) {
			return nil
		}
		if ended {
			return fmt.Errorf("%s has ended (%v); it printed:\n%s", p.name, p.err, lastLines(p.output()))
		}
	}
}

// stop sends a signal, and kills a process that does not end then. It returns how the process ended: nil for exit code
// 0.
func (p *process) stop(signal syscall.Signal) error {
	_ = p.cmd.Process.Signal(signal) // an error means it has ended
	select {
	case <-p.done:
		return p.err
	case <-time.After(obeyFor):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("%s did not end within %v of signal %v", p.name, obeyFor, signal)
	}
}

// lastLines returns the end of a long text.
func lastLines(text string) string {
	const most = 40
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > most {
		lines = append([]string{"..."}, lines[len(lines)-most:]...)
	}
	return strings.Join(lines, "\n")
}

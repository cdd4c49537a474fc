// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// namespace is a network namespace that one thread is in. Everything that needs the namespace is run by that thread:
// sockets opened there stay in it, and processes started there inherit it and are killed by the kernel when the thread
// ends.
type namespace struct {
	jobs chan func()
	done chan struct{}
}

// openNamespace makes an empty network namespace, with a /sys that shows it.
func openNamespace() (*namespace, error) {
	ns := &namespace{jobs: make(chan func()), done: make(chan struct{})}
	entered := make(chan error)
	go ns.live(entered)
	if err := <-entered; err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	return ns, nil
}

// live never unlocks its thread: the runtime ends a thread whose goroutine
// returns locked, and with it go the namespace and Pdeathsig's children.
func (ns *namespace) live(entered chan<- error) {
	runtime.LockOSThread()
	defer close(ns.done)
	err := enter()
	entered <- err
	if err != nil {
		return
	}
	for job := range ns.jobs {
		job()
	}
}

func enter() error {
	if err := syscall.Unshare(syscall.CLONE_NEWNET | syscall.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// /sys/class/net shows the namespace in which it was mounted.
	if err := syscall.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount /sys: %w", err)
	}
	return nil
}

// close ends the thread. Processes started in the namespace are killed.
func (ns *namespace) close() {
	close(ns.jobs)
	<-ns.done
}

// do runs f inside the namespace and waits for it.
func (ns *namespace) do(f func() error) error {
	result := make(chan error, 1)
	ns.jobs <- func() { result <- f() }
	return <-result
}

// start starts cmd inside the namespace; the kernel kills it when the namespace's thread ends.
func (ns *namespace) start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	// A process group of its own, so that ctrl-C goes only to the test, which then ends the rest in order.
	cmd.SysProcAttr.Setpgid = true
	return ns.do(cmd.Start)
}

// run carries out short commands, one a line, inside the namespace. It uses no shell: words are split at blanks.
func (ns *namespace) run(lines string) error {
	var errs []error
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		var out strings.Builder
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := ns.start(cmd); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(words, " "), err)
		}
		if err := cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, strings.TrimSpace(out.String())))
		}
	}
	return errors.Join(errs...)
}

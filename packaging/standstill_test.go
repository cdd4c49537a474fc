// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package packaging

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// workerOf returns the thread id of a worker in a machine, as this machine numbers threads.
func workerOf(t *testing.T, m *machine) int {
	t.Helper()
	namespace := func(pid string) string {
		to, _ := os.Readlink(filepath.Join("/proc", pid, "ns/pid")) // fails for a process that has ended
		return to
	}
	names, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*/comm")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range names {
		name, _ := os.ReadFile(file)
		parts := strings.Split(file, "/")
		if strings.HasPrefix(string(name), "rte-worker") && namespace(parts[2]) == namespace(m.leader) {
			tid, err := strconv.Atoi(parts[4])
			if err != nil {
				t.Fatal(err)
			}
			return tid
		}
	}
	t.Fatal("no worker runs in the machine")
	return 0
}

// stopThread stops one thread of a process, as a debugger does, until the process ends. wait waits for that.
func stopThread(t *testing.T, tid int) (wait func()) {
	t.Helper()
	stopped, dead := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(dead)
		runtime.LockOSThread() // the tracer is a thread
		defer runtime.UnlockOSThread()
		err := unix.PtraceSeize(tid)
		if err == nil {
			err = unix.PtraceInterrupt(tid)
		}
		if err == nil {
			_, err = unix.Wait4(tid, nil, unix.WALL, nil)
		}
		stopped <- err
		if err != nil {
			return
		}
		for { // until its end, which the tracer must collect before the process is gone
			var status unix.WaitStatus
			if _, err := unix.Wait4(tid, &status, unix.WALL, nil); err != nil || status.Exited() || status.Signaled() {
				return
			}
		}
	}()
	if err := <-stopped; err != nil {
		t.Fatalf("stop thread %d: %v", tid, err)
	}
	return func() { <-dead }
}

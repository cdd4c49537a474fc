// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMoveOffLast: a thread that has no other CPU than management's keeps it.
func TestMoveOffLast(t *testing.T) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		var before, after unix.CPUSet
		err := unix.SchedGetaffinity(0, &before)
		cpu := 0
		for !before.IsSet(cpu) {
			cpu++
		}
		before.Zero()
		before.Set(cpu)
		err = errors.Join(err, unix.SchedSetaffinity(0, &before), moveOff(unix.Gettid(), nil, &cpu), unix.SchedGetaffinity(0, &after))
		if after != before {
			err = errors.Join(err, fmt.Errorf("it has %d CPUs", after.Count()))
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// taskCores checks that a worker that polls has its CPU for itself: no other thread of the process may run there.
func taskCores() (string, error) {
	if runtime.NumCPU() < 2 {
		return "one CPU only: no other CPU for the other threads", nil
	}
	h, err := build(strings.Replace(bridgeFile, `idle = "sleep"`, `idle = "poll"`, 1))
	if err != nil {
		return "", err
	}
	var made sync.WaitGroup
	release := make(chan struct{})
	for range 8 { // threads that Go makes now
		made.Go(func() {
			runtime.LockOSThread()
			<-release
		})
	}
	elsewhere, err := threadsElsewhere()
	close(release)
	made.Wait()
	return fmt.Sprintf("%d threads on other CPUs", elsewhere), errors.Join(err, h.Close())
}

// threadsElsewhere counts the threads that may not run on CPU 0, where the worker is and no other may be.
func threadsElsewhere() (n int, err error) {
	threads, _ := filepath.Glob("/proc/self/task/*")
	for _, t := range threads {
		name, _ := os.ReadFile(t + "/comm")
		status, _ := os.ReadFile(t + "/status")
		_, cpus, _ := strings.Cut(string(status), "Cpus_allowed_list:\t")
		cpus, _, _ = strings.Cut(cpus, "\n")
		there := cpus == "0" || strings.HasPrefix(cpus, "0-") || strings.HasPrefix(cpus, "0,")
		if worker := strings.HasPrefix(string(name), "rte-worker"); there != worker {
			err = errors.Join(err, fmt.Errorf("thread %s may run on CPUs %s", strings.TrimSpace(string(name)), cpus))
		}
		if !there {
			n++
		}
	}
	return n, err
}

// taskManagement runs a bridge whose management has a CPU of its own, and checks that its thread is there, alone on that
// CPU where workers poll, and an lcore; and that messages cross, for which management makes a proxy QP.
func taskManagement() (string, error) {
	last := runtime.NumCPU() - 1
	if last < 1 {
		return "one CPU only: no other CPU for management", nil
	}
	h, err := builtAfter(strings.Replace(bridgeFile, `idle = "sleep"`, fmt.Sprintf("idle = \"sleep\"\nmanagement = %d", last), 1))
	if err != nil {
		return "", err
	}
	var cores []Core
	err = running(h, func() error {
		cores = h.Cores()
		p := message(h, nodeIP, 0x77, 1)
		if err := h.enter(p.AppendTo(nil)); err != nil {
			return err
		}
		_, err := h.leave(1)
		return err
	})
	var said []string
	for _, c := range cores {
		said = append(said, fmt.Sprintf("%v %s %v", c.Lcore, c.Role, c.CPUs))
	}
	want := []string{"0 main []", "1 worker 0 [0]", fmt.Sprintf("2 management [%d]", last), "<nil> others []"}
	if !slices.Equal(said, want) {
		err = errors.Join(err, fmt.Errorf("cores %q, want %q", said, want))
	} else if cores[1].Ran == 0 || cores[2].Ran == 0 || cores[3].Ran == 0 {
		err = errors.Join(err, fmt.Errorf("a thread has had no time: %+v", cores))
	}
	if after := h.Cores(); len(after) != 3 {
		err = errors.Join(err, fmt.Errorf("management has ended, and the cores are %+v", after))
	}
	return strings.Join(said, ", "), errors.Join(err, farIsLogged(h))
}

// farIsLogged checks that a worker on another NUMA node than a port is in the log, and no other.
func farIsLogged(h *Bridge) error {
	var log strings.Builder
	h.log = slog.New(slog.NewTextHandler(&log, nil))
	here := h.eal.Node(h.lcores[0])
	warnIfFar(h, "near", here)
	warnIfFar(h, "unknown", -1)
	warnIfFar(h, "far", here+1)
	want := fmt.Sprintf("level=WARN msg=worker_far worker=0 cpu=0 node=%d port=far port_node=%d\n", here, here+1)
	if got := log.String(); !strings.HasSuffix(got, want) || strings.Count(got, "\n") != 1 {
		return fmt.Errorf("the log has %q, want one line, %q", got, want)
	}
	return nil
}

// taskManagementNowhere names a CPU that the machine does not have: one line says so.
func taskManagementNowhere() (string, error) {
	h, err := builtAfter(strings.Replace(bridgeFile, "lcores = [0]", "lcores = [0]\nmanagement = 1000", 1))
	if err == nil {
		return "", errors.Join(errors.New("it was built"), h.Close())
	}
	const want = "bridge: [workers] management names CPU 1000, which this process may not use, or this machine does not have; write some of "
	if !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		return "", err
	}
	return err.Error(), nil
}

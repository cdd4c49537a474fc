// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

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

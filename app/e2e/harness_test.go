// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	keep   = flag.Bool("keep", false, "when the tests are done, keep the guests running until ctrl-C (add -v and -timeout 0)")
	record = flag.Bool("record", false, "let TestRecordKernelFrames write lcore/frame/testdata/kernel")
)

// shared is the rig that all tests of a run use: guests take seconds to boot.
var shared struct {
	once sync.Once
	rig  *Rig
	a, b *Guest
	err  error
}

func TestMain(m *testing.M) {
	flag.Parse()
	// It fails instead of skipping: the build tag asks for these tests to run.
	if err := Missing(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGINT, syscall.SIGTERM)
	ended := make(chan int)
	go func() { ended <- m.Run() }()
	select {
	case code := <-ended:
		os.Exit(finish(code, interrupted))
	case <-interrupted:
		// The rig is not taken down here, because tests still use it: when this process ends, the kernel ends all that
		// it started, and the namespace.
		fmt.Fprintf(os.Stderr, "e2e: interrupted; the logs are in %s/causeway-e2e-*\n", os.TempDir())
		os.Exit(130)
	}
}

// finish keeps the rig, if that was asked for, and takes it down.
func finish(code int, interrupted <-chan os.Signal) int {
	printProofs(os.Stdout)
	r := shared.rig
	if r == nil {
		return code
	}
	if *keep {
		fmt.Fprintln(os.Stderr, r.Advice())
		<-interrupted
	}
	if code == 0 || *keep {
		r.Close()
		return code
	}
	r.CloseKeepingLogs()
	fmt.Fprintln(os.Stderr, "e2e: the logs are in", r.Dir())
	return code
}

// theRig returns the shared rig with guests A and B, booting them if this is the
// first test.
func theRig(t *testing.T) (*Rig, *Guest, *Guest) {
	t.Helper()
	shared.once.Do(func() {
		if shared.rig, shared.err = NewRig(); shared.err != nil {
			return
		}
		start := time.Now()
		guests, err := shared.rig.Boot(context.Background(), hostConfig("A", 1), hostConfig("B", 2))
		if err != nil {
			shared.err = err
			return
		}
		shared.a, shared.b = guests[0], guests[1]
		fmt.Fprintf(os.Stderr, "e2e: two guests up after %.1f s\n", time.Since(start).Seconds())
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("console of A:\n%s\nconsole of B:\n%s", shared.a.Console(), shared.b.Console())
		}
	})
	return shared.rig, shared.a, shared.b
}

// MTU 4200 makes rxe's IB MTU 4096.
const hostMTU = 4200

// hostConfig is RoCE host n: 10.9.0.n and fd09::n, and on VLAN 100 10.100.0.n and fd64::n.
func hostConfig(name string, n int) GuestConfig {
	return GuestConfig{Name: name, NICs: []NIC{{
		MTU: hostMTU, RDMA: true,
		Addrs: []string{fmt.Sprintf("10.9.0.%d/24", n), fmt.Sprintf("fd09::%d/64", n)},
		VLANs: []VLAN{{ID: 100, Priority: 3, Addrs: []string{fmt.Sprintf("10.100.0.%d/24", n), fmt.Sprintf("fd64::%d/64", n)}}},
	}}}
}

// within returns a context for one step of a test.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errors.New("the test step took too long"))
	t.Cleanup(cancel)
	return ctx
}

// SPDX-License-Identifier: Apache-2.0

// Package nettest gives tests network namespaces of their own.
package nettest

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// Own puts the test in a network namespace of its own, which ends with its thread. Only root may, so others skip the
// test.
func Own(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: a network namespace")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test's goroutine
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		t.Fatalf("a network namespace: %v", err)
	}
}

// IP runs ip in the test's namespace.
func IP(t *testing.T, args string) {
	t.Helper()
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", args, err, out)
	}
}

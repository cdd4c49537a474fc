// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// confineProgram builds testdata/confine.c with confine.c, in which changed replaces old.
func confineProgram(t *testing.T, old, changed string) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile("confine.c")
	if n := strings.Count(string(text), old); err != nil || n == 0 {
		t.Fatalf("confine.c has no %q (%v): change something else", old, err)
	}
	source, program := filepath.Join(dir, "confine.c"), filepath.Join(dir, "confine")
	if err := os.WriteFile(source, []byte(strings.Replace(string(text), old, changed, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I.", "-I..", "-o", program, "testdata/confine.c", source}
	args = append(args, strings.Fields(run(t, ".", "pkg-config", "--cflags", "libdpdk"))...)
	run(t, ".", "gcc", args...)
	return program
}

// TestConfine tries system calls in a confined thread, and in another; also where a service manager refuses seccomp(2).
func TestConfine(t *testing.T) {
	program := confineProgram(t, "#include", "#include")
	t.Log(run(t, ".", program))
	t.Log(run(t, ".", program, "refused"))
	var exit *exec.ExitError
	err := exec.Command(program, "abort").Run()
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGABRT {
		t.Errorf("abort() in a confined thread: %v", err)
	}
}

// TestConfineNotices changes the list: TestConfine's program must then fail.
func TestConfineNotices(t *testing.T) {
	for _, c := range [][3]string{
		{"{.number = SYS_sendto},", "", "sendto: refused"},
		{"{.number = SYS_epoll_pwait},", "", "epoll_pwait: refused"},
		{".value = SIOCGIFFLAGS", ".value = SIOCSIFFLAGS", "setting an interface's flags: not refused"},
		{"{.number = SYS_sendmsg},", "{.number = SYS_openat},", "open: not refused"},
		{".mask = IOCTL_TYPE, .value = RDMA_IOCTL", ".mask = 0", "an ioctl of terminals: not refused"},
		{"SYS_mprotect, .argument = 2, .mask = PROT_EXEC", "SYS_mprotect", "mprotect, executable: not refused"},
		{".mask = UINT32_MAX, .value = (uint32_t)getpid()", ".mask = 0", "tgkill of another process: not refused"},
	} {
		out, err := exec.Command(confineProgram(t, c[0], c[1])).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c[2]) {
			t.Errorf("%s is %q: %v\n%s", c[0], c[1], err, out)
		}
	}
}

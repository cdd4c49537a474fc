// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"causeway/app/console"
)

// TestWriteForBridge checks that ctl saves what a bridge may not that runs as in the packages: as a user of its own, in
// whose way root's folder is; and that it says what to do where it may not, either.
func TestWriteForBridge(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, whose folder a bridge may not write to")
	}
	file, socket := consoleIn(t)
	dir := filepath.Dir(file)
	p := launch(t, "run", "-c", file)
	p.awaitLine(`"msg":"ready"`)
	if err := os.Chmod(dir, 0o555); err != nil { // the bridge has given up root's right to write all the same
		t.Fatal(err)
	}
	ask := func(want int, line ...string) string {
		t.Helper()
		code, stdout, stderr := try(append([]string{"ctl", "-s", socket}, line...)...)
		if code != want {
			t.Fatalf("%v: %d\n%s%s\n%s", line, code, stdout, stderr, p.stderr.String())
		}
		return stdout + stderr
	}
	ask(exitOK, "add", "service", "7190")
	if said := ask(exitOK, "write"); !strings.Contains(said, "Saved "+file) || !strings.Contains(said, "has all of it") {
		t.Error(said)
	}
	if saved, err := os.ReadFile(file); err != nil || !strings.Contains(string(saved), "port = 7190") {
		t.Errorf("%v: %s", err, saved)
	}
	if said := ask(exitOK, "reload", "check"); !strings.Contains(said, "no difference") {
		t.Error(said)
	}
	ask(exitOK, "add", "service", "7191")
	ask(exitOK, "write") // again: the bridge knows the file that ctl wrote
	testSessionWrites(t, file, socket)
	ask(exitOK, "add", "service", "7193")
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	said := ask(exitFailed, "write")
	for _, want := range []string{"sudo causeway ctl show config toml | sudo tee " + file, "others than this user may write to " + dir} {
		if !strings.Contains(said, want) {
			t.Errorf("%q, want %q", said, want)
		}
	}
}

// testSessionWrites saves in a session, after a question of ctl's own, which the bridge cannot answer.
func testSessionWrites(t *testing.T, file, socket string) {
	t.Helper()
	s := atTerminal(t, t.TempDir(), "-s", socket)
	s.await("tested# ")
	s.types("add service 7192\r")
	s.await("tested# ")
	for _, c := range []struct{ answer, said string }{
		{"no\r", "Nothing was done."},
		{"\x03", "Nothing was done."},
		{"yess\x7f\r", "Saved " + file},
	} {
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s.types("write\r")
		s.await("ctl saves it, as user 0. " + console.Sure)
		s.types(c.answer)
		s.await(c.said)
		s.await("tested# ")
		after, err := os.ReadFile(file)
		if saved := string(after) != string(before); err != nil || saved != strings.HasPrefix(c.said, "Saved") {
			t.Errorf("answered %q: saved %t, %v", c.answer, saved, err)
		}
	}
	s.types("add service 7194\r")
	s.await("tested# ")
	testOthersAreTold(t, socket)
	s.types("write\r")
	s.await(console.Sure)
	s.types("yes\r")
	s.await("has all of it")
	s.await("tested# ")
	s.types("write\r") // nobody is asked for what is saved already
	s.await("has all of it")
	s.await("tested# ")
	s.types("quit\r")
	s.ends()
}

// testOthersAreTold has a client that cannot save ask for it.
func testOthersAreTold(t *testing.T, socket string) {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("write\nquit\n")); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(conn); err != nil || !strings.Contains(string(said), "sudo causeway ctl write") || strings.Contains(string(said), "\xff") {
		t.Errorf("%v: %q", err, said)
	}
}

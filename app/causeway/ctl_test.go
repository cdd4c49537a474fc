// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// consoleIn adds a console to a bridge's files, and returns the configuration's and the socket.
func consoleIn(t *testing.T) (file, socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "console") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "console.sock")
	return bridgeIn(t, "[log]\n", "[console]\nlisten = [\"unix:"+socket+"\"]\n[log]\n"), socket
}

// TestCtl asks a running bridge, changes it, and ends it.
func TestCtl(t *testing.T) {
	file, socket := consoleIn(t)
	p := launch(t, "run", "-c", file)
	p.awaitLine(`"msg":"ready"`)
	ask := func(want int, part string, words ...string) string {
		t.Helper()
		code, stdout, stderr := try(append([]string{"ctl", "-s", socket}, words...)...)
		if code != want || !strings.Contains(stdout+stderr, part) {
			t.Errorf("ctl %q: %d\n%s%s", words, code, stdout, stderr)
		}
		return stdout
	}
	ask(exitOK, "ready", "show", "status")
	ask(exitOK, "fe80::7", "sh", "nodes")
	ask(exitOK, "239.1.2.3", "show", "groups", "|", "match", "joined")
	ask(exitUsage, "did you mean hosts?", "show", "hsots")
	ask(exitFailed, "is not configured", "remove", "group", "239.9.9.9")
	ask(exitOK, "added", "add", "group", "239.1.2.9")
	ask(exitOK, "changed", "set", "policing", "239.1.2.9", "5k")
	ask(exitOK, "239.1.2.9", "show", "config")
	ask(exitOK, "removed", "reload") // the file does not have it
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(strings.Replace(string(text), "mtu = 4200", "mtu = 1500", 1), "[[group]]", "[[group]]\nip = \"239.1.2.9\"\n[[group]]", 1)
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if all := ask(exitFailed, "rejected, because 1 of 2", "reload", "check"); !strings.Contains(all, "239.1.2.9") || !strings.Contains(all, "[roce]") {
		t.Errorf("reload check lists %s", all)
	}
	ask(exitFailed, "reload: nothing was changed", "reload")
	var status struct {
		Ready bool   `json:"ready"`
		Name  string `json:"name"`
	}
	if err := json.Unmarshal([]byte(ask(exitOK, "", "show", "status", "--json")), &status); err != nil || !status.Ready || status.Name != "tested" {
		t.Errorf("%+v %v", status, err)
	}
	ask(exitOK, "leaves its groups", "drain")
	ask(exitOK, "drained", "show", "status")
	ask(exitOK, "No group", "show", "groups")
	ask(exitOK, "again", "resume")
	ask(exitOK, "239.1.2.3", "show", "groups")
	ask(exitOK, "leaves its groups", "halt")
	if code := p.wait(); code != exitOK {
		t.Errorf("exit code %d after halt\n%v", code, &p.stderr)
	}
	if p.line("console_command")["command"] == "" {
		t.Errorf("%v", p.line("console_command"))
	}
	ask(exitFailed, "there is no console", "show", "status")
}

// TestSession runs a session with a bridge that ends during it.
func TestSession(t *testing.T) {
	file, socket := consoleIn(t)
	p := launch(t, "run", "-c", file)
	p.awaitLine(`"msg":"ready"`)
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "show version | match causeway\nwatch 0.2 show rates\n"); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Second, func() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }) // an error shows below
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil || strings.Count(string(text), "DIRECTION") < 3 || !strings.HasSuffix(string(text), "The bridge has ended.\r\n") {
		t.Errorf("%v: %s", err, text)
	}
	if code := p.wait(); code != exitOK {
		t.Errorf("exit code %d\n%v", code, &p.stderr)
	}
}

// TestCtlAlone checks that ctl without a bridge says in one line what is wrong.
func TestCtlAlone(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-s", "/nonexistent/x.sock", "show", "status"}, exitFailed, "there is no console at"},
		{[]string{"-s", "127.0.0.1:1", "show", "status"}, exitFailed, "no answer at"},
		{[]string{"-s", "127.0.0.1", "show", "status"}, exitFailed, "-s 127.0.0.1: "},
		{[]string{"-s", "/nonexistent/x.sock", "help", "frobnicate"}, exitFailed, "there is no console at"},
		{[]string{"-x"}, exitUsage, "usage: causeway ctl"},
	} {
		code, _, stderr := try(append([]string{"ctl"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: %d %q", c.args, code, stderr)
		}
	}
	if code, stdout, _ := try("ctl", "-s", "/nonexistent/x.sock", "help", "show", "hosts"); code != exitOK || !strings.HasPrefix(stdout, "show hosts [PREFIX]") {
		t.Errorf("help without a bridge: %d %q", code, stdout)
	}
	for question, want := range map[string]bool{"top": true, "watch 1 show rates": true, "trace count 1": true, "show rates": false, "frobnicate": false} {
		if got := runsUntilEnded(strings.Fields(question)); got != want {
			t.Errorf("%q goes on: %t, want %t", question, got, want)
		}
	}
	code, stdout, _ := try("completion", "bash")
	for _, c := range commands() {
		if code != exitOK || !strings.Contains(stdout, `" `+c.name+`") next=`) {
			t.Errorf("completion: %d, no %s", code, c.name)
		}
	}
}

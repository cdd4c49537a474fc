// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"causeway/app/console/ptytest"
)

// A typist uses ctl at a terminal.
type typist struct {
	t      *testing.T
	keys   *os.File
	screen text // all that was written
	seen   int  // of the screen, by await
	cmd    *exec.Cmd
	done   chan struct{}
}

// atTerminal starts ctl at a terminal.
func atTerminal(t *testing.T, state string, args ...string) *typist {
	t.Helper()
	keys, terminal := ptytest.New(t)
	p := &typist{t: t, keys: keys, cmd: exec.Command(os.Args[0], append([]string{"ctl"}, args...)...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), mainVariable+"=1", "XDG_STATE_HOME="+state)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = terminal, terminal, terminal
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the terminal
		for b := make([]byte, 4096); ; {
			n, err := keys.Read(b)
			_, _ = p.screen.Write(b[:n])
			if err != nil {
				return
			}
		}
	}()
	go func() { defer close(p.done); _ = p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); <-p.done })
	return p
}

// types sends keys.
func (p *typist) types(keys string) {
	p.t.Helper()
	if _, err := p.keys.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// await waits for a text behind that of the last call, and returns what is before it.
func (p *typist) await(part string) string {
	p.t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(5 * time.Millisecond) {
		all := p.screen.String()[p.seen:]
		if before, _, ok := strings.Cut(all, part); ok {
			p.seen += len(before) + len(part)
			return before
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("no %q in %q", part, all)
		}
	}
}

// ends waits for the end of ctl.
func (p *typist) ends() {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		p.t.Fatalf("ctl does not end: %q", p.screen.String())
	}
}

// TestCtlTerminal uses ctl at a real terminal: a session's lines are there in the next one, Ctrl-R finds them, a token
// is not kept; events are followed until q, and watch draws in place.
func TestCtlTerminal(t *testing.T) {
	file, socket := consoleIn(t)
	b := launch(t, "run", "-c", file)
	b.awaitLine(`"msg":"ready"`)
	state := t.TempDir()
	first := atTerminal(t, state, "-s", socket)
	for _, line := range []string{"show version", "show hosts | count", "login a-token-of-some-length"} {
		first.await("tested# ")
		first.types(line + "\r")
	}
	first.await("tested# ")
	first.types("events last 0\r")
	first.await("events last 0\r\n")
	code, _, stderr := try("ctl", "-s", socket, "set", "log", "level", "info")
	if code != exitOK {
		t.Fatal(stderr)
	}
	first.await("info  console_command  user=\"uid ")
	first.types("q")
	first.await("tested# ")
	first.types("quit\r")
	first.ends()
	kept := filepath.Join(state, "causeway", "history")
	text, err := os.ReadFile(kept)
	if info, failed := os.Stat(kept); err != nil || failed != nil || info.Mode() != 0o600 || string(text) != "show version\nshow hosts | count\nevents last 0\nquit\n" {
		t.Errorf("%v %v %v: %q", err, failed, info, text)
	}
	second := atTerminal(t, state, "-s", socket)
	second.await("tested# ")
	second.types("\x1b[A\x1b[A\x1b[A")
	second.await("show hosts | count")
	second.types("\x12vers")
	second.await("show version")
	second.types("\r")
	second.await("running for")
	second.await("tested# ")
	second.types("watch 0.2 show rates\r")
	second.await("\x1b[2J")
	if drawn := second.await("\x1b[J\x1b[H"); strings.Count(drawn, "DIRECTION") != 1 || strings.Contains(drawn, "\x1b[2J") {
		t.Errorf("%q", drawn)
	}
	second.types("q")
	second.await("tested# ")
	second.types("\x04")
	second.ends()
	one := atTerminal(t, state, "-s", socket, "events", "last", "1")
	one.await("info  console_command")
	one.types("q")
	one.ends()
	b.end(syscall.SIGTERM)
}

// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"causeway/app/e2e/agent"
)

// connect joins client and agent by a pipe; the commands run on this machine.
func connect(t *testing.T) *Client {
	t.Helper()
	near, far := net.Pipe()
	go agent.Serve(far)
	c := New(near)
	t.Cleanup(func() { c.Close() })
	if err := c.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func start(t *testing.T, c *Client, line string) *Command {
	t.Helper()
	cmd, err := c.Start(line)
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestCommands(t *testing.T) {
	c := connect(t)
	for _, x := range []struct {
		line, out string
		exit      int
	}{
		{"true", "", 0},
		{"exit 3", "", 3},
		{"echo a; echo b >&2; printf c", "a\nb\nc", 0},
		{"kill -9 $$", "", 128 + 9},
		{"echo back; (sleep 60 &)", "back\n", 0},
		{"head -c 300000 /dev/zero | tr '\\0' x", strings.Repeat("x", 300000), 0},
	} {
		out, exit, err := start(t, c, x.line).Wait(t.Context())
		if out != x.out || exit != x.exit || err != nil {
			t.Errorf("%q: %d bytes, exit %d, %v; want %d bytes, exit %d", x.line, len(out), exit, err, len(x.out), x.exit)
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	c := connect(t)
	var commands []*Command
	for range 20 {
		commands = append(commands, start(t, c, "echo up; sleep .1; echo done"))
	}
	for _, cmd := range commands {
		if out, exit, err := cmd.Wait(t.Context()); out != "up\ndone\n" || exit != 0 || err != nil {
			t.Errorf("%q, exit %d, %v", out, exit, err)
		}
	}
}

func TestAwait(t *testing.T) {
	c := connect(t)
	cmd := start(t, c, "echo one; sleep .1; echo two; sleep 60")
	if line, err := cmd.AwaitText(t.Context(), "tw"); line != "two" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	cmd.Stop()
	if line, err := start(t, c, "echo last").AwaitText(t.Context(), "last"); line != "last" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	_, err := start(t, c, "echo other; exit 5").AwaitText(t.Context(), "never")
	if err == nil || !strings.Contains(err.Error(), "ended with 5") {
		t.Errorf("a line that never comes: %v", err)
	}
}

// A command may end at any moment while a caller awaits a line of it: Await must then return an error.
func TestAwaitAtTheEnd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 20_000 {
		cmd := &Command{client: &Client{gone: make(chan struct{})}, grown: make(chan struct{}), done: make(chan struct{})}
		go cmd.take(agent.Report{Exit: new(int)})
		if _, err := cmd.AwaitText(ctx, "never"); err == nil || !strings.Contains(err.Error(), "ended with 0") {
			t.Fatalf("a command that ends meanwhile: %v", err)
		}
	}
}

func TestContextEndsCommand(t *testing.T) {
	c := connect(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	cmd := start(t, c, "trap 'echo told; exit 9' TERM; while :; do sleep .05; done")
	out, _, err := cmd.Wait(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.HasSuffix(out, "told\n") {
		t.Errorf("%q, %v", out, err)
	}
	stubborn := start(t, c, "trap '' TERM; echo up; while :; do sleep .05; done")
	if _, err := stubborn.AwaitText(t.Context(), "up"); err != nil {
		t.Fatal(err)
	}
	stubborn.Stop()
	if _, exit, err := stubborn.Wait(t.Context()); exit != 128+9 || err != nil {
		t.Errorf("a command that ignores TERM: exit %d, %v", exit, err)
	}
}

func TestGuestGone(t *testing.T) {
	near, far := net.Pipe()
	go agent.Serve(far)
	c := New(near)
	cmd := start(t, c, "sleep 60")
	defer cmd.Stop()
	far.Close()
	if _, _, err := cmd.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("the port has ended: %v", err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"causeway/app/command"
	"causeway/app/command/commandtest"
	"causeway/config"
)

const token = "a-token-of-some-length"

// within is how long anything may take.
const within = time.Minute

// A rig is a console on both kinds of sockets.
type rig struct {
	t      *testing.T
	bridge *commandtest.Fake
	unix   string
	tcp    string
}

func newRig(t *testing.T, edit ...func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, bridge: commandtest.New(1000), unix: filepath.Join(t.TempDir(), "c.sock")}
	ls, err := Listen([]config.Listen{{Network: "unix", Address: r.unix}, {Network: "tcp", Address: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	r.tcp = ls[1].Addr().String()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	c := Config{Name: "test", Token: token, Log: log, Env: &command.Env{Bridge: r.bridge, Log: log, Began: time.Now(), Version: "v1",
		Sampler: command.NewSampler(r.bridge)}}
	for _, f := range edit {
		f(&c)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); Serve(ctx, ls, c) }()
	t.Cleanup(func() {
		stop()
		select {
		case <-done:
		case <-time.After(within):
			t.Error("the console does not end")
		}
	})
	return r
}

// A client is the other end of a session.
type client struct {
	t *testing.T
	net.Conn
	got bytes.Buffer
}

func (r *rig) dial(network string) *client {
	r.t.Helper()
	at := r.tcp
	if network == "unix" {
		at = r.unix
	}
	conn, err := net.Dial(network, at)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return &client{t: r.t, Conn: conn}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// await reads until the text has come, and returns everything since the last call.
func (c *client) await(text string) string {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		c.t.Fatal(err)
	}
	for b := make([]byte, 4096); !strings.Contains(c.got.String(), text); {
		n, err := c.Read(b)
		c.got.Write(b[:n])
		if err != nil && !strings.Contains(c.got.String(), text) {
			c.t.Fatalf("%v before %q came; there was %q", err, text, c.got.String())
		}
	}
	return string(c.got.Next(strings.Index(c.got.String(), text) + len(text)))
}

// rest reads until the other end closes.
func (c *client) rest() string {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		c.t.Fatal(err)
	}
	if _, err := io.Copy(&c.got, c); err != nil && !strings.Contains(err.Error(), "reset") {
		c.t.Fatalf("%v; there was %q", err, c.got.String())
	}
	return c.got.String()
}

// TestNC tests a client that sends plain lines, by either socket: by the Unix socket there is no telnet at all.
func TestNC(t *testing.T) {
	r := newRig(t)
	c := r.dial("unix")
	if text := c.await("test# "); strings.Contains(text, "\xff") || !strings.Contains(text, "Type ? for help") {
		t.Errorf("greeting %q", text)
	}
	c.send("sh ho 10.9.0.1\n")
	if text := c.await("test# "); !strings.Contains(text, "\n10.9.0.1 ") || strings.Contains(text, "\r") {
		t.Errorf("%q", text)
	}
	c.send("show ?\n")
	if text := c.await("test# "); !strings.Contains(text, "  status ") {
		t.Errorf("%q", text)
	}
	c.send("\n \nfrob\nquit\n")
	if text := c.rest(); !strings.Contains(text, `there is no "frob" here`) {
		t.Errorf("%q", text)
	}
	c = r.dial("tcp")
	if text := c.await("test> "); !strings.HasPrefix(text, "\xff\xfb\x01\xff\xfb\x03\xff\xfd\x1f\rCauseway") {
		t.Errorf("greeting %q", text)
	}
}

// telnetClient negotiates as telnet does, with a window.
func (r *rig) telnetClient(width, height int) *client {
	c := r.dial("tcp")
	c.await("\xff\xfd\x1f")
	c.send("\xff\xfd\x01\xff\xfd\x03\xff\xfb\x1f" + string(naws(width, height)))
	c.await("test> ")
	return c
}

// TestEditing tests a telnet client: echo, Tab, ?, history, interrupts and telnet's line ends.
func TestEditing(t *testing.T) {
	c := newRig(t).telnetClient(100, 40)
	c.send("sh")
	c.await("sh")
	c.send("\t")
	c.await("ow ")
	c.send("hosts 10.9.0.1 ?")
	if text := c.await("run the command"); !strings.Contains(text, "limit") {
		t.Errorf("%q", text)
	}
	c.await("test> ")
	c.send("\r\x00")
	if text := c.await("test> "); !strings.Contains(text, "\r\nADDRESS") {
		t.Errorf("%q", text)
	}
	c.send("\x1b[A") // up
	c.await("show hosts 10.9.0.1")
	c.send("\xff\xf4") // interrupt
	c.await("test> ")
	c.send("show version\r\n")
	c.await("running for")
	c.await("test> ")
	c.send("\x04") // Ctrl-D
	c.rest()
}

// TestPaging checks that a page is as high as the window, and the keys that go on or end.
func TestPaging(t *testing.T) {
	c := newRig(t).telnetClient(100, 10)
	c.send("show hosts\r\x00")
	text := c.await("more:")
	if n := strings.Count(text, "\n"); n != 10 { // the command's line, and nine
		t.Errorf("%d lines: %q", n, text)
	}
	c.await("\x1b[0m")
	c.send("\r\x00")
	if text := c.await("more:"); strings.Count(text, "\n") != 1 {
		t.Errorf("%q", text)
	}
	c.await("\x1b[0m")
	c.send(" ")
	if text := c.await("more:"); strings.Count(text, "\n") != 9 {
		t.Errorf("%q", text)
	}
	c.await("\x1b[0m")
	c.send("q")
	c.await("test> ")
	c.send("trace drop ?") // fifty reasons: paged, and the line is shown again
	if text := c.await("more:"); strings.Count(text, "\n") > 10 {
		t.Errorf("%d lines: %q", strings.Count(text, "\n"), text)
	}
	c.await("\x1b[0m")
	c.send(" ")
	c.await("more:")
	c.await("\x1b[0m")
	c.send("q")
	if text := c.await("test> trace drop "); strings.Contains(text, "\n") {
		t.Errorf("after q: %q", text)
	}
	c.send("\x03") // Ctrl-C: discards the whole line
	c.await("test> ")
	c.send("show hosts ?") // fifty addresses, in columns
	if text := c.await("more:"); strings.Count(text, " 10.9.0.") < 50 {
		t.Errorf("%q", text)
	}
	c.send("q")
	c.await("test> ")
	c.send("\x03")
	c.await("test> ")
	c.send("paging off\r\x00")
	c.await("test> ")
	c.send("show hosts\r\x00")
	if text := c.await("test> "); !strings.Contains(text, "200 of 1000") || strings.Contains(text, "more:") {
		t.Errorf("%q", text)
	}
}

// TestWatch checks that a running command ends with a key, or with a line where the client sends only lines.
func TestWatch(t *testing.T) {
	r := newRig(t)
	c := r.telnetClient(100, 40)
	for _, key := range []string{"q", "\x03", "\r\x00", "\xff\xf4"} {
		c.send("watch 0.2 show rates\r\x00")
		c.await("\x1b[H")
		c.await("\x1b[H")
		c.send("x")
		c.send(key)
		c.await("test> ")
	}
	c.send("top\r\x00")
	if text := c.await("test "); !strings.Contains(text, "\x1b[H") {
		t.Errorf("%q", text)
	}
	c.send("q")
	c.await("test> ")
	n := r.dial("unix")
	n.await("test# ")
	n.send("watch 0.2 show rates\nshow version\n") // typed ahead
	n.await("roce_to_ib")
	n.await("roce_to_ib")
	n.send("q\n")
	if text := n.await("running for"); strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
}

// TestRoles checks that read-only clients may not change anything until they log in with the token.
func TestRoles(t *testing.T) {
	r := newRig(t)
	c := r.dial("tcp")
	c.await("test> ")
	c.send("clear latency\n")
	c.await("is for admins")
	c.await("test> ")
	start := time.Now()
	c.send("login a-token-of-some-lengtH\n")
	c.await("wrong token")
	if d := time.Since(start); d < time.Second {
		t.Errorf("a guess took %v", d)
	}
	c.await("test> ")
	c.send("login " + token + "\nhistory\nclear latency\n")
	if text := c.await("measured from now"); strings.Contains(text, token) {
		t.Errorf("the token is in %q", text)
	}
	if n := r.bridge.Notes(); len(n) != 1 {
		t.Errorf("%q", n)
	}
	c.send("capture to " + filepath.Join(r.t.TempDir(), "x.pcapng") + " count 1\n")
	c.await("only be written from the Unix socket")
	c = r.dial("tcp")
	c.await("test> ")
	c.send("login x\nlogin y\nlogin z\nshow version\n")
	if text := c.rest(); strings.Contains(text, "running for") {
		t.Errorf("after three guesses: %q", text)
	}
	c = newRig(t, func(c *Config) { c.Token = "" }).dial("tcp")
	c.await("test> ")
	c.send("login \n")
	c.await("no token is configured")
}

// TestRoleOf tests the role for each of the kernel's answers about a client.
func TestRoleOf(t *testing.T) {
	groups := func(uid uint32) []string { return map[uint32][]string{7: {"users", adminGroup}}[uid] }
	for _, c := range []struct {
		uid, gid uint32
		want     command.Role
	}{{0, 0, command.Admin}, {0, 5, command.Admin}, {1000, 100, command.Admin}, {1001, 1000, command.Admin}, {1001, 100, command.View}, {7, 100, command.Admin}} {
		if got := roleOf(&unix.Ucred{Uid: c.uid, Gid: c.gid}, 1000, 1000, groups); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestOneShot sends commands as ctl does.
func TestOneShot(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		network, words string
		json           bool
		code           int
		stdout, stderr string
	}{
		{"unix", "show hosts 10.9.0.1", false, 0, "ADDRESS", ""},
		{"unix", "show hosts 10.9.0.1", true, 0, `{"hosts":[`, ""},
		{"unix", "show hosts | count", false, 0, "  count  1000\n", ""},
		{"unix", "sh ho limit 1000", false, 0, "10.9.3.231", ""},
		{"unix", "frob", false, 2, "", `there is no "frob" here`},
		{"unix", "trace", false, 1, "", "not available"},
		{"unix", "top count 1 every 200ms", false, 0, "\nhosts:\n", ""},
		{"unix", "capture count 3", true, 0, `{"packet":{"time":`, ""},
		{"unix", "capture to - count 3", false, 0, "\x0a\x0d\x0d\x0a", ""}, // how a pcapng file begins
		{"unix", "quit", false, 1, "", "is for sessions"},
		{"unix", "help show hosts", false, 0, "Example: show hosts", ""},
		{"tcp", "show version", false, 0, "running for", ""},
		{"tcp", "clear latency", false, 1, "", "is for admins"},
	} {
		var stdout, stderr bytes.Buffer
		code, err := Ask(context.Background(), r.dial(c.network).Conn, Question{Words: strings.Fields(c.words), JSON: c.json}, &stdout, &stderr)
		text := stdout.String()
		if c.json {
			text = strings.NewReplacer("\n", "", " ", "").Replace(text)
		}
		if err != nil || code != c.code || !strings.Contains(text, c.stdout) || !strings.Contains(stderr.String(), c.stderr) || (c.stderr == "") != (stderr.Len() == 0) {
			t.Errorf("%s: %d %v %q %q", c.words, code, err, stdout.String(), stderr.String())
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), within)
	defer stop()
	drawn := &drawings{most: 2, end: stop}
	code, err := Ask(ctx, r.dial("unix").Conn, Question{Words: strings.Fields("watch 0.2 show rates")}, drawn, io.Discard)
	late := errors.Is(err, os.ErrDeadlineExceeded) // ctl waits a second for the exit code
	if err != nil && !late || code != 0 || drawn.n < 2 {
		t.Errorf("watch: %d %v, drawn %d times", code, err, drawn.n)
	}
}

// drawings counts tables that are drawn, and ends the command after some.
type drawings struct {
	n, most int
	end     func()
}

// Write implements io.Writer.
func (d *drawings) Write(b []byte) (int, error) {
	if d.n += bytes.Count(b, []byte("DIRECTION")); d.n >= d.most {
		d.end()
	}
	return len(b), nil
}

// TestTakeover checks that a dead bridge's socket is taken over, and a live one's is not.
func TestTakeover(t *testing.T) {
	r := newRig(t)
	if _, err := Listen([]config.Listen{{Network: "unix", Address: r.unix}}); err == nil || !strings.Contains(err.Error(), "another bridge") {
		t.Errorf("%v", err)
	}
	dead := filepath.Join(t.TempDir(), "sub", "dead.sock")
	for range 2 {
		ls, err := Listen([]config.Listen{{Network: "unix", Address: dead}})
		if err != nil {
			t.Fatal(err)
		}
		ls[0].(*net.UnixListener).SetUnlinkOnClose(false)
		ls[0].Close()
	}
	if _, err := Listen([]config.Listen{{Network: "tcp", Address: "127.0.0.1:0"}, {Network: "unix", Address: fmt.Sprintf("%s/x/y", dead)}}); err == nil {
		t.Error("a socket below a socket")
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"causeway/app/logs"
	"causeway/config"
)

// TestArguments checks exit codes and what is said of wrong arguments.
func TestArguments(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"-help", exitOK, "usage: causeway-etcd -config FILE"},
		{"-version", exitOK, "causeway-etcd (devel)\netcd 3."},
		{"", exitUsage, "causeway-etcd: name the configuration file, with -config; usage: "},
		{"DIR/a.toml", exitUsage, "causeway-etcd: write -config before the file: -config DIR/a.toml; usage: "},
		{"-config DIR/a.toml more", exitUsage, `causeway-etcd: "more" is one argument too many; usage: `},
		{"-confg DIR/a.toml", exitUsage, "causeway-etcd: there is no flag -confg; did you mean -config?; usage: "},
		{"-config", exitUsage, "causeway-etcd: -config needs a value; usage: "},
		{"-config DIR/a.toml -check -members", exitUsage, "causeway-etcd: -check, -members, -replace, -save and -restore exclude each other; usage: "},
		{"-config DIR/a.toml", exitUsage, "causeway-etcd: DIR/a.toml: there is no such file; write it, or name another\n"},
		{"-config DIR", exitUsage, "causeway-etcd: DIR: this is a folder; name a file\n"},
	} {
		code, stdout, stderr := try(strings.Fields(strings.ReplaceAll(c.args, "DIR", dir))...)
		want := strings.ReplaceAll(c.want, "DIR", dir)
		if code != c.code || !strings.HasPrefix(stdout+stderr, want) || code != exitOK && strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d\n%s%s", c.args, code, stdout, stderr)
		}
	}
}

// alone writes the configuration of a voter that is alone, and returns its file and URLs.
func alone(t *testing.T) (file, client, peer string) {
	t.Helper()
	dir, ports := t.TempDir(), freePorts(t, 2)
	file, client, peer = filepath.Join(dir, "etcd.toml"), loopback()+":"+ports[0], loopback()+":"+ports[1]
	text := fmt.Sprintf("name = \"a\"\ndata = %q\n[clients]\nlisten = [\"http://%s\"]\n[[member]]\nname = \"a\"\npeer = \"http://%s\"\n",
		filepath.Join(dir, "data"), client, peer)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, client, peer
}

// TestNotify starts a voter as the service manager does, and ends it.
func TestNotify(t *testing.T) {
	at := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", at)
	file, _, _ := alone(t)
	p := launch(t, "-config", file)
	p.awaitLine("msg=voter_ready")
	p.end()
	if log := p.stderr.String(); strings.Contains(log, "msg=etcd") {
		t.Errorf("a voter that is well warns:\n%s", log)
	}
	var said []string
	b := make([]byte, 4096)
	for len(said) < 3 {
		if err := manager.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		n, err := manager.Read(b)
		if err != nil {
			t.Fatalf("%v after %q", err, said)
		}
		said = append(said, string(b[:n]))
	}
	if got := strings.Join(said, ";"); got != "STATUS=Waiting for a majority of the voters;READY=1\nSTATUS=Serving;STOPPING=1" {
		t.Errorf("the service manager is told %q", got)
	}
}

// TestStartErrors checks what is said of a voter that cannot start.
func TestStartErrors(t *testing.T) {
	file, client, peer := alone(t)
	for _, taken := range []string{client, peer} {
		l, err := net.Listen("tcp", taken)
		if err != nil {
			t.Fatal(err)
		}
		p := launch(t, "-config", file)
		if code := p.wait(); code != exitFailed || !strings.HasPrefix(lastLine(p), "causeway-etcd: another program listens at "+taken+"; write another port") {
			t.Errorf("%s is taken: exit code %d\n%v", taken, code, &p.stderr)
		}
		l.Close()
	}
	if _, said, wrong := try("-config", file, "-members"); !strings.HasPrefix(wrong, "causeway-etcd: no voter answers at http://"+client+" (") {
		t.Errorf("-members where none runs prints\n%s%s", said, wrong)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "data"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, "-config", file)
	if code := p.wait(); code != exitFailed || !strings.HasPrefix(lastLine(p), "causeway-etcd: etcd does not start: ") {
		t.Errorf("the data directory is a file: exit code %d\n%v", code, &p.stderr)
	}
}

// lastLine returns the last line of what a process says.
func lastLine(p *process) string {
	all := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	return all[len(all)-1]
}

// TestLog checks that what etcd logs becomes lines of ours, from warnings on, and that they are written before it ends
// the process.
func TestLog(t *testing.T) {
	var said text
	out := logs.NewOutput(&said)
	defer out.Close()
	log, _ := logs.New(config.Log{Level: "info", Format: "text"}, out)
	var ends atomic.Bool
	z := zap.New(core{log, out.Flush, &ends})
	z.Debug("no")
	z.Info("no")
	z.With(zap.String("peer", "b")).Warn("slow", zap.Duration("took", time.Second), zap.Int("n", 3))
	z.Error("failed", zap.Error(errors.New("no space")), zap.Strings("urls", []string{"x", "y"}))
	ends.Store(true)
	z.Error("closed")
	func() {
		defer func() { _ = recover() }()
		z.Panic("the end")
	}()
	lines := strings.Split(said.String(), "\n")
	for i, want := range []string{`level=WARN msg=etcd peer=b message=slow took=1s n=3`, `level=ERROR msg=etcd message=failed error="no space" urls="[x y]"`,
		`level=ERROR msg=etcd message="the end"`} {
		if i >= len(lines) || !strings.HasSuffix(lines[i], want) {
			t.Errorf("line %d is not %s:\n%v", i, want, &said)
		}
	}
}

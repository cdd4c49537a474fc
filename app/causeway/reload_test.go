// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"causeway/config"
)

// edit replaces a part of a file.
func edit(t *testing.T, file, from, to string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), from) {
		t.Fatalf("%s does not contain %q, or %v", file, from, err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestHangup checks that SIGHUP makes a bridge reload its file, and that a file that cannot be loaded changes nothing
// and is reported with the lines that are wrong.
func TestHangup(t *testing.T) {
	p, dir := launchBridge(t)
	file := filepath.Join(dir, "causeway.toml")
	hangup := func(said string, times int) {
		t.Helper()
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		p.await(said, func() bool { return strings.Count(p.stderr.String(), said) == times })
	}
	groups := func(want string) {
		t.Helper()
		listen := p.line("metrics")["listen"].(string)
		p.await("metrics with "+want, func() bool { return strings.Contains(scrape(t, listen), "\n"+want+"\n") })
	}
	edit(t, file, "[metrics]", "[[group]]\nip = \"239.1.2.4\"\n[metrics]")
	edit(t, file, `format = "json"`, "format = \"json\"\nlevel = \"debug\"")
	hangup(`"msg":"reloaded"`, 1)
	groups("causeway_groups 2")
	if line := p.line("reloaded"); line["changes"] != 2.0 {
		t.Errorf("%v", line)
	}

	edit(t, file, `ip = "239.1.2.4"`, "ip = \"10.9.0.1\"\nrat = 1")
	hangup(`"msg":"reload_rejected"`, 2) // a line for each problem
	if line := p.line("reload_rejected"); !strings.Contains(line["error"].(string), "causeway.toml:") {
		t.Errorf("%v", line)
	}
	edit(t, file, "ip = \"10.9.0.1\"\nrat = 1", `ip = "239.1.2.5"`)
	edit(t, file, "mtu = 4200", "mtu = 1500")
	hangup(`"msg":"reload_rejected"`, 3)
	if line := p.line("reload_rejected"); line["error"] != "[roce] mtu: 4200 -> 1500: needs a restart" {
		t.Errorf("%v", line)
	}
	groups("causeway_groups 2")

	edit(t, file, "mtu = 1500", "mtu = 4200")
	edit(t, file, "[[group]]\nip = \"239.1.2.5\"\n", "")
	hangup(`"msg":"reloaded"`, 2)
	groups("causeway_groups 1")
	p.end(syscall.SIGTERM)
}

// TestHangupEndless checks that a file that does not end is given up, whatever it is, and that the bridge ends all the same.
func TestHangupEndless(t *testing.T) {
	p, dir := launchBridge(t)
	file := filepath.Join(dir, "causeway.toml")
	if err := errors.Join(os.Rename(file, file+".was"), unix.Mkfifo(file, 0o600)); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"given up after 1s of reading", "still being read"} {
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		p.await("the reload is rejected", func() bool { return strings.Count(p.stderr.String(), `"msg":"reload_rejected"`) == i+1 })
		if got := p.line("reload_rejected")["error"].(string); !strings.Contains(got, want) {
			t.Errorf("reload %d: %s", i, got)
		}
	}
	p.end(syscall.SIGTERM)
}

func TestDiffCommand(t *testing.T) {
	file := bridgeIn(t)
	for _, c := range []struct {
		from, to, want string
		code           int
	}{
		{"", "", "no difference\n", exitOK},
		{"[metrics]", "[[group]]\nip = \"239.1.2.4\"\nrate = \"9 pps\"\n[metrics]", "+ [[group]] 239.1.2.4 mgid ", exitOK},
		{"[metrics]", "[[service]]\nport = 7\n[metrics]", "+ [[service]] 7\n1 change, 0 of them need a restart\n", exitOK},
		{"mtu = 4200", "mtu = 1500", "~ [roce] mtu: 4200 -> 1500  (needs a restart)\n1 change, 1 of them needs a restart\n", exitFailed},
	} {
		other := filepath.Join(filepath.Dir(file), "other.toml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(other, []byte(strings.Replace(string(text), c.from, c.to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := try("diff", file, other)
		if code != c.code || !strings.HasPrefix(stdout, c.want) || stderr != "" {
			t.Errorf("%q: exit code %d, %s%s", c.to, code, stdout, stderr)
		}
		_, stdout, _ = try("diff", "-json", file, other)
		var changes config.Changes
		if err := json.Unmarshal([]byte(stdout), &changes); err != nil || len(changes) != min(1, len(c.to)) {
			t.Errorf("%q: %v\n%s", c.to, err, stdout)
		}
	}
	if code, _, stderr := try("diff", file, "/nonexistent.toml"); code != exitFailed || !strings.Contains(stderr, "/nonexistent.toml") {
		t.Errorf("no file: exit code %d, %s", code, stderr)
	}
	if code, _, _ := try("diff", file); code != exitUsage {
		t.Errorf("one file: exit code %d", code)
	}
}

// TestExampleCommand checks that the printed example is valid and the one in the documentation.
func TestExampleCommand(t *testing.T) {
	doc, err := os.ReadFile("../../docs/example.toml")
	if err != nil {
		t.Fatal(err)
	}
	if _, stdout, _ := try("example"); stdout != string(doc) {
		t.Error("the example is not docs/example.toml")
	}
	_, short, _ := try("example", "-short")
	file := filepath.Join(t.TempDir(), "short.toml")
	if err := os.WriteFile(file, []byte(short), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := try("check", file); code != exitOK {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

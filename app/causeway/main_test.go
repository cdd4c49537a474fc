// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// try runs a command line and returns its exit code and what it printed.
func try(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = dispatch(args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestCommandLines(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   string
		code   int
		stdout string // a part of it; "": nothing is printed
		stderr string
	}{
		{"nothing", "", exitUsage, "", "usage: causeway COMMAND"},
		{"help", "help", exitOK, "usage: causeway COMMAND", ""},
		{"-h", "-h", exitOK, "usage: causeway COMMAND", ""},
		{"help of a command", "help check", exitOK, "usage: causeway check [-here] FILE...", ""},
		{"-h of a command", "check -h", exitOK, "usage: causeway check [-here] FILE...", ""},
		{"help of two", "help check version", exitUsage, "", "help takes one command; usage: causeway help [COMMAND]"},
		{"help of nothing known", "help chekc", exitUsage, "", `there is no command "chekc"; did you mean check?`},
		{"a slip", "verison", exitUsage, "", `there is no command "verison"; did you mean version?`},
		{"nonsense", "frobnicate", exitUsage, "", `there is no command "frobnicate"; "causeway help" lists the commands`},
		{"unknown flag", "check -x", exitUsage, "", "causeway check: there is no flag -x; usage: causeway check [-here] FILE..."},
		{"a slip in a flag", "check -her x", exitUsage, "", "causeway check: there is no flag -her; did you mean -here?;"},
		{"a flag alone", "run -c", exitUsage, "", "causeway run: -c needs a value;"},
		{"a time without a unit", "listen -idle 1", exitUsage, "", `causeway listen: -idle "1": write a time with its unit, such as 500ms, 30s or 5m;`},
		{"a number below 0", "send -count -1", exitUsage, "", `causeway send: -count "-1": write a whole number, 0 or more;`},
		{"a value for a flag that takes none", "devices -json=3", exitUsage, "", `causeway devices: -json "3": write true, false, or no value;`},
		{"demo of something", "demo now", exitUsage, "", `demo takes no arguments, and "now" is one;`},
		{"demo of no length", "demo -duration 0", exitUsage, "", "-duration 0s: write a time above 0, such as 20s;"},
		{"a reason", "drops icrc", exitOK, "icrc: the ICRC is wrong\n  check: ", ""},
		{"no reason", "drops icr", exitUsage, "", `there is no reason "icr"; did you mean icrc?`},
		{"check without a file", "check", exitUsage, "", "causeway check: name a file; usage: causeway check [-here] FILE..."},
		{"devices of something", "devices eth0", exitUsage, "", "devices takes no arguments; usage: causeway devices [-json]"},
		{"a push without a bridge's file", "push shared.toml", exitUsage, "", "name a bridge's file with -c, and one file to push, or -text, or none;"},
		{"a push without patience", "push -c x.toml -wait 0s shared.toml", exitUsage, "", "-wait 0s: write a time above 0, such as 30s;"},
		{"version", "version", exitOK, "causeway ", ""},
		{"--version", "--version", exitOK, "causeway ", ""},
		{"version of something", "version 1", exitUsage, "", "version takes no arguments"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := try(strings.Fields(c.args)...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			wantPart(t, "stdout", stdout, c.stdout)
			wantPart(t, "stderr", stderr, c.stderr)
		})
	}
}

func wantPart(t *testing.T, stream, got, want string) {
	t.Helper()
	if want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("%s:\n%s\nwant %q in it", stream, got, want)
	}
}

// TestEveryCommandHasHelp checks that each command has a usage line, a paragraph, and a line in the list.
func TestEveryCommandHasHelp(t *testing.T) {
	_, list, _ := try("help")
	for _, c := range commands() {
		code, help, stderr := try("help", c.name)
		if code != exitOK || stderr != "" || !strings.HasPrefix(help, "usage: "+usageLine(c)+"\n\n") {
			t.Errorf("%s: exit code %d, help:\n%s%s", c.name, code, help, stderr)
		}
		if !strings.Contains(list, c.name) || !strings.Contains(list, c.short) {
			t.Errorf("%s is not in the list:\n%s", c.name, list)
		}
		if strings.HasSuffix(c.short, ".") || c.short == "" || c.short[:1] != strings.ToLower(c.short[:1]) {
			t.Errorf("%s: %q should be a few words without capital and full stop", c.name, c.short)
		}
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.toml")
	text := "[roce]\nport = \"ring\"\naddresses = [\"10.9.0.254/24\"]\nmtu = 1\n[ib]\nport = \"fabrik:\"\n"
	if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const good = "../../docs/example.toml"
	code, stdout, stderr := try("check", bad, good)
	if code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	if want := good + ": ok: 2 hosts, 2 groups, 2 services\n"; !strings.HasSuffix(stdout, want) {
		t.Errorf("stdout %q, want %q at its end", stdout, want)
	}
	want := "config: " + bad + `:4: roce: mtu 1 is too small for any IB MTU; use 336 to 9216
config: ` + bad + `:6: ib: port "fabrik:" is not an InfiniBand port; write "mlx5_0:1", "fabric:" or "fabric:FILE"
` + bad + ": 2 problems\n"
	if stderr != want {
		t.Errorf("stderr\n%swant\n%s", stderr, want)
	}
	if code, _, _ := try("check", good); code != exitOK {
		t.Errorf("exit code %d for a good file, want %d", code, exitOK)
	}
}

// TestCheckTopology checks that check reports a missing or wrong topology file of the software subnet, before the
// bridge is run.
func TestCheckTopology(t *testing.T) {
	dir := t.TempDir()
	file, topology := filepath.Join(dir, "bridge.toml"), filepath.Join(dir, "subnet.toml")
	text := "[roce]\nport = \"ring\"\naddresses = [\"10.9.0.254/24\"]\n[ib]\nport = \"fabric:subnet.toml\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := try("check", file); code != exitFailed || !strings.HasPrefix(stderr, "config: "+file+":5: ") || !strings.Contains(stderr, topology) || !strings.Contains(stderr, `"fabric:"`) {
		t.Errorf("no topology: exit code %d, %s", code, stderr)
	}
	for text, want := range map[string]string{"[[node]]\nname = \"x\"\nguid = 7\nrole = \"eccho\"\n": topology + ":4", "": ""} {
		if err := os.WriteFile(topology, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := try("check", file); (code == exitOK) != (want == "") || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, %s", text, code, stderr)
		}
	}
}

// TestREADME checks that the files that the README shows are valid.
func TestREADME(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	blocks := strings.Split(string(readme), "```toml\n")[1:]
	for i, name := range []string{"bridge.toml", "subnet.toml"} {
		if len(blocks) != 2 {
			t.Fatalf("%d files, want bridge.toml and subnet.toml", len(blocks))
		}
		text, _, _ := strings.Cut(blocks[i], "```")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, stdout, stderr := try("check", filepath.Join(dir, "bridge.toml")); code != exitOK || strings.Contains(stdout, "note") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

func TestVersion(t *testing.T) {
	defer func(v string, d func() string) { version, dpdkVersion = v, d }(version, dpdkVersion)
	version, dpdkVersion = "v1.2.3", func() string { return "DPDK 22.11.11" }
	_, stdout, _ := try("version")
	lines := strings.Split(stdout, "\n")
	if len(lines) != 4 || lines[0] != "causeway v1.2.3" || !strings.HasPrefix(lines[1], "go") || lines[2] != "DPDK 22.11.11" {
		t.Errorf("got\n%s", stdout)
	}
}

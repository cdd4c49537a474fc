// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"causeway/app/command"
	"causeway/app/command/commandtest"
	kept "causeway/app/logs"
	"causeway/config"
)

var update = flag.Bool("update", false, "write docs/console.md and the manual page instead of comparing them")

// env returns the environment of a command, with a bridge of so many hosts.
func env(hosts int) (*command.Env, *commandtest.Fake) {
	b := commandtest.New(hosts)
	return &command.Env{
		Bridge: b, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Logs: &logs{}, Began: time.Now(), Version: "v1", Config: b.Cfg,
		Load: func() (*config.Config, error) { return b.Cfg.Extend("[[service]]\nport = 9\n") }, Stop: func() {}, Sampler: command.NewSampler(b),
	}, b
}

type logs struct{ level string }

func (l *logs) Follow(n int) *kept.Follower { return new(kept.Control).Follow(n) }

func (l *logs) SetLevel(level string) error { l.level = level; return nil }
func (l *logs) Level() string               { return l.level }
func (l *logs) Recent(int) []string         { return []string{"one line", "with \x1b[31mred"} }
func (l *logs) Suppressed() uint64          { return 3 }
func (l *logs) Unwritten() uint64           { return 2 }

// TestTable checks that each command's entry in the table is complete.
func TestTable(t *testing.T) {
	admin := []string{"set", "add", "remove", "clear", "reload", "drain", "resume", "halt", "fleet", "trace", "capture", "explain", "write", "confirm", "port"}
	for _, c := range command.Standard.Commands {
		ways := 0
		for _, there := range []bool{c.Run != nil, c.Stream != nil, c.Local != command.LocalNone} {
			if there {
				ways++
			}
		}
		switch first := strings.Fields(c.Path)[0]; {
		case ways != 1:
			t.Errorf("%s: %d ways to run it", c.Path, ways)
		case c.Help == "" || strings.HasSuffix(c.Help, ".") || strings.ToUpper(c.Help[:1]) == c.Help[:1] && c.Help[1] > 'Z':
			if c.Path != "show streams" && c.Path != "show hosts" && c.Path != "show nodes" { // names
				t.Errorf("%s: its help is no line like the others: %q", c.Path, c.Help)
			}
		case slices.Contains(admin, first) != (c.Role == command.Admin):
			t.Errorf("%s is for %v", c.Path, c.Role)
		}
		v, err := command.Standard.Parse(c.Example)
		if err != nil || v == nil || v.Every == 0 && v.Command.Path != c.Path {
			t.Errorf("%s: its example %q does not work: %v", c.Path, c.Example, err)
		}
		for _, a := range c.Args {
			if a.Name == "" || a.Help == "" || a.Kind.Parse != nil && (a.Kind.Form == "" || a.Kind.About == "") {
				t.Errorf("%s: an argument lacks something: %+v", c.Path, a)
			}
		}
	}
}

// TestWanted checks that the commands that operators were promised exist.
func TestWanted(t *testing.T) {
	for _, path := range strings.Split("show status,show workers,show ports,show hosts,show nodes,show proxy-qps,show groups,show services,show sidr,"+
		"show neighbours,show drops,show rates,show latency,show streams,show flows,show config,show log,show memory,show cores,show bond,show fleet,show shards,show version,top,"+
		"clear counters,clear proxy-qp,clear subnet,set injection,set log level,set policing,add host,add group,add service,remove host,remove group,remove service,"+
		"trace,capture,reload,drain,resume,halt", ",") {
		if !slices.ContainsFunc(command.Standard.Commands, func(c command.Command) bool { return c.Path == path }) {
			t.Errorf("there is no command %s", path)
		}
	}
}

// TestReach checks that each word of each command, and each key, is offered at its place, with help.
func TestReach(t *testing.T) {
	for _, c := range command.Standard.Commands {
		line := ""
		for _, w := range strings.Fields(c.Path) {
			wantOption(t, line, w)
			line += w + " "
		}
		var needed []string
		for _, a := range c.Args {
			if a.Key == "" && a.Needed && !a.Rest {
				needed = append(needed, strings.Fields(c.Example)[len(strings.Fields(c.Path))+len(needed)])
			}
		}
		if c.Path == "add host" {
			needed = []string{"10.9.0.8"}
		}
		for _, a := range c.Args {
			if a.Key != "" {
				wantOption(t, line+strings.Join(append(needed, ""), " "), a.Key)
			}
		}
	}
}

func wantOption(t *testing.T, line, word string) {
	t.Helper()
	c := command.Standard.Choices(context.Background(), nil, line)
	if !slices.ContainsFunc(c.Options, func(o command.Option) bool { return o.Word == word && o.Help != "" }) {
		t.Errorf("after %q, %q is not offered with help: %v", line, word, c.Lines(0))
	}
}

// TestReference checks that docs/console.md agrees with the table.
func TestReference(t *testing.T) { same(t, "console.md", command.Standard.Reference()) }

// TestManual checks that the manual page agrees with the table, and that groff reports no errors.
func TestManual(t *testing.T) {
	same(t, "man/causeway-console.7", command.Standard.Manual())
	man, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is missing: the page was not formatted")
	}
	cmd := exec.Command(man, "-man", "-ww", "-z", "-Tutf8")
	cmd.Stdin = strings.NewReader(command.Standard.Manual())
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

func same(t *testing.T, name, made string) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != made {
		t.Errorf("%s does not agree with the table (%v); run go test ./app/command -run %s -update", path, err, t.Name())
	}
}

// TestRun runs the example of each command that answers at once, and checks that there is text and JSON.
func TestRun(t *testing.T) {
	e, _ := env(3)
	for _, c := range command.Standard.Commands {
		if c.Run == nil {
			continue
		}
		for _, line := range []string{c.Example, c.Path} {
			v, err := command.Standard.Parse(line)
			if err != nil && line == c.Path {
				continue // it needs arguments
			}
			r, err := v.Command.Run(context.Background(), v.Call(e, command.Admin, "test"))
			if strings.HasPrefix(c.Path, "explain") { // TestCtl of app/causeway explains packets in a bridge
				continue
			}
			if err != nil && !strings.HasPrefix(c.Path, "remove") && c.Path != "write" { // the fake's is of no file
				t.Errorf("%s: %v", line, err)
				continue
			}
			r = v.Pipe.Apply(r)
			b, err := r.JSON(false)
			if err != nil || !json.Valid(b) {
				t.Errorf("%s: %v: %s", line, err, b)
			}
			if text := r.Text(80); strings.ContainsAny(text, "\x1b\r") || c.Path == "show status" && !strings.Contains(text, "ready") {
				t.Errorf("%s: %q", line, text)
			}
		}
	}
}

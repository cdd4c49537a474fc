// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"causeway/app/bridge"
	"causeway/app/command"
	"causeway/config"
)

// reloads is the configuration that "reload" reads: another MTU, which needs a restart, and one more group, which does
// not.
const reloads = `[bridge]
name = "test"
[roce]
port = "ring"
addresses = ["10.9.0.254/16"]
mtu = 1500
[ib]
port = "fabric:"
[[group]]
ip = "239.1.2.3"
[[group]]
ip = "239.1.2.9"
[policy]
allow = ["10.9.0.0/16"]
`

// TestReloadCheck checks that every difference is listed, each as live or not, and that the check fails where the
// reload would fail.
func TestReloadCheck(t *testing.T) {
	e, b := env(3)
	var err error
	if b.Cfg, err = config.Parse("test.toml", []byte(strings.NewReplacer("1500", "4200", "[[group]]\nip = \"239.1.2.9\"\n", "").Replace(reloads))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, err string }{
		{reloads, "rejected, because 1 of 2"}, {strings.Replace(reloads, "1500", "4200", 1), ""},
	} {
		e.Load = func() (*config.Config, error) { return config.Parse("test.toml", []byte(c.text)) }
		v, err := command.Standard.Parse("reload check")
		if err != nil {
			t.Fatal(err)
		}
		r, err := v.Command.Run(context.Background(), v.Call(e, command.Admin, "test"))
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v, want %q", err, c.err)
		}
		live := map[string]string{}
		for line := range strings.Lines(r.Text(0)) {
			words := strings.Fields(line)
			live[strings.Join(words[:min(2, len(words))], " ")] = words[len(words)-1]
		}
		if live["[[group]] 239.1.2.9"] != "no" || (live["[roce] changed"] == "yes") != (c.err != "") {
			t.Errorf("%v:\n%s", err, r.Text(0))
		}
	}
}

// A sheet keeps what a command draws.
type sheet struct{ text string }

func (s *sheet) Show(r command.Result) error { s.text += r.Text(0); return nil }
func (s *sheet) Draw(r command.Result) error { return s.Show(r) }
func (s *sheet) Size() (int, int)            { return 0, 0 }
func (s *sheet) Raw() func([]byte) error     { return nil }

// TestWords checks the singular and plural of counts, and that counters can be found by the names that DPDK gives them.
func TestWords(t *testing.T) {
	e, _ := env(1)
	run(t, e, "set injection ib drop 1%")
	for line, part := range map[string]string{
		"show memory": "program:\n  goroutines ", "show ports": "missed is DPDK's rx_missed", "show status": "in 1 direction\n",
	} {
		if text := run(t, e, line).Text(0); !strings.Contains(text, part) {
			t.Errorf("%s: no %q in\n%s", line, part, text)
		}
	}
	v, err := command.Standard.Parse("top count 1 every 200ms")
	if err != nil {
		t.Fatal(err)
	}
	var top sheet
	if err := v.Command.Stream(context.Background(), v.Call(e, command.View, "test"), &top); err != nil || !strings.Contains(top.text, "  1 host  ") {
		t.Errorf("%v\n%s", err, top.text)
	}
}

// rejecting is a bridge that rejects every configuration.
type rejecting struct {
	command.Target
	err error
}

func (r rejecting) Plan(*config.Config) (config.Changes, error) { return nil, r.err }
func (r rejecting) Reload(context.Context, *config.Config) (config.Changes, error) {
	return nil, r.err
}

func (r rejecting) Undo(context.Context) (config.Changes, error) { return nil, r.err }

// TestReloadRejected checks that the log has what a reload was rejected for, a line for each reason, as after SIGHUP;
// and nothing of a reload that is only checked.
func TestReloadRejected(t *testing.T) {
	restart := bridge.NeedsRestart{{Where: "[roce]", Detail: "mtu: 1500 -> 4200"}, {Where: "[ib]", Detail: "pkey: 1 -> 2"}}
	for _, c := range []struct {
		name, line string
		load, err  error
		want       []string
	}{
		{"the file", "reload", errors.New("f.toml:1: wrong\nf.toml:2: wrong"), nil, []string{"f.toml:1: wrong", "f.toml:2: wrong"}},
		{"a restart", "reload", nil, restart, []string{"[roce] mtu: 1500 -> 4200: needs a restart", "[ib] pkey: 1 -> 2: needs a restart"}},
		{"impossible", "reload", nil, errors.New("reload: nothing was changed: no room"), []string{"reload: nothing was changed: no room"}},
		{"checked", "reload check", nil, errors.New("reload: nothing was changed: no room"), nil},
		{"checked, the file", "reload check", errors.New("f.toml:1: wrong"), nil, nil},
	} {
		e, b := env(3)
		var log strings.Builder
		e.Bridge, e.Log = rejecting{b, c.err}, slog.New(slog.NewTextHandler(&log, nil))
		e.Load = func() (*config.Config, error) { return b.Cfg, c.load }
		v, err := command.Standard.Parse(c.line)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Command.Run(t.Context(), v.Call(e, command.Admin, "operator")); err == nil {
			t.Errorf("%s: no error", c.name)
		}
		lines := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
		if log.Len() == 0 {
			lines = nil
		}
		if len(lines) != len(c.want) {
			t.Fatalf("%s: the log has\n%s, want %q", c.name, &log, c.want)
		}
		for i, want := range c.want {
			if !strings.Contains(lines[i], fmt.Sprintf("level=ERROR msg=reload_rejected user=operator error=%q", want)) {
				t.Errorf("%s: line %s, want %s", c.name, lines[i], want)
			}
		}
	}
}

// TestShowCores checks the time that threads took, and what has none.
func TestShowCores(t *testing.T) {
	e, _ := env(1)
	part := run(t, e, "show cores").Parts[0]
	var shares []string
	for _, row := range part.Rows {
		if row[5] == nil {
			shares = append(shares, "none")
			continue
		}
		shares = append(shares, fmt.Sprintf("%.1f", row[5]))
	}
	if got := strings.Join(shares, " "); got != "none 1.0 0.5 0.0" {
		t.Errorf("shares are %s of %v", got, part.Rows)
	}
}

// TestShowPlaces checks that show memory says where memory is, and of which pages.
func TestShowPlaces(t *testing.T) {
	e, _ := env(1)
	for _, p := range run(t, e, "show memory").Parts {
		if p.Name != "places" {
			continue
		}
		if got := fmt.Sprint(p.Rows); got != "[[packets 1 1.00 MiB <nil>] [worker 0 <nil> <nil> <nil>] [DPDK in all 1 1.00 GiB 1.00 GiB]]" {
			t.Errorf("places are %s", got)
		}
		return
	}
	t.Error("there are no places")
}

// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"causeway/app/command"
)

// lines maps input to the command that it is, or to a part of the error.
var lines = []struct{ line, path, says string }{
	{"", "", ""},
	{"show hosts", "show hosts", ""},
	{"sh ho", "show hosts", ""},
	{"SH HO", "show hosts", ""},
	{"sh ho 10.9.0.0/24 lim 7", "show hosts", ""},
	{"sh ho limit 7 10.9.0.1", "show hosts", ""},
	{"q", "quit", ""},
	{"set log lev deb", "set log level", ""},
	{"watch 3 sh rat", "show rates", ""},
	{"watch sh rat", "show rates", ""},
	{"sh dr | match 'a|b' | js", "show drops", ""},
	{"capture drop icrc dir roce host 10.9.0.1", "capture", ""},
	{"s", "", `"s" is ambiguous: set or show`},
	{"sh s", "", "segments, services, shards, sidr, status or streams"},
	{"shwo", "", "did you mean show?"},
	{"show", "", `show is incomplete: write one of`},
	{"frobnicate", "", `there is no "frobnicate" here: write one of add,`},
	{"show foo", "", `there is no "foo" here: write one of`},
	{"show lgo", "", "did you mean log?"},
	{"clear counters", "clear counters", ""},
	{"CLEAR cou", "clear counters", ""},
	{"hal", "", "halt is never abbreviated: write the whole word"},
	{"dr", "", "drain is never abbreviated"},
	{"conf", "", "confirm is never abbreviated"},
	{"cl counters", "", "clear is never abbreviated"},
	{"he", "help", ""},
	{"| count", "", "a command is missing: write one of"},
	{"show hosts x", "", `PREFIX "x": write an address`},
	{"show hosts limit", "", "limit needs a value"},
	{"show hosts limit 0", "", "from 1 to 100000"},
	{"show hosts limit 1 limit 2", "", "limit is given twice"},
	{"show version now", "", `"now" is unexpected`},
	{"set injection", "", "DIRECTION is missing"},
	{"set injection up drop 1", "", `DIRECTION "up"`},
	{"set injection roce drop 2", "", "0 to 1"},
	{"set injection roce drop 1", "", "write 100% or 1%"},
	{"set injection roce drop 1% for 25h", "", "up to 24h"},
	{"set injection roce drop NaN", "", "0 to 1"},
	{"set injection roce delay 1h", "", "up to 1s"},
	{"watch", "", "watch needs a command"},
	{"watch 0.01 show rates", "", "0.2 to 3600"},
	{"watch NaN show rates", "", "0.2 to 3600"},
	{"watch watch show rates", "", "cannot be watched"},
	{"watch reload", "", "cannot be watched"},
	{"watch top", "", "cannot be watched"},
	{"show hosts |", "", "nothing follows the bar"},
	{"show hosts | m", "", "one regular expression"},
	{"show hosts | match (", "", "missing closing )"},
	{"show hosts | x", "", "count, json or match"},
	{"show hosts | json 1", "", "unexpected after json"},
	{`show hosts | match "a`, "", "a quote is not closed"},
	{"capture to a.pcapng", "", "absolute path"},
	{"add host 10.9.0.1 gid fe80::1 mac 02:00:00:00:00:01", "", `there is no "mac" here`},
	{"add group 10.9.0.1", "", "a group's address"},
	{"set policing 239.1.2.3 -1", "", "packets a second"},
}

func TestParse(t *testing.T) {
	for _, c := range lines {
		v, err := command.Standard.Parse(c.line)
		var usage *command.Usage
		switch {
		case c.says != "":
			if !errors.As(err, &usage) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: said %v, want %q in a line", c.line, err, c.says)
			}
		case err != nil, c.path == "" && v != nil, c.path != "" && v.Command.Path != c.path:
			t.Errorf("%q: %+v %v, want %s", c.line, v, err, c.path)
		}
	}
	v, _ := command.Standard.Parse("watch 0.5 show rates | json")
	if v.Every != 500*time.Millisecond || !v.Pipe.JSON {
		t.Errorf("%+v", v)
	}
	v, err := command.Standard.ParseWords([]string{"show", "drops", "|", "match", "a b|c"})
	if err != nil || v.Command.Path != "show drops" {
		t.Errorf("%+v %v", v, err)
	}
	v, err = command.Standard.ParseWords([]string{"show drops | match 'a b|c' | count"})
	if err != nil || v.Command.Path != "show drops" || !v.Pipe.Count {
		t.Errorf("a quoted line: %+v %v", v, err)
	}
}

// TestComplete tests what Tab completes.
func TestComplete(t *testing.T) {
	e, _ := env(3)
	for line, want := range map[string]string{
		"sh": "show ", "show h": "hosts ", "show s": "s", "show st": "st", "set l": "log ", "show hosts 10.9": "10.9.0.", "show hosts | j": "json ",
		"watch 1 show ra": "rates ", "help sh": "show ", "set policing 239": "239.1.2.3 ", "capture drop icr": "icrc ", "zzz": "zzz",
	} {
		c := command.Standard.Choices(context.Background(), e, line)
		if got := c.Complete(); got != want {
			t.Errorf("%q: completes to %q, want %q", line, got, want)
		}
	}
	for line, want := range map[string]string{
		"": "show", "show ": "status", "show hosts ": "<Enter>", "show hosts": "<Enter>", "show hosts limit ": "N", "show hosts x ": "write an address",
		"show hosts | ": "json", "show hosts | match ": "REGEXP", "set injection ": "roce_to_ib", "shwo ": "did you mean", "watch ": "SECONDS",
	} {
		c := command.Standard.Choices(context.Background(), e, line)
		if got := strings.Join(c.Lines(0), "\n"); !strings.Contains(got, want) {
			t.Errorf("%q?: %q, want %q", line, got, want)
		}
	}
}

// run runs a line on a bridge.
func run(t *testing.T, e *command.Env, line string) command.Result {
	t.Helper()
	v, err := command.Standard.Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	r, err := v.Command.Run(context.Background(), v.Call(e, command.Admin, "test"))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return v.Pipe.Apply(r)
}

// TestPipes checks limits, matches and counts against the fake's entries.
func TestPipes(t *testing.T) {
	e, _ := env(1000)
	for line, want := range map[string]string{
		"show hosts limit 2 | json":                  `{"hosts":[{"address":"10.9.0.0",`,
		"show proxy-qps | count":                     `{"count":1000}`,
		"show proxy-qps | match 10.9.3.23[01] | cou": `{"count":2}`, // behind the limit
		"show proxy-qps 10.9.3.0/24 | count":         `{"count":232}`,
		"show drops | match icrc | match zz":         `{}`,
	} {
		b, err := run(t, e, line).JSON(true)
		if err != nil || !strings.HasPrefix(string(b), want) {
			t.Errorf("%s: %.80s (%v), want %s", line, b, err, want)
		}
	}
	var list struct {
		Hosts []map[string]any `json:"hosts"`
		Total int              `json:"hosts_total"`
	}
	b, _ := run(t, e, "show hosts limit 5").JSON(false)
	if err := json.Unmarshal(b, &list); err != nil || len(list.Hosts) != 5 || list.Total != 1000 {
		t.Errorf("%+v %v", list, err)
	}
	if text := run(t, e, "show hosts limit 5").Text(0); !strings.Contains(text, `(5 of 1000; "limit N" shows more)`) {
		t.Errorf("%s", text)
	}
}

// TestShowTranslated checks that operators see the addresses by which InfiniBand knows hosts.
func TestShowTranslated(t *testing.T) {
	e, _ := env(3)
	for _, line := range []string{"show services", "show config"} {
		if text := run(t, e, line).Text(0); !strings.Contains(text, "10.9.1.0/24") || !strings.Contains(text, "10.10.1.0/24") {
			t.Errorf("%s: %s", line, text)
		}
	}
}

// TestChanges checks that commands change what they should, and that a rejection is one line.
func TestChanges(t *testing.T) {
	e, b := env(3)
	for _, line := range []string{"set injection ib drop 5%", "clear injection ib", "clear neighbour 10.9.0.1", "add group 239.1.2.4 rate 5k",
		"add group 239.1.2.5 ethernet udp:4711 ttl 3", "set policing 239.1.2.4 off", "add host 10.9.0.8 gid fe80::8", "add service 7000-7001", "reload", "set log level debug", "clear counters"} {
		run(t, e, line)
	}
	if notes := strings.Join(b.Notes(), ","); notes != "inject ib_to_roce drop 0.05 for 1m0s,inject ib_to_roce drop 0 for 0s,remove learned host 10.9.0.1" {
		t.Errorf("it noted %s", notes)
	}
	if c := b.Cfg; len(c.Groups) != 3 || c.Groups[1].RatePPS != 0 || c.Groups[2].UDPPort != 4711 || c.Groups[2].TTL != 3 || len(c.Hosts) != 2 || len(c.Services) != 3 {
		t.Errorf("%+v %+v %+v", c.Groups, c.Hosts, c.Services)
	}
	if text := run(t, e, "show config").Text(0); strings.Contains(text, "a-secret") || !strings.Contains(text, "239.1.2.4") {
		t.Errorf("%s", text)
	}
	if text := run(t, e, "show drops").Text(0); !strings.Contains(text, "Nothing was dropped.") {
		t.Errorf("after clear counters: %s", text)
	}
	for line, want := range map[string]string{
		"add host 10.9.0.8 gid fe80::8": "also that of host", "add host 10.9.0.9": "write gid GID for", "remove group 239.9.9.9": "is not configured",
		"set injection ib delayed 0.5": "delayed needs a delay", "set injection ib": "nothing to inject",
	} {
		v, err := command.Standard.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.Command.Run(context.Background(), v.Call(e, command.Admin, "test"))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "the change:") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// TestNonsense checks that any senseless line is rejected and has no other effect.
func TestNonsense(t *testing.T) {
	e, _ := env(3)
	words := strings.Fields(`show hosts qps limit 5 | json match ( " ' watch 1 help add host 10.9.0.1 gid mac set injection roce drop 1% capture to
		- / any ? login ` + "\x00 \xff … \x1b[A 999999999999999999999 -1 0x NaN")
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var line []string
		for range r.IntN(7) {
			line = append(line, words[r.IntN(len(words))])
		}
		text := strings.Join(line, []string{" ", "", "  "}[r.IntN(3)])
		if v, err := command.Standard.Parse(text); err == nil && v != nil && v.Command == nil {
			t.Fatalf("%q: no command", text)
		}
		_, _ = command.Standard.ParseWords(line)
		_, _ = command.Standard.Help(line)
		c := command.Standard.Choices(context.Background(), e, text)
		_, _ = c.Complete(), c.Lines(0)
	}
}

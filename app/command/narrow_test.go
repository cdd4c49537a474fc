// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"causeway/app/command"
	"causeway/config"
)

// TestNarrow checks that nothing that a command shows is wider than a screen of 80 columns, of whatever kind it is.
func TestNarrow(t *testing.T) {
	cfg, err := config.Parse("many.toml", []byte(manyFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range command.Standard.Commands {
		e, b := env(3)
		b.Cfg = cfg
		e.Bridge = many{b}
		lines, err := command.Standard.Help(strings.Fields(c.Path))
		if err != nil {
			t.Fatal(err)
		}
		out := strings.Join(command.Hang(lines, 80), "\n")
		if c.Run != nil && !strings.HasPrefix(c.Path, "explain") {
			v, err := command.Standard.Parse(c.Example)
			if err != nil {
				t.Fatal(err)
			}
			r, _ := v.Command.Run(t.Context(), v.Call(e, command.Admin, "test")) // an example may fail here
			out += "\n" + r.Text(80)
		}
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n >= 80 {
				t.Errorf("%s: %d columns: %s", c.Path, n, line)
			}
		}
	}
}

// TestHang checks where lines are broken, and tables are.
func TestHang(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"as short as this", "as short as this"},
		{"a sentence that is longer than this", "a sentence that is|longer than this"},
		{"  word  and what it means to me", "  word  and what it|        means to me"},
		{"  ab äöü äöü äöü äö", "  ab äöü äöü äöü äö"},
		{"0123456789012345678901234567", "0123456789012345678|901234567"},
	} {
		if got := strings.Join(command.Hang([]string{c.line}, 20), "|"); got != c.want {
			t.Errorf("%q: %q, want %q", c.line, got, c.want)
		}
		if got := command.Hang([]string{c.line}, 0); got[0] != c.line {
			t.Errorf("%q", got)
		}
	}
	e, b := env(1)
	b.Cfg, _ = config.Parse("many.toml", []byte(manyFile))
	for line, want := range map[string]string{
		"show config | match 239.1": "WHERE                KEY  VALUE\n[[group]] 239.1.2.3  -    mgid ff12:4001:ffff::f01:203, ethernet\n                          roce, direction both, qkey 0x1234567,\n",
		"add host 10.9.0.8 gid fe80::8": "WHERE              WHAT   DETAIL                    NEEDS RESTART\n" +
			"[[host]] 10.9.0.8  added  side ib, gid fe80::8, sl  no\n                          0, bridge false\n",
		"show groups": "(MGID: left out on this narrow screen)\n",
	} {
		r := run(t, e, line)
		if got := r.Text(66); !strings.Contains(got, want) {
			t.Errorf("%s:\n%s", line, got)
		}
		if got := r.Text(0); strings.Contains(got, want) {
			t.Errorf("%s is broken without a width:\n%s", line, got)
		}
	}
}

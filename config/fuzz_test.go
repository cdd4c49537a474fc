// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// FuzzParse checks for any file: no panic, problems that are single lines, and a Config only when it satisfies what the
// rest of the bridge relies on.
func FuzzParse(f *testing.F) {
	_, cases := readBadFiles(f)
	for _, c := range cases {
		f.Add([]byte(c.toml))
	}
	example, err := os.ReadFile("../docs/example.toml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f.toml", data)
		if err == nil {
			wantSound(t, c)
			wantRoundTrip(t, c)
			return
		}
		var ps Problems
		if !errors.As(err, &ps) || len(ps) == 0 || c != nil {
			t.Fatalf("config %v, error %#v", c, err)
		}
		last := 0
		for _, p := range ps {
			if p.Line < last || p.Line > strings.Count(string(data), "\n")+1 {
				t.Errorf("line %d after %d: %v", p.Line, last, p)
			}
			last = p.Line
			if text := p.Error(); strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("not one printable line: %q", text)
			}
		}
	})
}

// wantSound checks what the rest of the bridge relies on in a Config.
func wantSound(t *testing.T, c *Config) {
	t.Helper()
	check := func(ok bool, what string) {
		if !ok {
			t.Errorf("%s: %+v", what, c)
		}
	}
	check(c.Name != "" && c.RoCE.Port.Driver != "" && len(c.RoCE.Addresses) > 0 && c.RoCE.IBMTU.Valid(), "RoCE")
	check(c.RoCE.V1 || c.RoCE.V2, "no RoCE version")
	check(c.IB.PKey.Valid() && c.IB.Port.Fabric != (c.IB.Port.Num > 0), "IB")
	check(len(c.Workers.LCores) > 0 && c.Workers.Mbufs > 0, "workers")
	for _, h := range c.Hosts {
		check(len(h.Addrs()) > 0 && (h.Side == SideRoCE || h.Side == SideIB && !h.GID.IsZero()), "host")
	}
	for _, g := range c.Groups {
		check(g.IP.IsMulticast() && g.MGID.IsIBMulticast() && g.Direction != 0 && !g.QKey.IsControlled() && g.PKey.Valid(), "group")
	}
	for _, x := range c.Translates {
		check(x.RoCE != x.IB && x.RoCE.Bits() == x.IB.Bits() && x.RoCE == x.RoCE.Masked() && x.IB == x.IB.Masked(), "translate")
	}
	for _, h := range c.Hosts {
		for _, a := range h.Addrs() {
			_, ok := c.TranslationsOf(h).ToIB(a)
			check(ok, "a host that InfiniBand cannot know")
		}
	}
	for _, s := range c.Services {
		check(s.First > 0 && s.First <= s.Last, "service")
	}
	check(slices.ContainsFunc(c.Segments(), func(r RoCE) bool { return len(c.AllowedIn(&r)) > 0 }) || len(c.Hosts)+len(c.Groups) == 0, "policy")
}

// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// TestScopes reads entries that are for one segment, and for all.
func TestScopes(t *testing.T) {
	text := strings.Replace(twoSegments, "mtu = 1500", "mtu = 1500\nallow = [\"10.9.7.0/24\"]", 1) + `
[[service]]
port = 7
[[service]]
ports = "8-9"
vlan = 100
[[service]]
ports = "8-10"
vlan = 0
[[translate]]
roce = "10.9.0.0/24"
ib = "10.10.9.0/24"
vlan = 0
[[translate]]
roce = "10.9.0.0/24"
ib = "10.10.9.0/24"
vlan = 100
`
	c := parsed(t, text)
	first, second := &c.Segments()[0], &c.Segments()[1]
	if a, b := c.ServicesIn(first), c.ServicesIn(second); len(a) != 2 || len(b) != 2 || a[1].String() != "8-10 vlan 0" || b[1].String() != "8-9 vlan 100" {
		t.Errorf("services %v and %v", a, b)
	}
	if a, b := c.TranslationsIn(first), c.TranslationsIn(second); len(a) != 1 || len(b) != 1 {
		t.Errorf("translations %v and %v", a, b)
	}
	host := netip.MustParseAddr("10.9.7.7")
	if c.Allows(first, host) || !c.Allows(second, host) || !c.Allows(first, netip.MustParseAddr("10.9.0.7")) {
		t.Error("the second segment's policy is not its alone")
	}
	if again := parsed(t, c.TOML(true)); len(Diff(c, again)) != 0 {
		t.Errorf("written and read again:\n%v\n%s", Diff(c, again), c.TOML(true))
	}
	more, err := c.Extend("[[service]]\nport = 11\nvlan = 100\n")
	if err != nil || Diff(c, more).String() != "+ [[service]] 11 vlan 100" {
		t.Errorf("%v: %v", Diff(c, more), err)
	}
	wider := parsed(t, strings.Replace(text, "10.9.7.0/24", "10.9.0.0/16", 1))
	if d := Diff(c, wider); len(d.NeedRestart()) != 0 || d.String() != `~ [[roce]] VLAN 100 allow: ["10.9.7.0/24"] -> ["10.9.0.0/16"]` {
		t.Errorf("another policy: %v", d)
	}
}

// twoRanges has the same addresses in both segments, and MGIDs of a form.
func twoRanges(form string) string {
	r := "[[range]]\nip = \"239.2.0.0/16\"\nmgid = " + form + "\npkey = 0x800"
	return twoSegments + r + "1\n" + r + "2\n"
}

// ranges has a range in each segment, whose MGIDs do not tell the segments apart.
func ranges(first, second string) string {
	const form = "[[range]]\nip = %q\nmgid = \"ib\"\npkey = 0x800%d\n"
	return fmt.Sprintf(form, first, 1) + fmt.Sprintf(form, second, 2)
}

const wideAndNarrow = "mgid \"ib\" gives groups the MGIDs of range "

// TestSegmentRanges reads the same range in both segments.
func TestSegmentRanges(t *testing.T) {
	for _, form := range []string{`"rdmacm"`, `"ipoib"`, `"ff15:4001:{pkey}::{ip28}"`} {
		c := parsed(t, twoRanges(form))
		if again := parsed(t, c.TOML(true)); len(c.Ranges) != 2 || len(Diff(c, again)) != 0 {
			t.Errorf("%s: %v", form, Diff(c, again))
		}
	}
	alone := strings.Replace(twoRanges(`"ib"`), "ip = \"239.2.0.0/16\"", "ip = \"239.3.0.0/16\"", 1)
	if c := parsed(t, alone); len(c.Ranges) != 2 {
		t.Errorf("%v", c.Ranges)
	}
}

// TestScopeProblems checks that what contradicts itself in a segment, or between two, is told in one line.
func TestScopeProblems(t *testing.T) {
	node := "[[host]]\nip = \"10.9.0.7\"\nside = \"ib\"\ngid = \"fe80::%\"\npkey = 0x800%\n"
	for text, want := range map[string]string{
		twoSegments + "[[service]]\nport = 7\nvlan = 5\n":                                         "service 7: vlan 5 is no segment's; write vlan = 0 or vlan = 100, or remove it, which means all",
		twoSegments + "[[service]]\nport = 7\n[[service]]\nport = 7\nvlan = 100\n":                "service 7: port 7 is also that of service 7 in line 36; each needs its own",
		twoSegments + "[[translate]]\nroce = \"10.9.0.0/24\"\nib = \"10.8.0.0/24\"\nvlan = 7\n":   "vlan 7 is no segment's; write vlan = 0 or vlan = 100",
		twoSegments + "[[translate]]\nroce = \"10.7.0.0/24\"\nib = \"10.9.0.0/24\"\nvlan = 100\n": "ib 10.9.0.0/24 has the address of host 10.9.0.1",
		twoSegments + strings.ReplaceAll(node, "%", "1") + strings.ReplaceAll(node, "%", "2"):     "two InfiniBand nodes cannot have one address, even in two partitions; give each its own",
		twoRanges(`"ib"`): "mgid \"ib\" gives groups the MGIDs of range 239.2.0.0/16 in line 36, which is another segment's; use a form with the P_Key",
		twoSegments + "[[range]]\nip = \"239.2.0.0/16\"\nmgid = \"ib\"\npkey = 0x8002\n[[group]]\nip = \"239.1.2.9\"\nmgid = \"ff15:4001::f02:5\"\npkey = 0x8001\n": "mgid \"ib\" gives a group the MGID ff15:4001::f02:5 of group 239.1.2.9",
		twoSegments + ranges("239.2.0.0/16", "239.0.0.0/8"):                        wideAndNarrow + "239.2.0.0/16",
		twoSegments + ranges("239.0.0.0/8", "239.2.0.0/16"):                        wideAndNarrow + "239.0.0.0/8",
		strings.Replace(twoSegments, "allow = [\"10.9.0.0/24\"]", "allow = []", 1): "allow is empty, so nothing would cross",
	} {
		_, err := Parse("f.toml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		} else if n := len(err.(Problems)); n != 1 {
			t.Errorf("%d problems, not one: %v", n, err)
		}
	}
	own := strings.Replace(strings.Replace(twoSegments, "allow = [\"10.9.0.0/24\"]", "", 1), "mtu = 4200", "mtu = 4200\nallow = [\"10.9.0.0/24\"]", 1)
	if _, err := Parse("f.toml", []byte(own)); err == nil || !strings.Contains(err.Error(), "10.9.0.1 is in no prefix of [policy] allow") {
		t.Errorf("a host that another segment allows: %v", err)
	}
}

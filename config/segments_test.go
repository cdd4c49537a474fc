// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

const twoSegments = `
[[roce]]
port = "af_packet:eth1"
addresses = ["10.9.0.254/24"]
mtu = 4200
pkey = 0x8001
querier = true
[[roce]]
port = "af_packet:eth1"
vlan = 100
addresses = ["10.9.0.254/24"]
mtu = 1500
pkey = 0x8002
versions = ["v1", "v2"]
[ib]
port = "fabric:"
[[host]]
ip = "10.9.0.1"
side = "roce"
mac = "02:00:00:00:00:01"
vlan = 0
[[host]]
ip = "10.9.0.1"
side = "roce"
mac = "02:00:00:00:00:01"
vlan = 100
[[group]]
ip = "239.1.2.3"
pkey = 0x8001
[[group]]
ip = "239.1.2.3"
pkey = 0x8002
[policy]
allow = ["10.9.0.0/24"]
`

func parsed(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("f.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSegments reads two VLANs of one port, with the same addresses and groups.
func TestSegments(t *testing.T) {
	c := parsed(t, twoSegments)
	all := c.Segments()
	if len(all) != 2 || all[0].PKey != 0x8001 || all[1].PKey != 0x8002 || all[1].VLAN != 100 || all[1].MTU != 1500 || !all[1].V1 || all[0].V1 || !all[0].Querier || all[1].Querier {
		t.Errorf("%+v", all)
	}
	for i, g := range c.Groups {
		if n, ok := c.SegmentOf(g.PKey); n != i || !ok {
			t.Errorf("group %d is in segment %d", i, n)
		}
	}
	if again := parsed(t, c.TOML(true)); len(Diff(c, again)) != 0 || len(again.More) != 1 {
		t.Errorf("written and read again:\n%s", c.TOML(true))
	}
	if _, ok := c.SegmentOf(0x8003); ok {
		t.Error("a segment reaches a partition of nobody")
	}
	if all[0].Name() != "untagged" || all[1].Name() != "VLAN 100" {
		t.Errorf("names %q, %q", all[0].Name(), all[1].Name())
	}
	if _, err := c.Extend("[[host]]\nip = \"10.9.0.9\"\nside = \"roce\"\nvlan = 5\n"); err == nil || !strings.Contains(err.Error(), "vlan 5 is no segment's") {
		t.Errorf("a host of a VLAN that is not there: %v", err)
	}
	if _, err := c.Extend("[[host]]\nip = \"10.9.0.9\"\nside = \"roce\"\nvlan = 100\n"); err != nil {
		t.Error(err)
	}
}

// TestSegmentDiff names the segment of each difference. One [[roce]] is a [roce].
func TestSegmentDiff(t *testing.T) {
	before := parsed(t, twoSegments)
	if d := Diff(before, parsed(t, twoSegments)); len(d) != 0 {
		t.Errorf("no change is %v", d)
	}
	d := Diff(before, parsed(t, strings.Replace(twoSegments, "mtu = 1500", "mtu = 4200\nquerier = true", 1)))
	if s := d.String(); s != "~ [[roce]] VLAN 100 mtu: 1500 -> 4200  (needs a restart)\n~ [[roce]] VLAN 100 querier: false -> true" {
		t.Errorf("changes:\n%s", s)
	}
	one := "[roce]\nport = \"ring\"\naddresses = [\"10.9.0.254/24\"]\n[ib]\nport = \"fabric:\"\n"
	if d := Diff(parsed(t, one), parsed(t, "["+strings.Replace(one, "[roce]", "[roce]]", 1))); len(d) != 0 {
		t.Errorf("[[roce]] in place of [roce] is %v", d)
	}
	two := "[[roce]]\nport = \"ring\"\naddresses = [\"10.9.0.254/24\"]\npkey = 0x8001\n[[roce]]\nport = \"ring\"\nvlan = 7\naddresses = [\"10.8.0.254/24\"]\npkey = 0x8002\n[ib]\nport = \"fabric:\"\n"
	added := Diff(parsed(t, one), parsed(t, two))
	if len(added.NeedRestart()) != 1 || !strings.Contains(added.String(), "+ [[roce]] VLAN 7 addresses 10.8.0.254/24, pkey 0x8002") {
		t.Errorf("a segment more: %v", added)
	}
	if back := Diff(parsed(t, two), parsed(t, one)); !strings.Contains(back.String(), "- [[roce]] VLAN 7") {
		t.Errorf("a segment less: %v", back)
	}
}

// TestSegmentOrder checks that segments are known by their VLANs: they may come, go, and change places while the bridge
// runs.
func TestSegmentOrder(t *testing.T) {
	head, tail := "[ib]\nport = \"fabric:\"\n", []string{}
	for _, s := range []string{"vlan = 7\npkey = 0x8001\n", "vlan = 8\npkey = 0x8002\n", "pkey = 0x8003\n"} {
		tail = append(tail, "[[roce]]\nport = \"ring\"\naddresses = [\"10.9.0.254/24\"]\n"+s)
	}
	of := func(order ...int) *Config {
		text := head
		for _, i := range order {
			text += tail[i]
		}
		return parsed(t, text)
	}
	if d := Diff(of(0, 1, 2), of(2, 0, 1)); len(d) != 0 {
		t.Errorf("another order is %v", d)
	}
	d := Diff(of(0, 1), of(2, 1))
	if s := d.String(); len(d.NeedRestart()) != 0 || s != "- [[roce]] VLAN 7 addresses 10.9.0.254/24, pkey 0x8001\n+ [[roce]] untagged addresses 10.9.0.254/24, pkey 0x8003" {
		t.Errorf("one for another:\n%s", s)
	}
	if d := Diff(of(0), of(1)); len(d.NeedRestart()) != 2 {
		t.Errorf("another VLAN and partition of an only one: %v", d)
	}
}

// TestGroupVLANs reads groups of several segments, and rejects what contradicts them.
func TestGroupVLANs(t *testing.T) {
	with := func(more string) (*Config, error) { return Parse("f.toml", []byte(twoSegments+more)) }
	c, err := with("[[group]]\nip = \"239.7.7.7\"\npkey = 0x8003\nvlans = [100, 0, 100]\n")
	if err != nil {
		t.Fatal(err)
	}
	g := c.Groups[2]
	if in := c.GroupSegments(&g); len(in) != 2 || in[0] != 0 || in[1] != 1 || len(g.VLANs) != 2 || g.VLANs[0] != 0 || g.PKey != 0x8003 {
		t.Errorf("%+v is in %v", g, in)
	}
	if again := parsed(t, c.TOML(true)); len(Diff(c, again)) != 0 || !strings.Contains(c.TOML(true), "vlans = [0, 100]") {
		t.Errorf("written and read again:\n%s", c.TOML(true))
	}
	for text, why := range map[string]string{
		"[[group]]\nip = \"239.7.7.7\"\npkey = 0x8003\n":                                            "pkey 0x8003 is no segment's",
		"[[group]]\nip = \"239.7.7.7\"\npkey = 0x8003\nvlans = [5]\n":                               "vlans has 5, which is no segment's; those there are: vlan = 0 or vlan = 100",
		"[[group]]\nip = \"239.1.2.3\"\npkey = 0x8003\nvlans = [0, 100]\ndirection = \"to-roce\"\n": "a group with vlans has its address alone there",
	} {
		if _, err := with(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", text, err, why)
		}
	}
}

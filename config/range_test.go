// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"testing"
)

// TestRanges checks the parameters that a range gives to each of its groups, in every form of MGID.
func TestRanges(t *testing.T) {
	const head = small + "[policy]\nallow = [\"10.9.0.0/24\"]\n"
	for _, c := range []struct{ name, table, group, want string }{
		{"default", `ip = "239.1.0.0/16"`, "239.1.2.3", "ff12:4001:ffff::f01:203"},
		{"scope and P_Key", "ip = \"239.1.0.0/16\"\nscope = 5\npkey = 0x0001", "239.1.2.3", "ff15:4001:8001::f01:203"},
		{"IPv6", "ip = \"ff15:0:0::/48\"\nscope = 5", "ff15::1:2:3", "ff15:6001:ffff::1:2:3"},
		{"ipoib", "ip = \"239.0.0.0/8\"\nmgid = \"ipoib\"", "239.1.2.3", "ff12:401b:ffff::f01:203"},
		{"port", "ip = \"239.0.0.0/8\"\nmgid = \"port\"\nport = 4711", "239.1.2.3", "ff15:a01b::1267:ef01:203"},
		{"ib", "ip = \"239.0.0.0/8\"\nmgid = \"ib\"", "239.1.2.3", "ff15:4001::f01:203"},
		{"template", "ip = \"ff35::/48\"\nmgid = \"ff1{scope}:a0:{pkey}:{ip80}\"", "ff35::7:0:9", "ff12:a0:ffff::7:0:9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := parseGood(t, head+"[[range]]\n"+c.table+"\n").Ranges[0]
			if got := r.MGID(netip.MustParseAddr(c.group)); got != gid(t, c.want) {
				t.Errorf("%s has %v, want %s", c.group, got, c.want)
			}
		})
	}
	r := parseGood(t, head+"[[range]]\nip = \"239.1.0.0/16\"\nfrom = [\"sa\", \"reports\"]\nrate = \"5 pps\"\ndirection = \"to-ib\"\nmost = 9\nsources = [\"10.9.0.9\", \"10.9.0.7\"]\n").Ranges[0]
	if !r.SA || !r.Reports || r.Most != 9 || addrList(r.Group.Sources) != "10.9.0.7+10.9.0.9" || r.Group.RatePPS != 5 || r.Group.Direction != ToIB || !r.Group.RewriteImm {
		t.Errorf("%+v", r)
	}
}

// TestManyPorts checks that one address may have several groups, of which one is for packets to InfiniBand.
func TestManyPorts(t *testing.T) {
	c := parseGood(t, small+`[policy]
allow = ["10.9.0.0/24"]
[[group]]
ip = "239.1.2.3"
mgid = "port"
port = 4711
[[group]]
ip = "239.1.2.3"
mgid = "port"
port = 4712
direction = "to-roce"
[[group]]
ip = "239.1.2.3"
direction = "to-roce"
`)
	for i, want := range []string{"ff15:a01b::1267:ef01:203", "ff15:a01b::1268:ef01:203", "ff12:4001:ffff::f01:203"} {
		if g := c.Groups[i]; g.MGID != gid(t, want) || g.IP != c.Groups[0].IP {
			t.Errorf("group %d: %+v", i, g)
		}
	}
}

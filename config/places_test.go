// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"
	"testing"
)

// twoPorts has two ports, both untagged, and a VLAN of the second; the third has the port of the first by default.
const twoPorts = `
[[roce]]
port = "af_packet:eth1"
addresses = ["10.9.0.254/24"]
pkey = 0x8001
[[roce]]
port = "bond:lacp,af_packet:eth2,af_packet:eth3"
addresses = ["10.9.0.254/24"]
mtu = 4200
pkey = 0x8002
[[roce]]
vlan = 7
addresses = ["10.9.0.254/24"]
pkey = 0x8003
[ib]
port = "fabric:"
[[host]]
ip = "10.9.0.1"
side = "roce"
segment = "af_packet:eth1/0"
[[host]]
ip = "10.9.0.1"
side = "roce"
segment = "bond:lacp,af_packet:eth2,af_packet:eth3/0"
[[host]]
ip = "10.9.0.1"
side = "roce"
vlan = 7
[[group]]
ip = "239.7.7.7"
pkey = 0x8004
segments = ["bond:lacp,af_packet:eth2,af_packet:eth3/0", "af_packet:eth1/0"]
[[group]]
ip = "239.1.2.3"
pkey = 0x8002
[[service]]
port = 7174
segment = "bond:lacp,af_packet:eth2,af_packet:eth3/0"
[policy]
allow = ["10.9.0.0/24"]
`

// TestEthernetPorts reads segments of two ports, and what names one of them.
func TestEthernetPorts(t *testing.T) {
	c := parsed(t, twoPorts)
	all, ports := c.Segments(), c.EthPorts()
	if len(ports) != 2 || ports[1].Driver != bondDriver || all[2].Port != ports[0] || all[2].VLAN != 7 {
		t.Fatalf("ports %v, segments %+v", ports, all)
	}
	for i, name := range []string{"af_packet:eth1/0", "bond:lacp,af_packet:eth2,af_packet:eth3/0", "af_packet:eth1/7"} {
		if all[i].Name() != name || all[i].Label() != name {
			t.Errorf("segment %d is %q, %q", i, all[i].Name(), all[i].Label())
		}
		if n := len(c.HostsIn(&all[i])); n != 1 {
			t.Errorf("%s has %d hosts", name, n)
		}
		if n := len(c.ServicesIn(&all[i])); (n == 1) != (i == 1) {
			t.Errorf("%s has %d services", name, n)
		}
	}
	if in := c.GroupSegments(&c.Groups[0]); !slices.Equal(in, []int{0, 1}) {
		t.Errorf("the shared group is in %v", in)
	}
	if in := c.GroupSegments(&c.Groups[1]); !slices.Equal(in, []int{1}) {
		t.Errorf("the second's group is in %v", in)
	}
	if again := parsed(t, c.TOML(true)); len(Diff(c, again)) != 0 || len(again.EthPorts()) != 2 {
		t.Errorf("written and read again:\n%s\n%s", c.TOML(true), Diff(c, again))
	}
	one := parsed(t, twoSegments)
	if one.Segments()[1].Label() != "" || len(one.EthPorts()) != 1 {
		t.Error("one port's segments are named by it")
	}
	if _, err := c.Extend("[[host]]\nip = \"10.9.0.9\"\nside = \"roce\"\nvlan = 0\n"); err == nil || !strings.Contains(err.Error(), "vlan 0 is that of segments of several ports") {
		t.Errorf("a host that may be of two: %v", err)
	}
	if _, err := c.Extend("[[host]]\nip = \"10.9.0.9\"\nside = \"roce\"\nsegment = \"af_packet:eth1/0\"\n"); err != nil {
		t.Error(err)
	}
}

// TestEthernetPortsDiff knows segments by port and VLAN: those of an open port may come and go, and those of another.
func TestEthernetPortsDiff(t *testing.T) {
	c := parsed(t, twoPorts)
	more := "[[roce]]\nport = \"PORT\"\nvlan = 9\naddresses = [\"10.9.0.254/24\"]\npkey = 0x8009\n"
	of := func(port string) Changes { return Diff(c, parsed(t, twoPorts+strings.Replace(more, "PORT", port, 1))) }
	d := of("bond:lacp,af_packet:eth2,af_packet:eth3")
	if len(d) != 1 || !d[0].Live || d[0].What != Added {
		t.Errorf("one more of an open port: %v", d)
	}
	d = of("af_packet:eth4")
	want := "+ [[roce]] af_packet:eth4/9 addresses 10.9.0.254/24, pkey 0x8009"
	if d.String() != want {
		t.Errorf("one of a new port:\n%s\nwant\n%s", d, want)
	}
	gone := strings.NewReplacer("[[roce]]\nvlan = 7\naddresses = [\"10.9.0.254/24\"]\npkey = 0x8003\n", "", "[[host]]\nip = \"10.9.0.1\"\nside = \"roce\"\nvlan = 7\n", "").Replace(twoPorts)
	if d := Diff(c, parsed(t, gone)); len(d.NeedRestart()) != 0 || len(d) != 2 {
		t.Errorf("one less: %v", d)
	}
	only := "[roce]\nport = \"af_packet:eth1\"\naddresses = [\"10.9.0.254/24\"]\nmtu = 1500\n[ib]\nport = \"fabric:\"\n[policy]\nallow = [\"10.9.0.0/24\"]\n"
	d = Diff(parsed(t, only), parsed(t, strings.NewReplacer("eth1", "eth2", "1500", "4200").Replace(only)))
	want = "- [[roce]] af_packet:eth1/0 addresses 10.9.0.254/24, pkey 0x0000\n+ [[roce]] af_packet:eth2/0 addresses 10.9.0.254/24, pkey 0x0000"
	if d.String() != want {
		t.Errorf("the only one on another port:\n%s\nwant\n%s", d, want)
	}
}

// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"net/netip"

	"causeway/ibside/ib"
)

const demo = `
[fabric]
prefix  = "fe80::"
mtu     = 2048
pkeys   = [0xffff, 0x8001]
socket  = "/tmp/demo.sock"
capture = "demo.pcap"

[[node]]
name   = "sensor" # a comment with guid = 1
guid   = "0002:c903:0000:0007"
ip     = "10.9.0.7"
role   = "publish"
groups = [{ip = "239.1.2.3"}, {ip = "239.1.2.3", mgid = "ipoib"}, {mgid = "ff15::7", qkey = 5}]
rate   = 1000
size   = 256
count  = 9

[[node]]
name = "idle"
guid = 0x0002c90300000008
qpn  = 0x48
qkey = 7
`

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "demo.toml")
	if err := os.WriteFile(path, []byte(demo), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	mgid := func(s string) ib.GID {
		g, err := ib.ParseGID(s)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	want := Config{
		Prefix: PrefixLinkLocal, MTU: ib.MTU2048, PKeys: []ib.PKey{0xffff, 0x8001}, Socket: "/tmp/demo.sock",
		CaptureFile: "demo.pcap", Queue: defaultQueue,
		Nodes: []NodeConfig{
			{
				Name: "sensor", GUID: 0x0002c90300000007, IP: netip.MustParseAddr("10.9.0.7"), Role: RolePublish,
				QKey: ib.QKeyRDMAUDP, RatePPS: 1000, Size: 256, Count: 9, Groups: []GroupConfig{
					{mgid("ff12:4001:ffff::f01:203"), ib.QKeyRDMAUDP},
					{mgid("ff12:401b:ffff::f01:203"), ib.QKeyIPoIB},
					{mgid("ff15::7"), 5},
				},
			},
			{
				Name: "idle", GUID: 0x0002c90300000008, QPN: 0x48, QKey: 7, Role: RoleNone,
				RatePPS: defaultRatePPS, Size: defaultSize,
			},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Load:\n got %+v\nwant %+v", got, want)
	}
	if c, err := Load(""); err != nil || !reflect.DeepEqual(c, Config{}) {
		t.Errorf("Load(\"\") = %+v, %v; want the empty topology", c, err)
	}
	if _, err := Load(path + "x"); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Load of a missing file: %v; want its name", err)
	}
}

func TestLoadErrors(t *testing.T) {
	good := "[[node]]\nname='a'\nguid=1\n[[node]]\nname='b'\nguid=2\n"
	for _, c := range []struct{ name, text, want string }{
		{"no TOML", "[fabric]\nmtu =\n", "f:2:"},
		{"wrong type", "[fabric]\n\nmtu = 'big'\n", "f:3:"},
		{"unknown key", good + "rat = 5\n", `f:7: key "node.rat" is not known; use name, guid`},
		{"unknown key of fabric", "[fabric]\nmtu=256\nlid=1\n", `f:3: key "fabric.lid" is not known; use prefix`},
		{"unknown key of a group", good + "groups=[{ip='239.0.0.1', qkye=1}]\n", `f:7: key "node.groups.qkye" is not known; use ip, mgid`},
		{"unknown table", good + "[switch]\nx=1\n", "f:7: key \"switch\" is not known; use [fabric] and [[node]]"},
		{"mtu", "[fabric]\nmtu = 1500\n", "f:2: mtu: 1500; use 256"},
		{"prefix", "[fabric]\nprefix = 'fe80::1'\n", "f:2: prefix:"},
		{"pkey", "[fabric]\npkeys = [0x8000]\n", "f:2: pkeys: P_Key 0x8000"},
		{"no name", "[[node]]\nguid=1\n", "f:1: name:"},
		{"same name", good + "[[node]]\nguid=3\nname='a'\n", `f:9: name: there is another node "a"`},
		{"guid", good + "[[node]]\nname='c'\nguid='x'\n", "f:9: guid:"},
		{"guid zero", "[[node]]\nname='c'\nguid=0\n", "f:3: guid:"},
		{"ip", good + "ip='10.0.0'\n", "f:7: ip:"},
		{"role", good + "role='sing'\n", `f:7: role: node b: role "sing" is not known; use echo`},
		{"group not multicast", good + "groups=[{ip='10.0.0.1'}]\n", "f:7: groups:"},
		{"group without address", good + "groups=[{qkey=1}]\n", "f:7: groups:"},
		{"mgid", good + "groups=[{ip='239.0.0.1', mgid='rdmacn'}]\n", `mgid "rdmacn": use rdmacm`},
		{"publisher without group", good + "role='publish'\n", "f:7: role: node b: a publisher needs a group"},
		{"size", good + "size=4097\nrole='echo'\n", "size 4097"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := parseTopology("f", c.text); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// loadText loads a file with a text.
func loadText(t *testing.T, text string) *Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bridge.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const memberFile = `[bridge]
name = "m1"
[roce]
port = "af_packet:eth1"
addresses = ["10.9.0.254/24"]
mtu = 4200
[ib]
port = "fabric:subnet.toml"
[policy]
allow = ["10.9.0.0/24"]
unknown_source = "bridge"
[[host]]
ip = "10.9.0.7"
side = "ib"
gid = "fe80::7"
[[host]]
ip = "10.9.0.8"
side = "ib"
gid = "fe80::8"
bridge = true
[[group]]
ip = "239.1.2.3"
`

// TestWithShared: whole tables are those that were pushed, but for other bridges; of others the keys, and the rest is the file's.
func TestWithShared(t *testing.T) {
	c := loadText(t, memberFile)
	to, err := c.WithShared("push.toml", "[policy]\nallow = [\"10.8.0.0/15\"]\n[roce]\nttl = 9\n[fleet]\nlease_ms = 500\n[[host]]\nip = \"10.9.0.9\"\nside = \"ib\"\ngid = \"fe80::9\"\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(to.Hosts) != 2 || to.Hosts[0].IP.String() != "10.9.0.9" || !to.Hosts[1].Bridge || len(to.Groups) != 0 || to.Policy.BridgeUnknown || to.RoCE.TTL != 9 || to.RoCE.MTU != 4200 || to.Name != "m1" {
		t.Errorf("it is\n%s", to.TOML(true))
	}
	if got := to.Policy.Allow[0].String(); got != "10.8.0.0/15" {
		t.Errorf("[policy] allow is %s", got)
	}
	if !filepath.IsAbs(to.IB.Port.File) {
		t.Errorf("the subnet's file is %s", to.IB.Port.File)
	}
	again, err := to.WithoutShared()
	if err != nil || len(Diff(again, c)) != 0 {
		t.Errorf("without what was pushed, it is not the file's again: %v, %v", Diff(again, c), err)
	}
}

// TestWithSharedSegments: a segment is known by its VLAN.
func TestWithSharedSegments(t *testing.T) {
	c := loadText(t, "[[roce]]\nport = \"af_packet:eth1\"\npkey = 0x8001\naddresses = [\"10.9.0.254/24\"]\n[[roce]]\nvlan = 7\npkey = 0x8007\naddresses = [\"10.7.0.254/24\"]\n[ib]\nport = \"fabric:\"\n")
	to, err := c.WithShared("push.toml", "[[roce]]\nvlan = 7\nallow = [\"10.7.0.0/24\"]\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(to.RoCE.Allow) != 0 || len(to.More[0].Allow) != 1 || to.More[0].PKey != 0x8007 {
		t.Errorf("it is\n%s", to.TOML(true))
	}
	if _, err = c.WithShared("push.toml", "[[roce]]\nvlan = 8\n"); err == nil || !strings.Contains(err.Error(), "bridge.toml with push.toml: roce vlan 8: the member's file has no segment of this VLAN") {
		t.Errorf("a segment that is not there: %v", err)
	}
}

// TestSharedBad has each key that is not shared be named, with its line.
func TestSharedBad(t *testing.T) {
	c := loadText(t, memberFile)
	const own = " is each member's own, and nothing that a fleet shares; write it in the members' files, and remove it here"
	for text, want := range map[string]string{
		"[policy]\nallow = 3\n": "config: " + c.origin.path + " with push.toml: policy: allow is a number, 3; write a list of strings",
		"[policy\n":             "config: push.toml:2: this is not TOML:",
		"[bridge]\nname = \"x\"\n[log]\nlevel = \"warn\"":                                "config: push.toml:2: bridge: name" + own + "\nconfig: push.toml:4: log: level" + own,
		"[roce]\nmtu = 1500\nport = \"ring\"\n":                                          "config: push.toml:3: roce: port" + own,
		"[[host]]\nip = \"10.9.0.9\"\nside = \"ib\"\ngid = \"fe80::9\"\nbridge = true\n": "config: push.toml:5: host: bridge" + own,
		"[polcy]\n":             "config: push.toml:1: table [polcy] is not known; did you mean policy?",
		"[policy]\nallw = []\n": "config: push.toml:2: policy: key allw is not known; did you mean allow?",
		"policy = 3\n":          "config: push.toml:1: policy is a number, 3; write [policy]",
		"[[ib]]\npkey=0x8001\n[[ib]]\npkey = 0x8002\n": "ib number 2: the member's file has no such table",
		"#" + strings.Repeat("x", largestPushed):       "config: push.toml: 524289 bytes are too many to be kept in etcd; the limit is 524288",
	} {
		if _, err := c.WithShared("push.toml", text); err == nil || !strings.HasPrefix(err.Error(), want) && !strings.Contains(err.Error(), "push.toml: "+want) {
			t.Errorf("%.80q:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"strings"
	"testing"

	"causeway/app/command"
	"causeway/config"
)

const segmentsFile = `[[roce]]
port = "ring"
addresses = ["10.9.0.254/24"]
pkey = 0x8001
[[roce]]
port = "ring"
vlan = 100
addresses = ["10.9.0.254/24"]
pkey = 0x8002
[ib]
port = "fabric:"
[policy]
allow = ["10.9.0.0/24"]
`

// TestSegmentCommands adds and removes services of one segment, and chooses segments.
func TestSegmentCommands(t *testing.T) {
	e, b := env(3)
	cfg, err := config.Parse("f.toml", []byte(segmentsFile))
	if err != nil {
		t.Fatal(err)
	}
	b.Cfg = cfg
	run(t, e, "add service 7 vlan 100")
	run(t, e, "add service 7 vlan 0")
	run(t, e, "add service 8")
	if text := run(t, e, "show services").Text(0); strings.Count(text, "VLAN 100") != 1 || strings.Count(text, "untagged") != 1 {
		t.Errorf("services:\n%s", text)
	}
	if err := fails(t, e, "add service 9 vlan 5"); !strings.Contains(err, "vlan 5 is no segment's; write vlan = 0 or vlan = 100") {
		t.Error(err)
	}
	run(t, e, "add group 239.1.2.9 pkey 0x8002")
	run(t, e, "add host 10.9.0.8 gid fe80::8 pkey 0x8001")
	if g, h := b.Cfg.Groups, b.Cfg.Hosts; len(g) != 1 || g[0].PKey != 0x8002 || len(h) != 1 || h[0].PKey != 0x8001 {
		t.Errorf("groups %+v, hosts %+v", g, h)
	}
	run(t, e, "remove service 7 vlan 0")
	if s := b.Cfg.Services; len(s) != 2 || s[0].String() != "7 vlan 100" || s[1].String() != "8" {
		t.Errorf("services %v", s)
	}
	for line, want := range map[string]string{"top vlan 5 count 1": "no segment is VLAN 5", "trace vlan 5000": "4094", "capture vlan x": "vlan"} {
		v, err := command.Standard.Parse(line)
		if err == nil {
			err = v.Command.Stream(t.Context(), v.Call(e, command.Admin, "test"), nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	for _, line := range []string{"trace vlan 100 host 10.9.0.1", "capture vlan 0 count 5", "explain from roce 10.9.0.1 qpn 1 to 239.1.2.3 vlan 100", "explain from ib 10.9.0.7 qpn 1 group 239.1.2.3 vlan 100"} {
		if _, err := command.Standard.Parse(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

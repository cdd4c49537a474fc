// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"
	"testing"
)

// ownKeys are those that members of a fleet need not have the same, besides whole tables: they name what is the machine's, and
// the fleet itself. A host's segment stands for its VLAN, which is shared.
var ownKeys = []string{
	"roce.port", "roce.addresses", "roce.querier", "ib.port", "ib.gid", "ib.host_gids", "ib.alias_gids", "ib.direct", "ib.node_idle", "ib.ipoib", "ib.name",
	"fleet.name", "fleet.etcd", "fleet.ca", "fleet.cert", "fleet.key", "fleet.weight", "fleet.configuration", "group.segments", "range.segments", "service.segment", "translate.segment",
}

// TestShared gives each key another value, and checks that it is shared, or known as a member's own.
func TestShared(t *testing.T) {
	own := []string{"bridge", "workers", "metrics", "console", "log"}
	eachOtherValue(t, func(name string, k key, old, to *Config) {
		differs := SharedDiff(old.Shared(), to.Shared())
		if same := slices.Contains(own, k.table) || slices.Contains(ownKeys, name); same != (differs == "") {
			t.Errorf("%s: own is %v, but the difference is %q", name, same, differs)
		}
	})
}

// TestSharedDiff checks in what words members differ.
func TestSharedDiff(t *testing.T) {
	const file = small + "[policy]\nallow = [\"10.9.0.0/24\"]\n"
	own := parseGood(t, file+"[[group]]\nip = \"239.1.2.3\"\nqkey = 0x1234567\n").Shared()
	const group = "[[group]] 239.1.2.3 is ip 239.1.2.3, mgid ff12:4001:ffff::f01:203, qkey hidden, pkey 0xffff"
	for _, c := range []struct{ theirs, want string }{
		{file + "[[group]]\nip = \"239.1.2.3\"\nqkey = 0x1234567\n", ""},
		{strings.Replace(file, "0.254/24", "0.253/24", 1) + "[[group]]\nip = \"239.1.2.3\"\nqkey = 0x1234567\n", ""},
		{strings.Replace(file, "allow = [\"10.9.0.0/24", "allow = [\"10.8.0.0/16", 1) + "[[group]]\nip = \"239.1.2.3\"\nqkey = 0x1234567\n", `[policy] allow is ["10.9.0.0/24"] here, and ["10.8.0.0/16"] there`},
		{file + "[[group]]\nip = \"239.1.2.3\"\nqkey = 0x1234567\npgm = false\n", ""},
		{strings.Replace(file, "0.254/24", "0.253/16", 1) + "[[group]]\nip = \"239.1.2.3\"\nqkey = 0x1234567\n", `[roce] vlan 0 subnets is 10.9.0.0/24 here, and 10.9.0.0/16 there`},
		{file, group + " here, and absent there"},
		{file + "[[group]]\nip = \"239.1.2.3\"\nqkey = 0x7654321\n", group + " here, and " + strings.TrimPrefix(group, "[[group]] 239.1.2.3 is ") + " there"},
	} {
		if got := SharedDiff(own, parseGood(t, c.theirs).Shared()); got != c.want {
			t.Errorf("%s\ngot  %q\nwant %q", c.theirs, got, c.want)
		}
	}
}

// TestSharedDefaults: what has its default is not in it, so that a version which knows more keys says the same. Where members
// differ, operators read the default.
func TestSharedDefaults(t *testing.T) {
	const file = small + "[policy]\nallow = [\"10.9.0.0/24\"]\n[fleet]\nname = \"east\"\netcd = [\"http://10.0.0.1:2379\"]\n"
	own := parseGood(t, file).Shared()
	for _, line := range own {
		if strings.HasPrefix(line, "[fleet]") {
			t.Errorf("it has %q", line)
		}
	}
	for more, want := range map[string]string{
		"lease_ms = 1000\nwithout_etcd = \"stop\"\n": "",
		"lease_ms = 900\n":                           "[fleet] lease_ms is 1000 here, and 900 there",
		"without_etcd = \"unanimous\"\n":             `[fleet] without_etcd is "stop" here, and "unanimous" there`,
	} {
		if got := SharedDiff(own, parseGood(t, file+more).Shared()); got != want {
			t.Errorf("%s: %q, want %q", more, got, want)
		}
	}
	if got, want := SharedDiff(own, append(own, "[policy] later = 7")), "[policy] later is absent here, and 7 there"; got != want {
		t.Errorf("of a key of a later version: %q, want %q", got, want)
	}
}

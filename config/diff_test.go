// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// base is a configuration with an entry of each kind.
const base = `[roce]
port = "ring"
addresses = ["10.9.0.254/24"]
[ib]
port = "fabric:"
[policy]
allow = ["10.9.0.0/24"]
[[host]]
ip = "10.9.0.7"
side = "ib"
gid = "fe80::7"
[[host]]
ip = "10.9.0.1"
side = "roce"
mac = "02:00:00:00:00:01"
[[group]]
ip = "239.1.2.3"
[[range]]
ip = "239.2.0.0/16"
[[service]]
port = 7174
[[translate]]
roce = "10.9.0.0/24"
ib = "10.10.9.0/24"
`

// TestDiff checks that each change is named with its old and new value, and whether a running bridge applies it.
func TestDiff(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"nothing", "", "", ""},
		{"a scalar that needs a restart", `port = "ring"`, "port = \"ring\"\nmtu = 4200", "~ [roce] mtu: 1500 -> 4200  (needs a restart)"},
		{"one that does not", "[policy]", "[log]\nlevel = \"debug\"\n[policy]", `~ [log] level: "info" -> "debug"`},
		{"the default, written down", `port = "ring"`, "port = \"ring\"\nmtu = 1500", ""},
		{"a policy", `["10.9.0.0/24"]`, `["10.9.0.0/24", "10.8.0.0/16"]`, `~ [policy] allow: ["10.9.0.0/24"] -> ["10.8.0.0/16", "10.9.0.0/24"]`},
		{"a map", "[policy]", "[qos]\ndscp_to_sl = { 46 = 3 }\n[policy]", "~ [qos] dscp_to_sl: DSCP >> 3 -> { 46 = 3 }"},
		{"a node's LID", `"fe80::7"`, "\"fe80::7\"\nlid = 9", "~ [[host]] 10.9.0.7 lid: none -> 9"},
		{"a node's address", `"10.9.0.7"`, `"10.9.0.8"`, "~ [[host]] 10.9.0.8 ip: 10.9.0.7 -> 10.9.0.8"},
		{"a node's GID", `"fe80::7"`, `"fe80::8"`, "~ [[host]] 10.9.0.7 gid: fe80::7 -> fe80::8"},
		{"a host's side", "\"roce\"\nmac = \"02:00:00:00:00:01\"", "\"ib\"\ngid = \"fe80::1\"", "~ [[host]] 10.9.0.1 side: roce -> ib\n" +
			"~ [[host]] 10.9.0.1 gid: none -> fe80::1\n~ [[host]] 10.9.0.1 sl: none -> 0\n~ [[host]] 10.9.0.1 bridge: none -> false\n" +
			"~ [[host]] 10.9.0.1 mac: 02:00:00:00:00:01 -> none\n~ [[host]] 10.9.0.1 vlan: 0 -> none"},
		{"a group's rate", `"239.1.2.3"`, "\"239.1.2.3\"\nrate = \"1k pps\"", "~ [[group]] 239.1.2.3 rate: none -> 1000 pps"},
		{"a group's MGID", `"239.1.2.3"`, "\"239.1.2.3\"\nscope = 5",
			"- [[group]] 239.1.2.3 mgid ff12:4001:ffff::f01:203, ethernet roce, direction both, qkey 0x1234567, pkey 0xffff, rewrite_imm true, pgm false\n" +
				"+ [[group]] 239.1.2.3 mgid ff15:4001:ffff::f01:203, ethernet roce, direction both, qkey 0x1234567, pkey 0xffff, rewrite_imm true, pgm false"},
		{"another group of an address", "[[range]]", "[[group]]\nip = \"239.1.2.3\"\nmgid = \"ib\"\ndirection = \"to-roce\"\n[[range]]",
			"+ [[group]] 239.1.2.3 ff15:4001::f01:203 mgid ff15:4001::f01:203, ethernet roce, direction to-roce, qkey 0x1234567, pkey 0xffff, rewrite_imm true, pgm false"},
		{"a range's bound", "239.2.0.0/16\"", "239.2.0.0/16\"\nmost = 9", "~ [[range]] 239.2.0.0/16 most: 256 -> 9"},
		{"a service's ports", "port = 7174", `ports = "7174-7180"`, "- [[service]] 7174\n+ [[service]] 7174-7180"},
		{"a translation's other side", "10.10.9.0", "10.10.8.0", "~ [[translate]] 10.9.0.0/24 ib: 10.10.9.0/24 -> 10.10.8.0/24"},
		{"a translation's name", `roce = "10.9.0.0/24"`, `roce = "10.9.1.0/24"`, "~ [[translate]] 10.9.1.0/24 roce: 10.9.0.0/24 -> 10.9.1.0/24"},
		{"a translation more", "[[translate]]", "[[translate]]\nroce = \"fd09::/64\"\nib = \"fd10::/64\"\n[[translate]]", "+ [[translate]] fd09::/64 ib fd10::/64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(base, c.from) {
				t.Fatalf("there is no %q", c.from)
			}
			a, b := parseGood(t, base), parseGood(t, strings.Replace(base, c.from, c.to, 1))
			if got := Diff(a, b).String(); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// otherValues are, where the example is the default, or does not fit the rest: what to replace, by what.
var otherValues = map[string][2]string{
	"roce.port": {`port = "ring"`, `port = "null"`}, "roce.addresses": {"10.9.0.254", "10.9.0.253"}, "roce.ttl": {"", "ttl = 9"},
	"roce.versions": {"", `versions = ["v1", "v2"]`}, "ib.port": {`"fabric:"`, `"mlx5_0:1"`}, "ib.pkey": {"", "pkey = 0x8001"},
	"workers.idle": {"", `idle = "sleep"`}, "workers.mbufs": {"", "mbufs = 8192"}, "workers.proxy_qp_depth": {"", "proxy_qp_depth = 64"},
	"host.ip": {"10.9.0.7", "10.9.0.9"}, "host.gid": {"fe80::7", "fe80::9"}, "host.sl": {"fe80::7\"", "fe80::7\"\nsl = 3"},
	"host.side": {"\"roce\"\nmac = \"02:00:00:00:00:01\"", "\"ib\"\ngid = \"fe80::1\""}, "host.mac": {"00:01\"", "00:02\""},
	"host.lid": {"fe80::7\"", "fe80::7\"\nlid = 3"}, "host.pkey": {"fe80::7\"", "fe80::7\"\npkey = 0x8001"}, "host.bridge": {"fe80::7\"", "fe80::7\"\nbridge = true"},
	"host.vlan": {"00:01\"", "00:01\"\nvlan = 9"}, "host.ip6": {`ip = "10.9.0.7"`, "ip = \"10.9.0.7\"\nip6 = \"fe80::5\""},
	"policy.allow": {`["10.9.0.0/24"]`, `["10.9.0.0/16", "fe80::/10"]`}, "policy.unknown_source": {"", `unknown_source = "bridge"`},
	"service.port": {"7174", "7175"}, "service.ports": {"port = 7174", `ports = "1-9"`}, "log.level": {"", `level = "warn"`},
	"log.format": {"", `format = "json"`}, "range.from": {"", `from = ["sa"]`}, "range.ip": {"239.2", "239.3"}, "group.ip": {"239.1", "239.3"},
	"group.port": {"", "mgid = \"port\"\nport = 7"}, "range.port": {"", "mgid = \"port\"\nport = 7"},
	"group.ttl": {"", "ethernet = \"udp:9\"\nttl = 9"}, "range.ttl": {"", "ethernet = \"udp:9\"\nttl = 9"},
	"group.direction": {"", `direction = "to-ib"`}, "range.direction": {"", `direction = "to-ib"`}, "group.qkey": {"", "qkey = 5"},
	"range.qkey": {"", "qkey = 5"}, "group.pkey": {"", "pkey = 0x8001"}, "range.pkey": {"", "pkey = 0x8001"}, "group.sources": {"", `sources = ["10.9.0.7"]`}, "range.sources": {"", `sources = ["10.9.0.7"]`},
	"group.mgid": {"", `mgid = "ib"`}, "range.mgid": {"", `mgid = "ib"`}, "roce.mtu": {"", "mtu = 1600"},
	"ib.gid": {`"fabric:"`, "\"mlx5_0:1\"\ngid = \"fe80::9\""}, "ib.host_gids": {`"fabric:"`, "\"mlx5_0:1\"\nhost_gids = [\"fe80::/64\"]"},
	"translate.roce": {`roce = "10.9.0.0/24"`, `roce = "10.9.1.0/24"`}, "translate.ib": {"10.10.9.0", "10.10.8.0"},
	"ib.nodes": {`"fabric:"`, "\"mlx5_0:1\"\nnodes = \"learn\""}, "ib.ipoib": {`"fabric:"`, "\"mlx5_0:1\"\nipoib = \"ib1\""},
	"ib.direct":  {"", "direct = false"},
	"fleet.name": {"[fleet]\n", inFleet}, "fleet.etcd": {"[fleet]\n", inFleet}, "fleet.weight": {"[fleet]\n", inFleet + "weight = 50\n"},
	"fleet.lease_ms": {"[fleet]\n", inFleet + "lease_ms = 2000\n"}, "fleet.ca": {"[fleet]\n", inFleet + "ca = \"a\"\n"},
	"fleet.cert": {"[fleet]\n", inFleet + "cert = \"a\"\nkey = \"b\"\n"}, "fleet.key": {"[fleet]\n", inFleet + "cert = \"a\"\nkey = \"b\"\n"},
	"ib_port.port":   {"[policy]", "[[ib_port]]\nport = \"mlx5_1:1\"\n[policy]"},
	"ib_port.pkey":   {"[policy]", "[[ib_port]]\nport = \"mlx5_1:1\"\npkey = 0x8001\n[policy]"},
	"ib_port.gid":    {"[policy]", "[[ib_port]]\nport = \"mlx5_1:1\"\ngid = \"fe80::9\"\n[policy]"},
	"ib_port.direct": {"[policy]", "[[ib_port]]\nport = \"mlx5_1:1\"\ndirect = false\n[policy]"},
	"ib_port.name":   {"[policy]", "[[ib_port]]\nport = \"mlx5_1:1\"\nname = \"b\"\n[policy]"},
	"ib_port.fabric": {"[policy]", "[[ib_port]]\nport = \"mlx5_1:1\"\nfabric = \"b\"\n[policy]"},
	"host.segment":   {"00:01\"", "00:01\"\nsegment = \"ring/0\""}, "group.segments": {"", `segments = ["ring/0"]`}, "service.segment": {"", `segment = "ring/0"`}, "translate.segment": {"", `segment = "ring/0"`},
	"host.more_gids": {"fe80::7\"", "fe80::7\"\nmore_gids = [\"fe80::107\"]"},
	"ib.alias_gids":  {`"fabric:"`, "\"mlx5_0:1\"\nalias_gids = true"},
}

const inFleet = "[fleet]\nname = \"east\"\netcd = [\"http://10.0.0.1:2379\"]\n"

// eachOtherValue calls f for each key with a configuration, and with one where the key has another value: its example, or
// another where that is the default.
func eachOtherValue(t *testing.T, f func(name string, k key, old, to *Config)) {
	t.Helper()
	text := strings.Replace(base, "[policy]", "[bridge]\n[fabrics]\n[workers]\n[qos]\n[fleet]\n[metrics]\n[console]\n[log]\n[policy]", 1)
	old := parseGood(t, strings.Replace(text, `["10.9.0.0/24"]`, `["10.9.0.0/24", "fe80::/10"]`, 1))
	for _, k := range everyKey() {
		name := k.table + "." + k.name
		from, to := tableNamed(k.table).header(), ""
		if s, ok := otherValues[name]; ok && s[0] != "" {
			from, to = s[0], s[1]
		} else if ok {
			to = from + "\n" + s[1]
		} else {
			to = from + "\n" + k.name + " = " + another(&k)
		}
		edited := strings.Replace(text, from, to, 1)
		edited = strings.Replace(edited, `["10.9.0.0/24"]`, `["10.9.0.0/24", "fe80::/10"]`, 1)
		c, err := Parse("edited.toml", []byte(edited))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f(name, k, old, c)
	}
}

// TestDiffSeesEveryKey checks that another value of any key is found, and called live as in keys.go.
func TestDiffSeesEveryKey(t *testing.T) {
	eachOtherValue(t, func(name string, k key, old, to *Config) {
		changes := Diff(old, to)
		if len(changes) == 0 {
			t.Errorf("%s: another value is not seen", name)
		}
		if !slices.ContainsFunc(changes, func(x Change) bool { return x.Live == k.live }) {
			t.Errorf("%s: live is %v, but the changes are\n%s", name, k.live, changes)
		}
	})
}

// another returns a valid value that is not the default.
func another(k *key) string {
	if k.kind == truth {
		return fmt.Sprint(!k.def.(bool))
	}
	if n, ok := k.def.(int64); ok && k.example == k.show(n) {
		if n < k.hi {
			return k.show(n + max(1, n)) // a power of two stays one
		}
		return k.show(n - 1)
	}
	return k.example
}

// TestDiffOfAny checks that a configuration does not differ from itself, in whatever order its entries are, and that
// Diff names exactly the difference: as many new entries as were added, and as many missing ones as were removed.
func TestDiffOfAny(t *testing.T) {
	entries := map[string][]string{"host": {}, "group": {}, "service": {}}
	for i := range 6 {
		entries["host"] = append(entries["host"], fmt.Sprintf("ip = \"10.9.0.%d\"\nside = \"ib\"\ngid = \"fe80::%d\"\n", i+1, i+1))
		entries["group"] = append(entries["group"], fmt.Sprintf("ip = \"239.1.0.%d\"\n", i))
		entries["service"] = append(entries["service"], fmt.Sprintf("port = %d\n", 100+i))
	}
	draw := rapid.Custom(func(t *rapid.T) []string {
		var out []string
		for _, table := range sortedKeys(map[string]any{"host": 0, "group": 0, "service": 0}) {
			for _, e := range entries[table] {
				if rapid.Bool().Draw(t, "there") {
					out = append(out, "[["+table+"]]\n"+e)
				}
			}
		}
		return out
	})
	parse := func(t *rapid.T, entries []string) *Config {
		c, err := Parse("any.toml", []byte(small+"[policy]\nallow = [\"10.9.0.0/24\"]\n"+strings.Join(entries, "")))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	size := func(c *Config) int { return len(c.Hosts) + len(c.Groups) + len(c.Services) }
	rapid.Check(t, func(t *rapid.T) {
		from, to := draw.Draw(t, "from"), draw.Draw(t, "to")
		a, b := parse(t, from), parse(t, to)
		if again := parse(t, rapid.Permutation(from).Draw(t, "order")); len(Diff(a, again)) > 0 {
			t.Fatalf("only the order is different:\n%v", Diff(a, again))
		}
		n := map[string]int{}
		for _, c := range Diff(a, b) {
			n[c.What]++
		}
		if size(a)+n[Added]-n[Removed] != size(b) || n[Changed] > 0 {
			t.Fatalf("%d entries became %d, by\n%v", size(a), size(b), Diff(a, b))
		}
		for _, x := range Diff(b, a) {
			n[map[string]string{Added: Removed, Removed: Added}[x.What]]--
		}
		if n[Added] != 0 || n[Removed] != 0 {
			t.Fatalf("back again:\n%v\nis not the reverse of\n%v", Diff(b, a), Diff(a, b))
		}
	})
}

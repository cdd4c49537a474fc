// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// wantRoundTrip checks that the file that a configuration writes means the same configuration.
func wantRoundTrip(t *testing.T, c *Config) {
	t.Helper()
	written := c.TOML(true)
	again, err := Parse("written.toml", []byte(written))
	if err != nil {
		t.Fatalf("%v; in\n%s", err, written)
	}
	a, b := *c, *again
	for _, x := range []*Config{&a, &b} {
		x.Notes, x.values = nil, nil
		x.Console.Listen, x.Policy.Allow, x.IB.HostGIDs = sorted(x.Console.Listen), sorted(x.Policy.Allow), sorted(x.IB.HostGIDs)
		x.RoCE.Allow, x.More = sorted(x.RoCE.Allow), slices.Clone(x.More)
		for i := range x.More {
			x.More[i].Allow = sorted(x.More[i].Allow)
		}
	}
	if changes := Diff(c, again); len(changes) > 0 || !reflect.DeepEqual(a, b) {
		t.Fatalf("%v\n%+v\nbecame\n%+v\nby\n%s", changes, a, b, written)
	}
	if third := again.TOML(true); third != written {
		t.Errorf("written again, it is\n%s\nnot\n%s", third, written)
	}
}

// sorted returns a list without order: that of these does not matter.
func sorted[E any](list []E) []E {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b E) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return list
}

// TestWriteExample writes the example, and the example with each key that is only a comment in it.
func TestWriteExample(t *testing.T) {
	wantRoundTrip(t, parseGood(t, small))
	wantRoundTrip(t, parseGood(t, Example()))
	device := strings.Replace(Example(), `port = "fabric:"`, `port = "mlx5_0:1"`, 1)
	comment := regexp.MustCompile(`^# (\w+) = .*`)
	for n, base := range []string{Example(), device} {
		lines := strings.Split(base, "\n")
		for i, line := range lines {
			m := comment.FindStringSubmatch(line)
			if m == nil || n == 0 && slices.Contains([]string{"gid", "host_gids", "alias_gids", "ipoib"}, m[1]) {
				continue
			}
			changed := slices.Clone(lines)
			changed[i] = strings.TrimPrefix(line, "# ")
			c, err := Parse("f.toml", []byte(strings.Join(changed, "\n")))
			if err != nil {
				continue // keys of the other side, or another form: testdata and the fuzzer have these
			}
			wantRoundTrip(t, c)
		}
	}
}

// everyValue has a value that is not the default for every key; that of unknown_source excludes another.
const everyValue = `[bridge]
name = "a-\"b\"\\c-ü"
beside = ["b", "west"]
[roce]
port = "pcap:a\u0007 b.pcap"
addresses = ["10.9.0.254/24", "fd09::fe/64", "10.8.0.1/31"]
mtu = 4200
versions = ["v1", "v2"]
vlan = 7
ttl = 9
querier = true
[ib]
port = "mlx5_0:1"
pkey = 0x8001
gid = "fe80::1"
host_gids = ["fe80::100/120"]
alias_gids = true
direct = false
nodes = "learn"
node_idle = 77
ipoib = "ib0"
[workers]
lcores = [3, 2]
management = 1
idle = "sleep"
memory_mib = 2048
rx_descs = 512
tx_descs = 256
mbufs = 90000
recv_buffers = 4096
proxy_qps = 100
proxy_qps_per_host = 50
proxy_qp_depth = 64
proxy_qp_idle = 0
proxy_qps_unconfirmed = 7
proxy_qp_rate = 900
proxy_qp_rate_per_host = 90
pgm_streams = 7
pgm_idle = 0
hosts = 9
nodes = 8
groups = 7
[[host]]
ip = "10.9.0.7"
ip6 = "fd09::7"
side = "ib"
gid = "fe80::2:c903:0:7"
lid = 9
sl = 3
pkey = 0x8003
bridge = true
[[host]]
ip6 = "fd09::8"
side = "roce"
mac = "02:00:00:00:00:08"
vlan = 0
[[group]]
ip = "239.1.2.3"
mgid = "port"
port = 4711
direction = "to-ib"
qkey = 0x11
pkey = 0x8004
rate = "1.000000001G pps"
rewrite_imm = false
pgm = true
[[group]]
ip = "239.1.2.4"
ethernet = "udp:4712"
ttl = 3
scope = 5
rate = "2G pps"
[[range]]
ip = "239.2.0.0/16"
from = ["sa", "reports"]
most = 9
sources = ["10.9.0.7"]
mgid = "ff1{scope}:4001:{pkey}:0:0:{port}:{ip28}"
scope = 8
port = 99
rate = "1500 pps"
[[range]]
ip = "239.3.0.0/16"
mgid = "ib"
[[service]]
port = 7174
[[service]]
ports = "7000-7100"
[[translate]]
roce = "10.9.1.0/24"
ib = "10.10.1.0/24"
[policy]
allow = ["10.9.0.0/24", "fd09::/64"]
unknown_source = "drop"
[qos]
dscp_to_sl = { 46 = 5, 0x10 = 1 }
sl_to_dscp = { 5 = 46 }
sl_to_pcp = { 5 = 4 }
[metrics]
listen = "0.0.0.0:9432"
pprof = true
insecure = true
[console]
listen = ["unix:/run/c.sock", "127.0.0.1:4711"]
token = "a-long-random-text"
[log]
level = "warn"
format = "json"
`

// severalPorts has a value for every key of several InfiniBand ports.
const severalPorts = `[roce]
port = "ring"
addresses = ["10.9.0.254/24"]
[[ib]]
port = "mlx5_0:1"
name = "a"
fabric = "left"
[[ib]]
port = "mlx5_1:2"
pkey = 0x8001
gid = "fe80::1"
direct = false
name = "b"
fabric = "right"
[[ib]]
port = "mlx5_2:1"
[fabrics]
mode = "both"
dedup = "imm"
hold_down = 3
max_loss = 20
[[host]]
ip = "10.9.0.7"
side = "ib"
gid = "fe80::7"
more_gids = ["", "fe80::107"]
[[group]]
ip = "239.1.2.3"
fabrics = "active"
dedup = "none"
vlans = [0]
[[group]]
ip = "239.1.2.4"
segments = ["ring/0"]
[[host]]
ip = "10.9.0.8"
side = "roce"
segment = "ring/0"
[[service]]
port = 7174
segment = "ring/0"
[[translate]]
roce = "10.9.1.0/24"
ib = "10.10.1.0/24"
segment = "ring/0"
[fleet]
name = "east"
etcd = ["https://10.0.0.1:2379"]
ca = "ca.pem"
cert = "c.pem"
key = "k.pem"
weight = 50
lease_ms = 2000
configuration = "etcd"
without_etcd = "unanimous"
[policy]
allow = ["10.9.0.0/24"]
`

// TestWriteEveryKey writes configurations that together have a value for every key that is not its default, and checks
// that it is in the file.
func TestWriteEveryKey(t *testing.T) {
	bridging := strings.NewReplacer(`nodes = "learn"`, "", `unknown_source = "drop"`, `unknown_source = "bridge"`).Replace(everyValue)
	several := parseGood(t, severalPorts).TOML(true)
	wantRoundTrip(t, parseGood(t, severalPorts))
	written := several
	for _, text := range []string{everyValue, bridging} {
		c := parseGood(t, text)
		wantRoundTrip(t, c)
		written += c.TOML(true)
	}
	for _, k := range everyKey() {
		if !regexp.MustCompile(`(?m)^` + k.name + ` = `).MatchString(written) {
			t.Errorf("%s.%s is not written", k.table, k.name)
		}
	}
	if public := parseGood(t, everyValue).TOML(false); strings.Contains(public, "a-long-random") || strings.Contains(public, "0x11") || strings.Count(public, "admins only") < 3 {
		t.Errorf("others see\n%s", public)
	}
}

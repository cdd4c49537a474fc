// SPDX-License-Identifier: Apache-2.0

package config

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"causeway/ibside/ib"
)

var update = flag.Bool("update", false, "write the documents instead of comparing them")

// small is the smallest valid configuration.
const small = `[roce]
port = "ring"
addresses = ["10.9.0.254/24"]
[ib]
port = "fabric:"
`

func parseGood(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("good.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDefaults(t *testing.T) {
	c := parseGood(t, small)
	want := &Config{
		Name: "causeway",
		RoCE: RoCE{Port: EthPort{Driver: "ring"}, Addresses: []netip.Prefix{netip.MustParsePrefix("10.9.0.254/24")},
			MTU: 1500, IBMTU: ib.MTU1024, V2: true, TTL: 64},
		IB:      IB{Port: IBPort{Fabric: true}, PKey: ib.PKeyDefault, NodeIdle: 10 * time.Minute, Direct: true, Name: "fabric:", Fabric: "fabric:"},
		Fabrics: Fabrics{Mode: FabricsActive, Dedup: DedupNone, HoldDown: 10 * time.Second, MaxLoss: 10},
		Workers: Workers{LCores: []int{1}, Idle: IdleAuto, MemoryMiB: 512, RxDescs: 1024, TxDescs: 1024, Mbufs: 16384, ProxyQPs: 4096,
			ProxyQPsPerHost: 512, ProxyQPsUnconfirmed: 4, ProxyQPRate: 4096, ProxyQPRatePerHost: 512, Hosts: 16384, Nodes: 4096, Groups: 1024, ProxyQPDepth: 128, ProxyQPIdle: 24 * time.Hour,
			PGMStreams: 1024, PGMIdle: 5 * time.Minute},
		Log: Log{Level: "info", Format: "text"},
		QoS: c.QoS, values: c.values, // checked below, and by TestDiff
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
	for _, q := range []struct {
		name      string
		got, want int
	}{
		{"DSCP 0", int(c.QoS.SLOfDSCP[0]), 0}, {"DSCP 24", int(c.QoS.SLOfDSCP[24]), 3}, {"DSCP 63", int(c.QoS.SLOfDSCP[63]), 7},
		{"SL 3", int(c.QoS.DSCPOfSL[3]), 24}, {"SL 11", int(c.QoS.DSCPOfSL[11]), 24}, {"PCP of 15", int(c.QoS.PCPOfSL[15]), 7},
	} {
		if q.got != q.want {
			t.Errorf("%s: got %d, want %d", q.name, q.got, q.want)
		}
	}
}

// TestPorts checks that every form of an Ethernet port that the documentation names is read unchanged.
func TestPorts(t *testing.T) {
	for _, port := range []string{
		"mlx5:0000:3b:00.0", "af_packet:eth1", "tap:dtap0", "tap:dtap0,remote=eth1", "memif:/run/x.sock,role=client,id=0",
		"pcap:in.pcap", "pcap:in.pcap,out.pcap", "ring", "null",
	} {
		c := parseGood(t, strings.Replace(small, `"ring"`, fmt.Sprintf("%q", port), 1))
		if got := c.RoCE.Port.String(); got != port {
			t.Errorf("%s was read as %s", port, got)
		}
		if shared := c.RoCE.Port.sharingTap(); shared != strings.Contains(port, "remote") {
			t.Errorf("%s: a tap that shares: %v", port, shared)
		}
	}
}

// TestListen checks that an IPv4 address listens for IPv4 only: with "tcp", 0.0.0.0 would be [::], too.
func TestListen(t *testing.T) {
	for address, want := range map[string]Listen{
		"0.0.0.0:4711": {"tcp4", "0.0.0.0:4711"}, "127.0.0.1:4711": {"tcp4", "127.0.0.1:4711"},
		"[::ffff:10.0.0.1]:4711": {"tcp4", "10.0.0.1:4711"}, "[::]:4711": {"tcp", "[::]:4711"}, "[::1]:4711": {"tcp", "[::1]:4711"},
	} {
		c := parseGood(t, small+fmt.Sprintf("\n[console]\nlisten = [%q]\ntoken = \"0123456789abcdef\"\n", address))
		m := parseGood(t, small+fmt.Sprintf("\n[metrics]\nlisten = %q\n", address))
		if c.Console.Listen[0] != want || m.Metrics.Listen != want {
			t.Errorf("%s: %+v and %+v, want %+v", address, c.Console.Listen, m.Metrics.Listen, want)
		}
	}
}

// TestExample loads the annotated example and checks the values that a reader of it would expect.
func TestExample(t *testing.T) {
	c, err := Load("../docs/example.toml")
	if err != nil {
		t.Fatal(err)
	}
	if h := c.Hosts[0]; h.Side != SideIB || h.IP.String() != "10.9.0.7" || h.IP6.String() != "fd09::7" ||
		h.GID.String() != "fe80::2:c903:0:7" || len(h.Addrs()) != 2 {
		t.Errorf("first host: %+v", h)
	}
	if h := c.Hosts[1]; h.Side != SideRoCE || !h.HasMAC || h.MAC != [6]byte{2, 0, 0, 0, 0, 1} || len(h.Addrs()) != 1 {
		t.Errorf("second host: %+v", h)
	}
	want := Group{IP: netip.MustParseAddr("239.1.2.3"), MGID: gid(t, "ff12:4001:ffff::f01:203"), Direction: Both,
		QKey: ib.QKeyRDMAUDP, PKey: ib.PKeyDefault, RatePPS: 1_000_000, RewriteImm: true}
	if !reflect.DeepEqual(c.Groups[0], want) {
		t.Errorf("first group:\ngot  %+v\nwant %+v", c.Groups[0], want)
	}
	if g := c.Groups[1]; g.MGID != gid(t, "ff15:a01b::1267:ef01:204") || g.Direction != ToIB || g.RatePPS != 0 {
		t.Errorf("second group: %+v", g)
	}
	if c.RoCE.IBMTU != ib.MTU4096 || c.Workers.Idle != IdleAuto || c.QoS.SLOfDSCP[46] != 5 || c.RoCE.Port.String() != "af_packet:eth1" {
		t.Errorf("RoCE %+v, workers %+v", c.RoCE, c.Workers)
	}
	if !c.Allows(&c.RoCE, netip.MustParseAddr("10.9.0.200")) || c.Allows(&c.RoCE, netip.MustParseAddr("10.9.1.1")) {
		t.Errorf("policy: %+v", c.Policy)
	}
	if want := (Listen{"unix", "/run/causeway/console.sock"}); c.Console.Listen[0] != want || c.Metrics.Listen.Address != "127.0.0.1:9432" {
		t.Errorf("console %+v, metrics %+v", c.Console, c.Metrics)
	}
}

// TestExampleIsComplete checks that every key is in the example, if only in a comment.
func TestExampleIsComplete(t *testing.T) {
	data, err := os.ReadFile("../docs/example.toml")
	if err != nil {
		t.Fatal(err)
	}
	table, has := "", map[string]bool{}
	header := regexp.MustCompile(`^(?:#   )?\[+(\w+)\]+`)
	pair := regexp.MustCompile(`^(?:# *)?(\w+) *=`)
	for line := range strings.Lines(string(data)) {
		if m := header.FindStringSubmatch(line); m != nil {
			table = m[1]
		}
		if m := pair.FindStringSubmatch(line); m != nil {
			has[table+"."+m[1]] = true
		}
	}
	for _, k := range everyKey() {
		if name := k.table + "." + k.name; !has[name] {
			t.Errorf("docs/example.toml does not show %s", name)
		}
	}
}

func TestExampleFile(t *testing.T) { sameAsFile(t, "../docs/example.toml", Example()) }

// sameAsFile checks that a file is what is generated from keys.go.
func sameAsFile(t *testing.T, path, made string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != made {
		t.Errorf("%s does not agree with keys.go; run go test ./config -run %s -update", path, t.Name())
	}
}

// TestKeys checks the table of keys itself: its examples and defaults must be valid values.
func TestKeys(t *testing.T) {
	for _, k := range everyKey() {
		name := k.table + "." + k.name
		if tableNamed(k.table) == nil {
			t.Errorf("%s: no such table", name)
		}
		if k.example == "" || k.meaning == "" || !strings.HasSuffix(k.meaning, ".") {
			t.Errorf("%s: lacks an example, or a meaning that is a sentence", name)
		}
		if k.kind == number && (k.lo >= k.hi || k.def != nil && (k.def.(int64) < k.lo || k.def.(int64) > k.hi)) {
			t.Errorf("%s: its range %d to %d is not one, or excludes its default %v", name, k.lo, k.hi, k.def)
		}
		if k.kind != truth && k.def == nil && !k.need && k.noted == "" && !(k.table == "host") {
			t.Errorf("%s: what is its default?", name)
		}
	}
}

func TestMGID(t *testing.T) {
	for _, c := range []struct{ name, group, want string }{
		{"default", `ip = "239.1.2.3"`, "ff12:4001:ffff::f01:203"},
		{"rdmacm, partition and scope", `ip = "239.1.2.3"` + "\npkey = 0x8001\nscope = 5", "ff15:4001:8001::f01:203"},
		{"rdmacm, IPv6", `ip = "ff15::1:2:3"`, "ff12:6001:ffff::1:2:3"},
		{"ipoib", `ip = "239.1.2.3"` + "\n" + `mgid = "ipoib"`, "ff12:401b:ffff::f01:203"},
		{"ipoib, IPv6", `ip = "ff15::1:2:3"` + "\n" + `mgid = "ipoib"`, "ff12:601b:ffff::1:2:3"},
		{"port", `ip = "239.9.8.3"` + "\n" + `mgid = "port"` + "\nport = 13701", "ff15:a01b::3585:ef09:803"},
		{"ib", `ip = "239.9.8.4"` + "\n" + `mgid = "ib"`, "ff15:4001::f09:804"},
		{"literal", `ip = "239.1.2.3"` + "\n" + `mgid = "ff1e:1234::5"`, "ff1e:1234::5"},
		{"template", `ip = "239.1.2.3"` + "\n" + `mgid = "ff1{scope}:4001:{pkey}:0:0:{port}:{ip28}"` + "\nport = 4711\nscope = 8",
			"ff18:4001:ffff::1267:f01:203"},
		{"template, limited member", `ip = "239.1.2.3"` + "\n" + `mgid = "ff12:4001:{pkey}::{ip28}"` + "\npkey = 0x7001",
			"ff12:4001:f001::f01:203"},
		{"template, 32 bits", `ip = "239.1.2.3"` + "\n" + `mgid = "ff15::{ip32}"`, "ff15::ef01:203"},
		{"template, 80 bits", `ip = "ff15::5:0:1:2:3"` + "\n" + `mgid = "ff15:7001:0:{ip80}"`, "ff15:7001:0:5:0:1:2:3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := parseGood(t, small+"[policy]\nallow = [\"10.9.0.0/24\"]\n[[group]]\n"+c.group)
			if got := cfg.Groups[0].MGID; got != gid(t, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestUnreadable checks that a file that cannot be read is named once, with what to do.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	none := filepath.Join(dir, "none.toml")
	for path, want := range map[string]string{
		none: none + `: there is no such file; name another, or begin with what "causeway example" prints`,
		dir:  dir + ": this is a folder; name a file",
	} {
		if _, err := Load(path); err == nil || err.Error() != "config: "+want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestSmallMTU checks that an MTU that does not carry all that InfiniBand has is noted, and that one that does is not.
func TestSmallMTU(t *testing.T) {
	for mtu, want := range map[string]string{"1000": "at most 512 bytes", "4175": "at most 2048 bytes", "4176": ""} {
		c := parseGood(t, strings.Replace(small, "[roce]\n", "[roce]\nmtu = "+mtu+"\n", 1))
		if want == "" && len(c.Notes) == 0 {
			continue
		}
		if len(c.Notes) != 1 || want == "" || !strings.Contains(c.Notes[0].Error(), "good.toml:2: roce: note: mtu "+mtu+" carries messages of "+want) {
			t.Errorf("mtu %s: %v", mtu, c.Notes)
		}
	}
}

func TestTooLarge(t *testing.T) {
	_, err := Parse("f.toml", make([]byte, maxFile+1))
	want := "config: f.toml: more than 1048576 bytes are too many for a configuration"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestIPoIBQKey(t *testing.T) {
	c := parseGood(t, small+"[policy]\nallow = [\"10.9.0.0/24\"]\n[[group]]\nip = \"239.1.2.3\"\nmgid = \"ipoib\"\n")
	if got := c.Groups[0].QKey; got != ib.QKeyIPoIB {
		t.Errorf("got %v, want %v", got, ib.QKeyIPoIB)
	}
}

func gid(t *testing.T, s string) ib.GID {
	t.Helper()
	g, err := ib.ParseGID(s)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A topology file is looked for beside the configuration that names it.
func TestTopologyBesideConfiguration(t *testing.T) {
	dir := t.TempDir()
	for file, want := range map[string]string{"net.toml": filepath.Join(dir, "net.toml"), "/etc/net.toml": "/etc/net.toml", "": ""} {
		path := filepath.Join(dir, "bridge.toml")
		text := fmt.Sprintf("[roce]\nport = \"ring\"\naddresses = [\"10.9.0.254/24\"]\n[ib]\nport = \"fabric:%s\"\n[policy]\nallow = [\"10.9.0.0/24\"]\n[workers]\nlcores = [1]\n", file)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.IB.Port.File; got != want {
			t.Errorf("fabric:%s is read from %q, want %q", file, got, want)
		}
	}
}

// Keys that are valid but have no effect give notes, in line order.
func TestNotes(t *testing.T) {
	c, err := Load(filepath.Join("..", "docs", "example.toml"))
	if err != nil {
		t.Fatal(err)
	}
	var about []string
	last := 0
	for _, n := range c.Notes {
		if n.Line < last {
			t.Errorf("line %d comes after line %d", n.Line, last)
		}
		last = n.Line
		what, _, _ := strings.Cut(strings.TrimPrefix(n.What, "note: "), " ")
		about = append(about, what)
	}
	if len(about) > 0 { // every key of the example has an effect
		t.Errorf("notes about %q", about)
	}
}

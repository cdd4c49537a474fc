// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"causeway/config"
)

// machine is a made-up machine on which all is well: mlx5_0:1 with ib0, and eth1. It implements Kernel.
type machine struct {
	sys       fstest.MapFS
	files     fstest.MapFS // of all file systems, for other checks than those of IPoIB
	settings  map[string]string
	links     map[string]Link
	addresses []netip.Prefix
	eth1      []netip.Prefix // its addresses
	proxied   []netip.Addr
	routes    map[string]string // by prefix; the longest counts
	rejected  error             // of what comes by ib0
	copies    bool              // RoCE's packets are forwarded as plain IP
}

func well() *machine {
	m := &machine{
		sys: fstest.MapFS{},
		settings: map[string]string{
			"net/ipv4/conf/ib0/forwarding": "1", "net/ipv4/conf/ib0/proxy_arp": "1",
			"net/ipv4/conf/eth1/forwarding": "1", "net/ipv6/conf/all/forwarding": "1",
			"net/ipv6/conf/ib0/forwarding": "1", "net/ipv6/conf/ib0/proxy_ndp": "1",
			"net/ipv4/neigh/ib0/proxy_delay": "0", "net/ipv6/neigh/ib0/proxy_delay": "0",
		},
		links:     map[string]Link{"ib0": {true, true, 4092}, "eth1": {true, true, 4200}},
		addresses: []netip.Prefix{netip.MustParsePrefix("10.9.0.254/32"), netip.MustParsePrefix("fd09::fe/64")},
		proxied:   []netip.Addr{netip.MustParseAddr("fd09::1")},
		routes: map[string]string{
			"10.9.0.0/24": "eth1", "10.9.0.7/32": "ib0", "10.9.0.8/32": "ib0", "10.9.0.254/32": "lo", "fd09::/64": "ib0", "fd09::1/128": "eth1",
		},
	}
	at := "class/infiniband/mlx5_0/"
	for path, content := range map[string]string{
		at + "node_type": "1: CA", at + "ports/1/link_layer": "InfiniBand", at + "ports/1/state": "4: ACTIVE",
		at + "ports/1/gids/0": "fe80:0000:0000:0000:0002:c903:0000:0001", at + "ports/1/pkeys/0": "0xffff",
		at + "device/net/ib0/x": "", "class/net/ib0/type": "32", "class/net/ib0/dev_port": "0", "class/net/ib0/pkey": "0xffff",
		"class/net/ib0/mode": "datagram", "class/net/eth1/type": "1",
	} {
		m.sys[path] = &fstest.MapFile{Data: []byte(content + "\n")}
	}
	return m
}

func (m *machine) file(path, content string) { m.sys[path] = &fstest.MapFile{Data: []byte(content)} }

func (m *machine) Sysctl(path string) string { return m.settings[path] }

func (m *machine) Link(name string) (Link, error) {
	if l, there := m.links[name]; there {
		return l, nil
	}
	return Link{}, errors.New("link not found")
}

func (m *machine) Addresses(name string) ([]netip.Prefix, error) {
	if name == "eth1" {
		return m.eth1, nil
	}
	return m.addresses, nil
}

func (m *machine) Proxied(string) ([]netip.Addr, error) { return m.proxied, nil }

func (m *machine) Route(to netip.Addr) (Route, error) {
	best, dev := -1, ""
	for prefix, by := range m.routes {
		if n := netip.MustParsePrefix(prefix); n.Contains(to) && n.Bits() > best {
			best, dev = n.Bits(), by
		}
	}
	if best < 0 {
		return Route{}, errors.New("network is unreachable")
	}
	return Route{Dev: dev, Unicast: dev != "lo"}, nil
}

func (m *machine) Forward(_, to netip.Addr, _ string) (Route, error) {
	if m.rejected != nil {
		return Route{}, m.rejected
	}
	return m.Route(to)
}

func (m *machine) Stopped(string, uint16, bool) bool { return !m.copies }

const bridge = `
[roce]
port = "af_packet:eth1"
addresses = ["10.9.0.254/24", "fd09::fe/64"]
mtu = 4200
[ib]
port = "mlx5_0:1"
[[host]]
ip = "10.9.0.7"
ip6 = "fd09::7"
side = "ib"
gid = "fe80::2:c903:0:7"
[[host]]
ip = "10.9.0.8"
side = "ib"
gid = "fe80::2:c903:0:8"
[[host]]
ip = "10.9.0.1"
ip6 = "fd09::1"
side = "roce"
[policy]
allow = ["10.9.0.0/24", "fd09::/64"]
`

// load reads a configuration; edits replace in pairs.
func load(t *testing.T, edits ...string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bridge.toml")
	text := strings.NewReplacer(edits...).Replace(bridge)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (m *machine) examine(c *config.Config) Findings {
	return Examine(c, Sources{Sys: m.sys, Proc: fstest.MapFS{}, Root: fstest.MapFS{}, Kernel: m, Process: &body{}}).of("ipoib")
}

// of returns the findings of one group.
func (fs Findings) of(group string) (out Findings) {
	for _, f := range fs {
		if f.Group == group {
			out = append(out, f)
		}
	}
	return out
}

// wellFindings is what there is at least to find where all is well.
const wellFindings = 20

func TestWell(t *testing.T) {
	found := well().examine(load(t))
	var b bytes.Buffer
	if err := found.WriteText(&b, false); err != nil || !found.fine() || len(found) < wellFindings {
		t.Errorf("%d findings, %v:\n%s", len(found), err, &b)
	}
	b.Reset()
	if err := found.WriteFixes(&b); err != nil || b.Len() > 0 {
		t.Errorf("there is nothing to fix, but: %v\n%s", err, &b)
	}
	if found := well().examine(load(t, "mlx5_0:1", "fabric:")); len(found) != 0 {
		t.Errorf("the software subnet: %+v", found)
	}
}

// ipoibFaults are machines, each with one fault: the check that finds it, and the fix.
var ipoibFaults = []struct {
	name, check string
	verdict     Verdict
	make        func(*machine)
	fix         string
}{
	{"no IPoIB", "interface", Fail, func(m *machine) { delete(m.sys, "class/infiniband/mlx5_0/device/net/ib0/x") }, "modprobe ib_ipoib"},
	{"another partition", "interface", Fail, func(m *machine) { m.file("class/net/ib0/pkey", "0x8001") },
		"ip link add link ib0 name ib0.ffff type ipoib pkey 0xffff"},
	{"another port's", "interface", Fail, func(m *machine) { m.file("class/net/ib0/dev_port", "1") }, "modprobe ib_ipoib"},
	{"down", "link", Fail, func(m *machine) { m.links["ib0"] = Link{false, false, 4092} }, "ip link set ib0 up"},
	{"no carrier", "link", Fail, func(m *machine) { m.links["ib0"] = Link{true, false, 4092} },
		"ip link set ib0 up\nsminfo # is there a subnet manager?"},
	{"MTU", "mtu", Warn, func(m *machine) { m.links["ib0"] = Link{true, true, 2044} },
		"ip link set ib0 mtu 4092 # needs mtu=5 of the partition at the subnet manager; or write mtu = 2128 under [roce]"},
	{"no GID", "gid", Fail, func(m *machine) { delete(m.sys, "class/infiniband/mlx5_0/ports/1/gids/0") },
		"sminfo # is there a subnet manager?"},
	{"no address", "address", Fail, func(m *machine) { m.addresses = nil },
		"ip address add 10.9.0.254/32 dev ib0\nip address add fd09::fe/128 dev ib0"},
	{"forwarding", "forwarding", Fail, func(m *machine) { m.settings["net/ipv4/conf/ib0/forwarding"] = "0" },
		"sysctl -w net.ipv4.conf.ib0.forwarding=1"},
	{"forwarding of plain IPv4", "plain_ipv4", Warn, func(m *machine) { m.settings["net/ipv4/conf/eth1/forwarding"] = "0" },
		"sysctl -w net.ipv4.conf.eth1.forwarding=1"},
	{"forwarding of plain IPv6", "plain_ipv6", Warn, func(m *machine) { m.settings["net/ipv6/conf/all/forwarding"] = "0" },
		"sysctl -w net.ipv6.conf.all.forwarding=1"},
	{"no IPv6 on the RoCE side", "plain_ipv6", Warn, func(m *machine) { m.settings["net/ipv6/conf/eth1/disable_ipv6"] = "1" },
		"sysctl -w net.ipv6.conf.eth1.disable_ipv6=0"},
	{"route of plain IPv6", "plain_ipv6", Warn, func(m *machine) { delete(m.routes, "fd09::1/128") }, "ip -6 route replace fd09::1/128 dev eth1"},
	{"RoCE forwarded as plain IP", "plain_roce", Warn, func(m *machine) { m.copies = true },
		"ip rule add iif eth1 ipproto 17 dport 4791 pref 100 blackhole\nip -6 rule add iif eth1 ipproto 17 dport 4791 pref 100 blackhole"},
	{"forwarding 6", "forwarding", Fail, func(m *machine) { m.settings["net/ipv6/conf/ib0/forwarding"] = "0" },
		"sysctl -w net.ipv6.conf.ib0.forwarding=1"},
	{"proxy_arp", "proxy_arp", Fail, func(m *machine) { m.settings["net/ipv4/conf/ib0/proxy_arp"] = "0" },
		"sysctl -w net.ipv4.conf.ib0.proxy_arp=1"},
	{"medium -1", "medium_id", Fail, func(m *machine) { m.settings["net/ipv4/conf/ib0/medium_id"] = "-1" },
		"sysctl -w net.ipv4.conf.ib0.medium_id=0"},
	{"same medium", "medium_id", Fail, func(m *machine) {
		m.settings["net/ipv4/conf/ib0/medium_id"], m.settings["net/ipv4/conf/eth1/medium_id"] = "3", "3"
	}, "sysctl -w net.ipv4.conf.ib0.medium_id=0"},
	{"delay", "proxy_delay", Warn, func(m *machine) { m.settings["net/ipv4/neigh/ib0/proxy_delay"] = "80" },
		"sysctl -w net.ipv4.neigh.ib0.proxy_delay=0"},
	{"arp_ignore", "arp_ignore", Fail, func(m *machine) { m.settings["net/ipv4/conf/all/arp_ignore"] = "2" },
		"sysctl -w net.ipv4.conf.all.arp_ignore=1\nsysctl -w net.ipv4.conf.ib0.arp_ignore=1"},
	{"proxy_ndp", "proxy_ndp", Fail, func(m *machine) { m.settings["net/ipv6/conf/ib0/proxy_ndp"] = "0" },
		"sysctl -w net.ipv6.conf.ib0.proxy_ndp=1"},
	{"no IPv6", "proxy_ndp", Fail, func(m *machine) { m.settings["net/ipv6/conf/ib0/disable_ipv6"] = "1" },
		"sysctl -w net.ipv6.conf.ib0.disable_ipv6=0"},
	{"no entry", "nd_entries", Fail, func(m *machine) { m.proxied = nil }, "ip -6 neigh add proxy fd09::1 dev ib0"},
	{"node", "node_routes", Fail, func(m *machine) { delete(m.routes, "10.9.0.8/32") }, "ip route replace 10.9.0.8/32 dev ib0"},
	{"node 6", "node_routes", Fail, func(m *machine) { m.routes["fd09::7/128"] = "eth1" }, "ip -6 route replace fd09::7/128 dev ib0"},
	{"one RoCE host", "roce_routes", Fail, func(m *machine) { m.routes["10.9.0.1/32"] = "ib0" }, "ip route replace 10.9.0.1/32 dev eth1"},
	{"all proxy", "roce_side", Warn, func(m *machine) { m.settings["net/ipv4/conf/all/proxy_arp"] = "1" },
		"sysctl -w net.ipv4.conf.ib0.proxy_arp=1\nsysctl -w net.ipv4.conf.all.proxy_arp=0\nsysctl -w net.ipv4.conf.eth1.proxy_arp=0"},
	{"rejected", "answers", Fail, func(m *machine) { m.rejected = errors.New("no route to host") },
		"ip route get 10.9.0.2 from 10.9.0.7 iif ib0"},
}

func TestIPoIBFaults(t *testing.T) {
	for _, c := range ipoibFaults {
		t.Run(c.name, func(t *testing.T) {
			m := well()
			c.make(m)
			var fixes []string
			for _, f := range m.examine(load(t)) {
				if f.Verdict != OK && f.Check != c.check && f.Check != "answers" {
					t.Errorf("%s complains, too: %s", f.Check, f.Found)
				}
				if f.Verdict != OK && f.Check == c.check {
					fixes = append(fixes, f.Fix...)
					if f.Verdict != c.verdict {
						t.Errorf("%s: %s, want %s", f.Check, f.Verdict, c.verdict)
					}
				}
			}
			if got := strings.Join(fixes, "\n"); got != c.fix {
				t.Errorf("fix:\n%s\nwant:\n%s", got, c.fix)
			}
		})
	}
}

// TestTogether has faults that involve several checks.
func TestTogether(t *testing.T) {
	fixes := func(m *machine, c *config.Config) string {
		var b bytes.Buffer
		if err := m.examine(c).WriteFixes(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	m := well()
	m.file("class/net/ib1/type", "32")
	if got, want := fixes(m, load(t)), "sysctl -w net.ipv4.conf.ib0.arp_ignore=1\nsysctl -w net.ipv4.conf.ib0.arp_announce=2\n"; got != want {
		t.Errorf("two InfiniBand interfaces: %q, want %q", got, want)
	}
	m = well()
	m.settings["net/ipv4/conf/all/rp_filter"] = "1"
	delete(m.routes, "10.9.0.7/32")
	if got, want := fixes(m, load(t)), "sysctl -w net.ipv4.conf.ib0.rp_filter=2\nip route replace 10.9.0.7/32 dev ib0\n"; got != want {
		t.Errorf("strict rp_filter: %q, want %q", got, want)
	}
	m = well()
	delete(m.links, "eth1")
	m.routes["10.9.0.0/24"] = "ib0"
	want := "ip route replace 10.9.0.7/32 dev ib0\nip route replace 10.9.0.8/32 dev ib0\nip link add causeway0 type dummy\nip link set causeway0 up\nip route replace 10.9.0.0/24 dev causeway0\n"
	if got := fixes(m, load(t, "af_packet:eth1", "ring")); !strings.HasPrefix(got, want) {
		t.Errorf("no interface on the RoCE side: %q, want %q", got, want)
	}
	m = well()
	m.settings["net/ipv4/conf/ib0/proxy_arp"] = ""
	m.proxied = append(m.proxied, netip.MustParseAddr("10.9.0.1"))
	if found := m.examine(load(t)); !found.fine() {
		t.Errorf("with an entry for each host: %+v", found)
	}
}

// TestFleet has the bridges of a fleet answer ARP and ND, so that the kernel must not, whatever its routes are.
func TestFleet(t *testing.T) {
	c := load(t, "[ib]\n", "[fleet]\nname = \"east\"\netcd = [\"http://127.0.0.1:2379\"]\n[ib]\n")
	m := well()
	for _, off := range []string{"net/ipv4/conf/ib0/proxy_arp", "net/ipv4/conf/ib0/forwarding", "net/ipv6/conf/ib0/proxy_ndp", "net/ipv6/conf/ib0/forwarding"} {
		m.settings[off] = "0"
	}
	m.settings["net/ipv4/conf/ib0/medium_id"], m.settings["net/ipv4/neigh/ib0/proxy_delay"] = "-1", "80"
	m.routes["10.9.0.0/24"], m.proxied = "ib0", nil
	if found := m.examine(c); !found.fine() {
		t.Errorf("%+v", found)
	}
	m.settings["net/ipv4/conf/ib0/proxy_arp"], m.settings["net/ipv6/conf/ib0/proxy_ndp"] = "1", "1"
	m.proxied = []netip.Addr{netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("fd09::1")}
	var b bytes.Buffer
	if err := m.examine(c).WriteFixes(&b); err != nil {
		t.Fatal(err)
	}
	want := "sysctl -w net.ipv4.conf.all.proxy_arp=0\nsysctl -w net.ipv4.conf.ib0.proxy_arp=0\nip neigh del proxy 10.9.0.1 dev ib0\n" +
		"sysctl -w net.ipv6.conf.all.proxy_ndp=0\nsysctl -w net.ipv6.conf.ib0.proxy_ndp=0\n"
	if b.String() != want {
		t.Errorf("%q, want %q", &b, want)
	}
}

// TestPartition wants the child interface of the configuration's partition.
func TestPartition(t *testing.T) {
	m := well()
	m.file("class/infiniband/mlx5_0/device/net/ib0.8001/x", "")
	for file, content := range map[string]string{"type": "32", "dev_port": "0", "pkey": "0x8001"} {
		m.file("class/net/ib0.8001/"+file, content)
	}
	c := load(t, `port = "mlx5_0:1"`, "port = \"mlx5_0:1\"\npkey = 0x0001")
	i := slices.IndexFunc(m.examine(c), func(f Finding) bool { return f.Check == "interface" && f.Found == "mlx5_0:1 is ib0.8001" })
	if i < 0 {
		t.Errorf("%+v", m.examine(c))
	}
	m.links["ib0.8001"] = Link{true, true, 4092}
	var b bytes.Buffer
	if err := m.examine(c).WriteText(&b, false); err != nil || !strings.Contains(b.String(), "sysctl -w net/ipv4/conf/ib0.8001/forwarding=1\n") {
		t.Errorf("%v\n%s", err, &b)
	}
}

// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"
)

// learning are edits that let nodes be learned, beside those that are configured; withLearned adds others.
var learning = withLearned("")

func withLearned(more string) []string {
	return []string{`port = "mlx5_0:1"`, "port = \"mlx5_0:1\"\nnodes = \"learn\"\n" + more}
}

// wellLearning is a machine on which all is well for learning.
func wellLearning() *machine {
	m := well()
	m.addresses = []netip.Prefix{netip.MustParsePrefix("10.9.0.254/24"), netip.MustParsePrefix("fd09::fe/64")}
	m.routes["10.9.0.0/24"], m.routes["10.9.0.1/32"] = "ib0", "eth1"
	for _, family := range []string{"ipv4", "ipv6"} {
		m.settings["net/"+family+"/neigh/default/gc_thresh2"] = "4096"
		m.settings["net/"+family+"/neigh/default/gc_thresh3"] = "8192"
	}
	return m
}

// TestLearn checks each thing that learning nodes needs.
func TestLearn(t *testing.T) {
	var b bytes.Buffer
	found := wellLearning().examine(load(t, learning...))
	if err := found.WriteText(&b, false); err != nil || found.count(Well) != len(found) || len(found) < wellFindings {
		t.Errorf("%d findings, %v:\n%s", len(found), err, &b)
	}
	noHosts := append([]string{"[[host]]\nip = \"10.9.0.1\"\nip6 = \"fd09::1\"\nside = \"roce\"\n", ""}, learning...)
	for _, f := range []struct {
		name, check string
		level       Level
		edits       []string
		make        func(*machine)
		fix         string
	}{
		{"down", "link", Error, learning, func(m *machine) { m.links["ib0"] = Link{} }, "ip link set ib0 up"},
		{"few neighbours", "neighbours", Warning, learning, func(m *machine) {
			m.settings["net/ipv4/neigh/default/gc_thresh2"], m.settings["net/ipv4/neigh/default/gc_thresh3"] = "512", "1024"
		}, "sysctl -w net.ipv4.neigh.default.gc_thresh3=8192\nsysctl -w net.ipv4.neigh.default.gc_thresh2=4096"},
		{"some neighbours", "neighbours", Warning, learning, func(m *machine) { m.settings["net/ipv6/neigh/default/gc_thresh2"] = "4095" },
			"sysctl -w net.ipv6.neigh.default.gc_thresh2=4096"},
		{"no subnet", "learn_address", Error, learning, func(m *machine) { m.addresses[0] = netip.MustParsePrefix("10.9.0.254/32") },
			"ip address del 10.9.0.254/32 dev ib0\nip address add 10.9.0.254/24 dev ib0"},
		{"another subnet", "learn_address", Error, learning, func(m *machine) { m.addresses[1] = netip.MustParsePrefix("fd10::fe/64") },
			"ip address add fd09::fe/64 dev ib0"},
		{"subnet by Ethernet", "learn_routes", Error, learning, func(m *machine) { m.routes["10.9.0.0/24"] = "eth1" }, "ip route replace 10.9.0.0/24 dev ib0\nip route replace 10.9.0.1/32 dev eth1"},
		{"RoCE host by InfiniBand", "roce_routes", Error, learning, func(m *machine) { delete(m.routes, "10.9.0.1/32") },
			"ip route replace 10.9.0.1/32 dev eth1"},
		{"no RoCE host", "learn_hosts", Hint, noHosts, func(*machine) {},
			`# write a [[host]] with side = "roce" for each RoCE host that nodes resolve by ARP or ND`},
		{"no such interface", "learn_interface", Error, withLearned(`ipoib = "ib7"`), func(*machine) {},
			"# name one of these as [ib] ipoib, or write none"},
		{"in another partition", "learn_interface", Error, withLearned(`ipoib = "ib0.8001"`), func(m *machine) { m.addInterface("ib0.8001", "0x8001") },
			"# write pkey = 0x8001 under [ib]"},
	} {
		t.Run(f.name, func(t *testing.T) {
			m := wellLearning()
			f.make(m)
			found := m.examine(load(t, f.edits...))
			if f.check == "roce_routes" { // the kernel would not answer for it, either
				found = found[:len(found)-1]
			}
			m.expect(t, found, f.check, f.level, f.fix)
		})
	}
}

// TestLearnBound wants room for as many neighbours as [workers] nodes, and none for a subnet that policy does not let
// nodes be in.
func TestLearnBound(t *testing.T) {
	c := load(t, append([]string{"[policy]", "[workers]\nnodes = 20000\n[policy]", `, "fd09::/64"]` + "\n", "]\n",
		"ip6 = \"fd09::7\"\n", "", "ip6 = \"fd09::1\"\n", ""}, learning...)...)
	m := wellLearning()
	m.addresses = m.addresses[:1]
	var b bytes.Buffer
	if err := m.examine(c).WriteFixes(&b); err != nil || b.String() !=
		"sysctl -w net.ipv4.neigh.default.gc_thresh3=40000\nsysctl -w net.ipv4.neigh.default.gc_thresh2=20000\n" {
		t.Errorf("%v; fix\n%s", err, &b)
	}
	delete(m.settings, "net/ipv4/neigh/default/gc_thresh2") // as in a network namespace that is not the first
	if found := m.examine(c); !found.fine() {
		t.Errorf("%+v", found)
	}
}

// TestLearnFrom has nodes learned from an interface in another partition of the configuration: what learning needs is
// looked at there.
func TestLearnFrom(t *testing.T) {
	m := wellLearning()
	m.addInterface("ib1.8001", "0x8001")
	m.addInterface("ib0.8001", "0x8001")
	m.routes["10.9.0.8/32"] = "ib1.8001"
	for _, prefix := range []string{"10.9.0.0/24", "fd09::/64"} {
		m.routes[prefix] = "ib1.8001"
	}
	m.routes["fd09::7/128"] = "ib0"
	m.settings["net/ipv4/conf/ib1.8001/arp_ignore"], m.settings["net/ipv4/conf/ib1.8001/arp_announce"] = "1", "2"
	m.links["ib1.8001"] = Link{}
	c := load(t, append([]string{`gid = "fe80::2:c903:0:8"`, "gid = \"fe80::2:c903:0:8\"\npkey = 0x8001"}, withLearned(`ipoib = "ib1.8001"`)...)...)
	m.expect(t, m.examine(c), "link", Error, "ip link set ib1.8001 up")
	m.setUp("ib1.8001")
	m.settings["net/ipv4/conf/ib1.8001/arp_ignore"], m.settings["net/ipv4/conf/ib1.8001/arp_announce"] = "1", "2"
	m.settings["net/ipv4/neigh/default/gc_thresh2"] = "512"
	m.expect(t, m.examine(c), "neighbours", Warning, "sysctl -w net.ipv4.neigh.default.gc_thresh2=4096")
}

// TestLearnFixesWork applies what is printed where nodes are learned, to a machine that has the subnet on Ethernet:
// then the bridge's kernel answers for RoCE hosts that are configured, and for no address that may be a node's.
func TestLearnFixesWork(t *testing.T) {
	t.Parallel()
	h := newTestbed(t)
	h.sh("bridge", "ip address add 10.9.0.252/24 dev eth1")
	c := load(t, append([]string{"mtu = 4200", "mtu = 1500"}, learning...)...)
	examine := func() Findings {
		return h.look(c, Sources{Sys: fstest.MapFS{}, Proc: fstest.MapFS{}, Root: fstest.MapFS{}, Netdev: "ib0"}).of("ipoib")
	}
	var b bytes.Buffer
	for round := 0; round < 3 && !examine().fine(); round++ {
		b.Reset()
		if err := examine().WriteFixes(&b); err != nil {
			t.Fatal(err)
		}
		h.sh("bridge", strings.NewReplacer("ip route get", ": ip route get", "sysctl -w net.ipv4.neigh.default", ": sysctl -w net.ipv4.neigh.default",
			"sysctl -w net.ipv6.neigh.default", ": sysctl -w net.ipv6.neigh.default").Replace(b.String()))
	}
	b.Reset()
	if found := examine(); found.Errors() || found.WriteText(&b, false) != nil {
		t.Errorf("after its own commands:\n%s", &b)
	}
	mac := strings.TrimSpace(h.sh("bridge", "cat /sys/class/net/ib0/address"))
	for ip, want := range map[string]string{"10.9.0.1": mac, "fd09::1": mac, "10.9.0.8": "", "10.9.0.77": "", "fd09::77": ""} {
		got := h.asks(ip)
		if want != "" {
			got = h.answered(ip)
		}
		if got != want {
			t.Errorf("%s is answered by %q, want %q", ip, got, want)
		}
	}
}

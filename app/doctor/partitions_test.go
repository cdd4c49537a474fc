// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// inChild are edits that put a node into the partition 0x8001, and two groups into 0x8002, one of them not an IP group.
var inChild = []string{`gid = "fe80::2:c903:0:8"`, "gid = \"fe80::2:c903:0:8\"\npkey = 0x8001",
	"[policy]", "[[group]]\nip = \"239.1.2.3\"\npkey = 0x8002\n[[group]]\nip = \"239.1.2.4\"\nmgid = \"ib\"\npkey = 0x8003\n[policy]"}

// addInterface adds an IPoIB interface in a partition, with all the settings that ib0 has.
func (m *machine) addInterface(name, pkey string) {
	m.file("class/infiniband/mlx5_0/device/net/"+name+"/x", "")
	for file, content := range map[string]string{"type": "32", "dev_port": "0", "pkey": pkey, "mode": "datagram"} {
		m.file("class/net/"+name+"/"+file, content)
	}
	m.setUp(name)
}

// setUp gives an interface the state and the settings of ib0.
func (m *machine) setUp(name string) {
	m.links[name] = Link{true, true, 4092}
	for at, value := range m.settings {
		if strings.Contains(at, "/ib0/") {
			m.settings[strings.Replace(at, "/ib0/", "/"+name+"/", 1)] = value
		}
	}
}

// wellInPartitions is a machine on which all is well for inChild.
func wellInPartitions() *machine {
	m := well()
	m.addInterface("ib0.8001", "0x8001")
	m.addInterface("ib0.8002", "0x8002")
	m.routes["10.9.0.8/32"] = "ib0.8001"
	return m
}

// TestPartitions checks that the interface of each partition is looked at in which the configuration has nodes, and of
// one with groups alone its MTU.
func TestPartitions(t *testing.T) {
	c := load(t, inChild...)
	found := wellInPartitions().examine(c)
	var b bytes.Buffer
	if err := found.WriteText(&b, false); err != nil || found.count(Well) != len(found) || len(found) < wellFindings*3/2 {
		t.Errorf("%d findings, %v:\n%s", len(found), err, &b)
	}
	for _, name := range []string{"mlx5_0:1 is ib0", "mlx5_0:1 is ib0.8001", "mlx5_0:1 is ib0.8002"} {
		if !slices.ContainsFunc(found, func(f Finding) bool { return f.Check == "interface" && f.Found == name }) {
			t.Errorf("nothing says that %s", name)
		}
	}
	for _, f := range []struct {
		name, check string
		level       Level
		make        func(*machine)
		fix         string
	}{
		{"no interface for a node", "interface", Error, func(m *machine) { m.file("class/net/ib0.8001/pkey", "0x8005") },
			"ip link add link ib0 name ib0.8001 type ipoib pkey 0x8001"},
		{"no interface for a group", "interface", Hint, func(m *machine) { m.file("class/net/ib0.8002/pkey", "0x8005") },
			"ip link add link ib0 name ib0.8002 type ipoib pkey 0x8002"},
		{"no IPoIB", "interface", Error, func(m *machine) {
			for _, name := range []string{"ib0", "ib0.8001", "ib0.8002"} {
				delete(m.sys, "class/infiniband/mlx5_0/device/net/"+name+"/x")
			}
		}, "modprobe ib_ipoib"},
		{"down", "link", Error, func(m *machine) { m.links["ib0.8001"] = Link{} }, "ip link set ib0.8001 up"},
		{"proxy_arp", "proxy_arp", Error, func(m *machine) { delete(m.settings, "net/ipv4/conf/ib0.8001/proxy_arp") },
			"sysctl -w net/ipv4/conf/ib0.8001/proxy_arp=1"},
		{"node by the other interface", "node_routes", Error, func(m *machine) { m.routes["10.9.0.8/32"] = "ib0" },
			"ip route replace 10.9.0.8/32 dev ib0.8001"},
		{"MTU of groups", "mtu", Warning, func(m *machine) { m.links["ib0.8002"] = Link{true, true, 2044} },
			"ip link set ib0.8002 mtu 4092 # needs mtu=5 of the partition at the subnet manager; or write mtu = 2128 under [roce]"},
	} {
		t.Run(f.name, func(t *testing.T) {
			m := wellInPartitions()
			f.make(m)
			m.expect(t, m.examine(c), f.check, f.level, f.fix)
		})
	}
}

// expect wants one finding that is not well, and its fix.
func (m *machine) expect(t *testing.T, all Findings, check string, level Level, fix string) {
	t.Helper()
	said := 0
	for _, f := range all {
		if f.Level == Well {
			continue
		}
		if said++; f.Check != check || f.Level != level || strings.Join(f.Fix, "\n") != fix {
			t.Errorf("%s: %s: %s; fix\n%s\nwant %s: %s; fix\n%s", f.Check, f.Level, f.Found, strings.Join(f.Fix, "\n"), check, level, fix)
		}
	}
	if said != 1 {
		t.Errorf("%d findings that are not well", said)
	}
}

// TestOtherPartition has all nodes in another partition than that of [ib], where no interface is needed then.
func TestOtherPartition(t *testing.T) {
	m := wellInPartitions()
	delete(m.sys, "class/infiniband/mlx5_0/device/net/ib0/x")
	m.routes["10.9.0.7/32"], m.routes["fd09::7/128"] = "ib0.8001", "ib0.8001"
	c := load(t, `side = "ib"`, "side = \"ib\"\npkey = 0x8001")
	var b bytes.Buffer
	found := m.examine(c)
	if err := found.WriteText(&b, false); err != nil || !found.fine() || len(found) < wellFindings {
		t.Errorf("%d findings, %v:\n%s", len(found), err, &b)
	}
}

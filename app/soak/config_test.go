// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"causeway/app/segment"
	"causeway/ibside/ib"
)

const (
	metricsListen = "127.0.0.1:9432"
	subnetGID     = 0xfe80_0000_0000_0000
	nodes         = 4    // of a partition: the first serves and echoes, the second has the groups, the others come and go
	servicePort   = 7174 // of udaddy
	mostKnown     = 1024 // hosts that the bridge may know
)

// nodeGUID is that of a node's port on a fabric.
func nodeGUID(i, fabric int) ib.GUID {
	return ib.GUID(0x0002_c903_0000_0007 + uint64(0x100*fabric+i))
}

func nodeIP4(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 9, 0, byte(7 + i)}) }
func nodeIP6(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("fd09::%x", 7+i)) }
func hostIP4(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 9, 0, byte(0x40 + i)}) }
func hostIP6(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("fd09::%x", 0x40+i)) }

// learned returns a group of the configured range.
func learned(i int) netip.Addr { return netip.AddrFrom4([4]byte{239, 2, 0, byte(1 + i)}) }

// shared is the group that has members in all segments.
var shared = netip.MustParseAddr("239.1.2.5")

// Configured groups, of each IP version.
var (
	toIB   = [2]netip.Addr{netip.MustParseAddr("239.1.2.3"), netip.MustParseAddr("ff0e::1:3")}
	toRoCE = [2]netip.Addr{netip.MustParseAddr("239.1.2.4"), netip.MustParseAddr("ff0e::1:4")}
)

// configText returns a configuration. Different numbers have different groups, nodes, limits and log levels, all of
// which can change while the bridge runs and none of which concerns the traffic.
func (x *bridge) configText(number int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `%s%s[workers]
lcores       = [%d]
idle         = "sleep"
memory_mib   = 128
mbufs        = 8192
hosts        = %d
proxy_qp_idle = %d
[policy]
allow = ["10.9.0.0/24", "fd09::/64"]
[metrics]
listen = "%s"
[console]
listen = ["unix:%s/console.sock"]
[log]
level = "%s"
[[service]]
port = %d
`, x.roceText(), x.ibText(), lastCPU(), mostKnown, 60+number%4, metricsListen, x.dir, []string{"info", "warn", "debug"}[number%3], servicePort)
	for i := range nodes * x.segments {
		fmt.Fprintf(&b, "[[host]]\nip = %q\nip6 = %q\nside = \"ib\"\n%sgid = %q\n", nodeIP4(i), nodeIP6(i), x.partition(i/nodes).pkeyLine(), ib.GIDFromGUID(subnetGID, nodeGUID(i, 0)))
		if x.fabrics > 1 {
			fmt.Fprintf(&b, "more_gids = [%q]\n", ib.GIDFromGUID(subnetGID, nodeGUID(i, 1)))
		}
	}
	for i := range x.segments {
		pkey := x.partition(i).pkeyLine()
		fmt.Fprintf(&b, "[[range]]\nip = \"239.2.0.0/16\"\nmost = %d\n%s", 64+number%8, pkey)
		fmt.Fprintf(&b, "[[range]] # for floods\nip = \"239.3.0.0/16\"\nmost = 32\n%s", pkey)
		for v := range toIB {
			fmt.Fprintf(&b, "[[group]]\nip = %q\ndirection = \"to-ib\"\n%s", toIB[v], pkey)
			fmt.Fprintf(&b, "[[group]]\nip = %q\ndirection = \"to-roce\"\n%s", toRoCE[v], pkey)
		}
	}
	for i := range number % 5 {
		fmt.Fprintf(&b, "[[group]]\nip = \"239.1.3.%d\"\nrate = \"%dk pps\"\n%s", 1+(number+i)%250, 1+number%9, x.partition(i%x.segments).pkeyLine())
	}
	return b.String() + x.sharedText()
}

// partition is one of the layout's, without its hosts.
func (x *bridge) partition(i int) *partition {
	p := &partition{i: i, layout: x.layout, port: segment.Port}
	if i > 0 && x.ports > 1 {
		p.port = secondPort
	}
	return p
}

// pkeyLine is the partition's P_Key in an entry of the configuration; "": there is one.
func (p *partition) pkeyLine() string {
	if p.layout.segments == 1 {
		return ""
	}
	return fmt.Sprintf("pkey = %#x\n", uint16(p.pkey()))
}

// roceText is the configuration's part of Ethernet: the same addresses in each segment.
func (x *bridge) roceText() string {
	var b strings.Builder
	for i := range x.segments {
		head, p := "[roce]", x.partition(i)
		if x.segments > 1 {
			head = "[[roce]]"
		}
		fmt.Fprintf(&b, "%s\nport = \"af_packet:%s\"\naddresses = [\"10.9.0.254/24\", \"fd09::fe/64\"]\nmtu = %d\nquerier = true\nvlan = %d\n%s",
			head, p.port, segment.MTU, p.vlan(), p.pkeyLine())
	}
	return b.String()
}

// sharedText is the group that all segments have, in the first's partition; "": there is one segment.
func (x *bridge) sharedText() string {
	if x.segments == 1 {
		return ""
	}
	var in []string
	for i := range x.segments {
		p := x.partition(i)
		in = append(in, fmt.Sprintf("\"af_packet:%s/%d\"", p.port, p.vlan()))
	}
	return fmt.Sprintf("[[group]]\nip = %q\ndirection = \"to-roce\"\n%ssegments = [%s]\n", shared, x.partition(0).pkeyLine(), strings.Join(in, ", "))
}

// ibText is the configuration's part of InfiniBand. Of two fabrics' copies one crosses, however late the other is.
func (x *bridge) ibText() string {
	if x.fabrics == 1 {
		return fmt.Sprintf("[ib]\nport = \"fabric:%s\"\n", x.topology(0))
	}
	var b strings.Builder
	for i := range x.fabrics {
		fmt.Fprintf(&b, "[[ib]]\nname = %q\nport = \"fabric:%s\"\n", fabricName(i), x.topology(i))
	}
	return b.String() + "[fabrics]\nhold_down = 1\ndedup = \"imm\"\n"
}

// fabricName is a fabric's in the configuration.
func fabricName(i int) string { return string(rune('a' + i)) }

// topology and subnetSocket are files of a fabric.
func (x *bridge) topology(i int) string { return x.file([]string{"subnet.toml", "subnet-b.toml"}[i]) }
func (x *bridge) subnetSocket(i int) string {
	return x.file([]string{"subnet.sock", "subnet-b.sock"}[i])
}

// writeConfig writes the files that the bridge reads.
func (x *bridge) writeConfig(number int) error {
	for i := range x.fabrics {
		if err := os.WriteFile(x.topology(i), fmt.Appendf(nil, "[fabric]\nsocket = %q\npkeys = [0xffff, 0x8001, 0x8002]\n", x.subnetSocket(i)), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(x.file("bridge.toml"), []byte(x.configText(number)), 0o600)
}

// lastCPU returns the last CPU that the process may use, for the worker.
func lastCPU() (last int) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return 0
	}
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			last = cpu
		}
	}
	return last
}

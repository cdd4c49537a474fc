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
	nodes         = 4    // the first serves and echoes, the second has the groups, the others come and go
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

func mgidOf(group netip.Addr) ib.GID { return ib.MGIDRDMACM(group, ib.PKeyDefault, 2) }

// Configured groups, of each IP version.
var (
	toIB   = [2]netip.Addr{netip.MustParseAddr("239.1.2.3"), netip.MustParseAddr("ff0e::1:3")}
	toRoCE = [2]netip.Addr{netip.MustParseAddr("239.1.2.4"), netip.MustParseAddr("ff0e::1:4")}
)

// configText returns a configuration. Different numbers have different groups, nodes, limits and log levels, all of
// which can change while the bridge runs and none of which concerns the traffic.
func (x *bridge) configText(number int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `[roce]
port      = "af_packet:%s"
addresses = ["10.9.0.254/24", "fd09::fe/64"]
mtu       = %d
querier   = true
%s[workers]
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
[[range]]
ip   = "239.2.0.0/16"
from = ["reports"]
most = %d
[[range]] # for floods
ip   = "239.3.0.0/16"
from = ["reports"]
most = 32
`, segment.Port, segment.MTU, x.ibText(), lastCPU(), mostKnown, 60+number%4, metricsListen, x.dir, []string{"info", "warn", "debug"}[number%3], servicePort, 64+number%8)
	for i := range nodes {
		fmt.Fprintf(&b, "[[host]]\nip = %q\nip6 = %q\nside = \"ib\"\ngid = %q\n", nodeIP4(i), nodeIP6(i), ib.GIDFromGUID(subnetGID, nodeGUID(i, 0)))
		if x.fabrics > 1 {
			fmt.Fprintf(&b, "more_gids = [%q]\n", ib.GIDFromGUID(subnetGID, nodeGUID(i, 1)))
		}
	}
	for _, ip := range toIB {
		fmt.Fprintf(&b, "[[group]]\nip = %q\ndirection = \"to-ib\"\n", ip)
	}
	for _, ip := range toRoCE {
		fmt.Fprintf(&b, "[[group]]\nip = %q\ndirection = \"to-roce\"\n", ip)
	}
	for i := range number % 5 {
		fmt.Fprintf(&b, "[[group]]\nip = \"239.1.3.%d\"\nrate = \"%dk pps\"\n", 1+(number+i)%250, 1+number%9)
	}
	return b.String()
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
		if err := os.WriteFile(x.topology(i), fmt.Appendf(nil, "[fabric]\nsocket = %q\n", x.subnetSocket(i)), 0o600); err != nil {
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

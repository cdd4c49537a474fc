// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"
	"testing"

	"causeway/config"
)

// file is a configuration with places for the two ports, the MTU, and more lines of [ib].
const file = `[roce]
port = %q
addresses = ["10.9.0.254/24"]
mtu = %d
[ib]
port = %q
%s
[policy]
allow = ["10.9.0.0/24"]
[[group]]
ip = "239.1.2.3"
mgid = "rdmacm"
[[group]]
ip = "239.1.2.4"
mgid = "rdmacm"
%s
`

func parsed(t *testing.T, roce string, mtu int, ib, more, group string) *config.Config {
	t.Helper()
	c, err := config.Parse("test.toml", fmt.Appendf(nil, file, roce, mtu, ib, more, group))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const noIB = "fabric:"

// configs are configurations on machines, with all that is wrong, line by line.
var configs = []struct {
	name  string
	link  string // what LinkNote says
	tree  string
	edits string
	roce  string
	mtu   int
	ib    string
	more  string // of [ib]
	group string // of the second group
	want  string
}{
	{name: "right on InfiniBand", tree: "connectx_ib", roce: "af_packet:eno1", mtu: 1500, ib: "mlx5_0:1"},
	{name: "right on mlx5", tree: "connectx_roce", roce: "mlx5:0000:5E:00.0", mtu: 9000, ib: noIB},
	{name: "right on rxe", tree: "rxe", roce: "af_packet:eth1", mtu: 4200, ib: "rxe1:1"},
	{name: "nothing of this machine's", tree: "empty", roce: "tap:dtap0", mtu: 1500, ib: noIB},
	{name: "the port's GID", tree: "rxe", roce: "af_packet:eth1", mtu: 4200, ib: "rxe1:1", more: `gid = "::ffff:10.8.0.3"`},
	{name: "a GID that the port has not", tree: "rxe", roce: "af_packet:eth1", mtu: 4200, ib: "rxe1:1", more: `gid = "fd09::3"`,
		want: `ib: gid fd09::3: the port rxe1:1 does not have it; there are ::ffff:10.100.0.3, ::ffff:10.8.0.3 and fe80::5054:ff:fe00:2`},
	{name: "no such interface", tree: "rxe", roce: "af_packet:eth9", mtu: 1500, ib: noIB,
		want: `roce: port "af_packet:eth9": there is no interface eth9 here; there are eth0, eth1 and eth1.100`},
	{name: "no interface at all", tree: "empty", roce: "af_packet:eth9", mtu: 1500, ib: noIB,
		want: `roce: port "af_packet:eth9": there is no interface eth9 here; there is none`},
	{name: "no such PCI device", tree: "connectx_ib", roce: "mlx5:0000:ff:00.0", mtu: 1500, ib: noIB,
		want: `roce: port "mlx5:0000:ff:00.0": there is no network card at 0000:ff:00.0 here; of ConnectX there are 0000:3b:00.0 and 0000:3b:00.1`},
	{name: "no ConnectX", tree: "connectx_ib", roce: "mlx5:0000:02:00.0", mtu: 1500, ib: noIB,
		want: `roce: port "mlx5:0000:02:00.0": it is not a ConnectX; its driver is igb`},
	{name: "no such RDMA device", tree: "connectx_ib", roce: "ring", mtu: 1500, ib: "mlx5_7:1",
		want: `ib: port "mlx5_7:1": there is no RDMA device mlx5_7 here; there are mlx5_0 and mlx5_1`},
	{name: "no RDMA device at all", tree: "virtio", roce: "ring", mtu: 1500, ib: "mlx5_0:1",
		want: `ib: port "mlx5_0:1": there is no RDMA device mlx5_0 here, nor any other; load the card's driver (modprobe mlx5_ib) and see "causeway devices", or write port = "fabric:" for the software subnet`},
	{name: "no such port", tree: "connectx_ib", roce: "ring", mtu: 1500, ib: "mlx5_0:2",
		want: `ib: port "mlx5_0:2": mlx5_0 has no port 2; there is mlx5_0:1`},
	{name: "interface down", tree: "connectx_roce", roce: "af_packet:enp94s0f1np1", mtu: 1500, ib: noIB,
		link: `roce: port "af_packet:enp94s0f1np1": the port is down; ip link set enp94s0f1np1 up; the bridge waits for it`},
	{name: "interface without a carrier", tree: "virtio", roce: "af_packet:eth0", mtu: 1500, ib: noIB,
		link: `roce: port "af_packet:eth0": the port is down, without carrier; check its cable, and the port at the other end; the bridge waits for it`},
	{name: "mlx5 down", tree: "connectx_roce", roce: "mlx5:0000:5e:00.1", mtu: 1500, ib: noIB,
		link: `roce: port "mlx5:0000:5e:00.1": the port is down; ip link set enp94s0f1np1 up; the bridge waits for it`},
	{name: "interface down, and too small an MTU", tree: "connectx_roce", edits: "class/net/enp94s0f1np1/mtu = 200", roce: "af_packet:enp94s0f1np1",
		mtu: 1500, ib: noIB,
		want: `roce: port "af_packet:enp94s0f1np1": its MTU 200 is too small for any IB MTU; ip link set enp94s0f1np1 mtu 336 or more`,
		link: `roce: port "af_packet:enp94s0f1np1": the port is down; ip link set enp94s0f1np1 up; the bridge waits for it`},
	{name: "HCA down", tree: "connectx_ib", roce: "ring", mtu: 1500, ib: "mlx5_1:1", more: "pkey = 0x9999",
		want: `ib: port "mlx5_1:1": the port is DOWN (Polling); check its cable, and the port at the other end`},
	{name: "HCA without a subnet manager", tree: "connectx_ib", edits: "class/infiniband/mlx5_0/ports/1/state = 2: INIT", roce: "ring", mtu: 1500,
		ib: "mlx5_0:1", want: `ib: port "mlx5_0:1": the port is INIT: no subnet manager has set it up; start one, such as opensm`},
	{name: "rxe down", tree: "rxe", edits: "class/infiniband/rxe1/ports/1/state = 1: DOWN", roce: "ring", mtu: 1500, ib: "rxe1:1",
		want: `ib: port "rxe1:1": the port is DOWN; set its interface eth1 up: ip link set eth1 up`},
	{name: "IPoIB on the RoCE side", tree: "connectx_ib", roce: "af_packet:ibp59s0f0", mtu: 1500, ib: noIB,
		want: `roce: port "af_packet:ibp59s0f0": its link layer is InfiniBand; use an interface whose link layer is Ethernet`},
	{name: "InfiniBand on the RoCE side", tree: "connectx_ib", roce: "mlx5:0000:3b:00.0", mtu: 1500, ib: noIB,
		want: `roce: port "mlx5:0000:3b:00.0": its link layer is InfiniBand; use a port whose link layer is Ethernet, ` +
			`or change this one's in the card's firmware`},
	{name: "no Ethernet", tree: "virtio", roce: "af_packet:tun0", mtu: 1500, ib: noIB,
		want: `roce: port "af_packet:tun0": it is not an Ethernet interface (ARP type 65534)`},
	{name: "RoCE on the InfiniBand side", tree: "connectx_roce", roce: "ring", mtu: 1500, ib: "mlx5_0:1",
		want: `ib: port "mlx5_0:1": its link layer is Ethernet; use a port whose link layer is InfiniBand, or change this one's in the card's firmware`},
	{name: "P_Key absent", tree: "connectx_ib", roce: "ring", mtu: 1500, ib: "mlx5_0:1", more: "pkey = 0x8005",
		want: `ib: pkey 0x8005: the port mlx5_0:1 does not have it; there are 0xffff, 0x8001 and 0x0002; write one of these, ` +
			`or have the subnet manager add the port to the partition`},
	{name: "P_Key of a limited member", tree: "connectx_ib", roce: "ring", mtu: 1500, ib: "mlx5_0:1", group: "pkey = 0x8002",
		want: `group 239.1.2.4: pkey 0x8002: the port mlx5_0:1 does not have it; there are 0xffff, 0x8001 and 0x0002; write one of these, ` +
			`or have the subnet manager add the port to the partition`},
	{name: "P_Key of a group there", tree: "connectx_ib", roce: "ring", mtu: 1500, ib: "mlx5_0:1", group: "pkey = 0x8001"},
	{name: "mtu over the interface's", tree: "connectx_ib", roce: "af_packet:eno1", mtu: 4200, ib: noIB,
		want: `roce: port "af_packet:eno1": its MTU 1500 is less than mtu 4200; ip link set eno1 mtu 4200, or write mtu = 1500`},
	{name: "an interface's MTU without any use", tree: "rxe", roce: "af_packet:eth0", mtu: 1500, ib: noIB,
		want: `roce: port "af_packet:eth0": its MTU 200 is too small for any IB MTU; ip link set eth0 mtu 336 or more`},
	{name: "mtu over the InfiniBand side's", tree: "rxe", edits: "class/net/eth1/mtu = 1500", roce: "ring", mtu: 4200, ib: "rxe1:1",
		want: `roce: mtu 4200 carries IB MTU 4096, but the port rxe1:1 has IB MTU 1024; write mtu = 1104, or raise the MTU of the interface eth1`},
	{name: "mtu under the InfiniBand side's", tree: "rxe", roce: "ring", mtu: 1500, ib: "rxe1:1"},
	{name: "both sides", tree: "virtio", roce: "af_packet:eth7", mtu: 1500, ib: "mlx5_0:1",
		want: `roce: port "af_packet:eth7": there is no interface eth7 here; there are eth0, tun0 and veth12ab34
ib: port "mlx5_0:1": there is no RDMA device mlx5_0 here, nor any other; load the card's driver (modprobe mlx5_ib) and see "causeway devices", or write port = "fabric:" for the software subnet`},
}

func TestCheckConfig(t *testing.T) {
	for _, c := range configs {
		t.Run(c.name, func(t *testing.T) {
			sys := sysfs(t, c.tree, strings.Split(c.edits, "\n")...)
			cfg := parsed(t, c.roce, c.mtu, c.ib, c.more, c.group)
			problems, _ := CheckConfig(cfg, sys)
			if got := strings.Join(problems, "\n"); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if got := LinkNote(cfg, sys); got != c.link {
				t.Errorf("of the link: got\n%s\nwant\n%s", got, c.link)
			}
		})
	}
}

// TestAdvice wants the MTUs that messages name to be right: with them, nothing is said.
func TestAdvice(t *testing.T) {
	low := sysfs(t, "rxe", "class/net/eth1/mtu = 1500")
	if got, _ := CheckConfig(parsed(t, "ring", 1104, "rxe1:1", "", ""), low); len(got) > 0 {
		t.Error(got)
	}
	if got, _ := CheckConfig(parsed(t, "af_packet:eth0", 336, noIB, "", ""), sysfs(t, "rxe", "class/net/eth0/mtu = 336")); len(got) > 0 {
		t.Error(got)
	}
}

func TestManyNames(t *testing.T) {
	got := thereAre(strings.Fields(strings.Repeat("x ", 14)))
	if want := "there are x, x, x, x, x, x, x, x, x, x, x, x and 2 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestMayCome wants only a device or an interface that is missing or not up to be worth waiting for.
func TestMayCome(t *testing.T) {
	for _, c := range []struct {
		tree, roce, ib string
		want           bool
	}{
		{"rxe", "af_packet:eth1", "rxe1:1", false},                // nothing is wrong
		{"rxe", "af_packet:eth1", "mlx5_0:1", true},               // not there
		{"connectx_ib", "ring", "mlx5_1:1", true},                 // down
		{"connectx_ib", "ring", "mlx5_0:2", false},                // has no such port, and will not
		{"rxe", "af_packet:eth9", "mlx5_0:1", true},               // neither is there
		{"rxe", "af_packet:eth9", "rxe1:1", true},                 // no such interface yet
		{"rxe", "af_packet:eth9", "fabric:subnet.toml", true},     // the same without an RDMA device
		{"connectx_ib", "af_packet:eth9", "mlx5_0:2", false},      // the other port has no such port, and will not
		{"connectx_ib", "af_packet:ibp59s0f0", "mlx5_1:1", false}, // the other port is wrong
		{"connectx_roce", "ring", "fabric:subnet.toml", false},    // needs none
	} {
		sys := sysfs(t, c.tree, "")
		if _, got := CheckConfig(parsed(t, c.roce, 1500, c.ib, "", ""), sys); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

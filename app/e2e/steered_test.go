// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// sharedPort is a port on C's eth1, which C's kernel uses, too.
const sharedPort = "tap:cw0,remote=eth1"

// flowModules are the kernel modules that net_tap's flow rules need.
const flowModules = "modprobe -a tun sch_multiq sch_ingress cls_flower act_gact act_mirred act_skbedit"

// sharedSizes go up to what net_tap can carry: an MTU of 1504.
var sharedSizes = []int{0, 1, 2, 3, 61, 64, 1023, 1024}

// sharing changes a bridge's configuration to use the shared port.
func sharing(config string) string {
	return strings.NewReplacer("af_packet:"+Port, sharedPort, "af_packet:eth1", sharedPort, fmt.Sprintf("= %d", hostMTU), "= 1500",
		"lcores = [1]", "lcores = [0]\nmemory_mib = 128").Replace(config)
}

// kernelOnEth1 is C's kernel on eth1, which it shares with the bridge: a host of the same network, with the same MAC
// address.
type kernelOnEth1 struct {
	a, c   *Guest
	v4, v6 string
}

// web is the folder that C's kernel serves by TCP, on RoCE's port number and another.
const web = "/tmp/web"

// kernelBeside gives C's kernel addresses on eth1 in a network, until the test ends; only A is reached through eth1,
// since C's eth2 is in the same network.
func kernelBeside(t *testing.T, n network, a *Guest, c *BridgeGuest) kernelOnEth1 {
	t.Helper()
	k := kernelOnEth1{a, c.Guest, n.v4 + "4", n.v6 + "4"}
	dev, undo := "eth1", "true"
	// Its eth0 is on the same segment: without arp_ignore it would answer for eth1's address.
	set := flowModules + " && echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore" +
		" && cd /proc/sys/net/ipv6/conf && echo 0 >eth1/accept_dad && echo 0 >eth1/disable_ipv6"
	if n.vlan != 0 {
		dev = fmt.Sprintf("eth1.%d", n.vlan)
		set += fmt.Sprintf(" && ip link add link eth1 name %s type vlan id %d && echo 0 >%[1]s/accept_dad && ip link set %[1]s up", dev, n.vlan)
		undo = "ip link del " + dev
	}
	set += fmt.Sprintf(" && ip addr add %[2]s/32 dev %[1]s && ip route add %[3]s1/32 dev %[1]s src %[2]s"+
		" && ip addr add %[4]s/128 dev %[1]s nodad && ip -6 route add %[5]s1/128 dev %[1]s src %[4]s"+
		" && mkdir -p %[6]s && cp /bin/busybox %[6]s/file", dev, k.v4, n.v4, k.v6, n.v6, web)
	undo += fmt.Sprintf("; ip addr flush dev eth1; echo 1 >/proc/sys/net/ipv6/conf/eth1/disable_ipv6"+
		"; echo 0 >/proc/sys/net/ipv4/conf/all/arp_ignore; ip link set eth1 mtu %d", hostMTU)
	t.Cleanup(func() {
		if err := c.Must(context.Background(), undo); err != nil { // the test's context has ended
			t.Error(err)
		}
		forgetNeighbours(t, a)
	})
	if err := c.Must(within(t, stepTime), set); err != nil {
		t.Fatal(err)
	}
	for _, port := range []string{"80", "4791"} {
		server, err := c.Start("exec httpd -f -p " + port + " -h " + web)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Stop)
	}
	return k
}

// udpProbes is how many UDP datagrams the function use sends to C's kernel, by each of IPv4 and IPv6.
const udpProbes = 5

// use has A use what C's kernel offers, and C's kernel resolve and ping A: ping, TCP, UDP, each with neighbours
// resolved anew. The bridge must not touch any of this traffic.
func (k kernelOnEth1) use(t *testing.T) {
	t.Helper()
	if err := k.a.Must(within(t, stepTime), fmt.Sprintf("ip neigh del %s dev $(%s); ip -6 neigh del %s dev $(%s); true",
		k.v4, deviceTo(k.v4), k.v6, deviceTo(k.v6))); err != nil {
		t.Fatal(err)
	}
	k.together(t, []use{
		{k.a, "ping -c 5 -i .2 -s 1000 " + k.v4, "5 packets received"},
		{k.a, "ping -c 5 -i .2 -s 1000 " + k.v6, "5 packets received"},
		{k.a, fmt.Sprintf("traceroute -n -m 1 -q %d %s 2>&1 | grep -v \\*", udpProbes, k.v4), "1  " + k.v4},
		{k.a, fmt.Sprintf("traceroute6 -n -m 1 -q %d %s 2>&1 | grep -v \\*", udpProbes, k.v6), "1  " + k.v6},
		{k.a, "wget -q -O - http://" + k.v4 + ":80/file | cmp - /bin/busybox && echo same", "same"},
		{k.a, "wget -q -O - http://" + k.v4 + ":4791/file | cmp - /bin/busybox && echo same", "same"},
		{k.a, "wget -q -O - http://[" + k.v6 + "]:4791/file | cmp - /bin/busybox && echo same", "same"},
	})
	k.together(t, []use{{k.a, "ip neigh show " + k.v4, mac("C", 1)}, {k.a, "ip neigh show " + k.v6, mac("C", 1)}})
	if err := k.c.Must(within(t, stepTime), "ip neigh flush dev eth1"); err != nil {
		t.Fatal(err)
	}
	k.together(t, []use{
		{k.c, "ping -c 2 " + strings.TrimSuffix(k.v4, "4") + "1", "2 packets received"},
		{k.c, "ping -c 2 " + strings.TrimSuffix(k.v6, "4") + "1", "2 packets received"},
	})
}

// A use is a command in a guest, and what it must print.
type use struct {
	by      *Guest
	command string
	want    string
}

// together runs commands at the same time.
func (k kernelOnEth1) together(t *testing.T, all []use) {
	t.Helper()
	var running sync.WaitGroup
	for _, x := range all {
		running.Go(func() {
			out, _, err := x.by.Run(within(t, stepTime), x.command)
			if err != nil || !strings.Contains(out, x.want) {
				t.Errorf("guest %s: %s: %v; it printed\n%s\nwant %q", x.by.Name, x.command, err, out, x.want)
			}
		})
	}
	running.Wait()
}

// deviceTo is a command that prints the interface by which an address is reached.
func deviceTo(ip string) string {
	return "ip route get " + ip + " | sed -n 's/.* dev \\([^ ]*\\).*/\\1/p'"
}

// strayRoCE is how many RoCE messages go to C's kernel's own addresses, by each of IPv4 and IPv6.
const strayRoCE = 20

// getsRoCE has A send RoCE to the kernel's own addresses, and reports whether the kernel gets it: then its IP layer
// delivers it to rxe, which has no device there.
func (k kernelOnEth1) getsRoCE(t *testing.T, n network) bool {
	t.Helper()
	before := k.delivered(t)
	for _, x := range [][2]string{{n.v4 + "1", k.v4}, {n.v6 + "1", k.v6}} {
		if _, err := k.a.RunUDEnd(within(t, stepTime), fmt.Sprintf("--ip %s %s --to %s --qpn 77 --gap 2 --count %d --size 64 send",
			x[0], unicast, x[1], strayRoCE)); err != nil {
			t.Fatal(err)
		}
	}
	// The other delivered packets are neighbour discovery.
	return k.delivered(t)-before >= 2*strayRoCE
}

var inDelivers = regexp.MustCompile(`Ip6InDelivers\s+(\d+)|Ip:(?: \d+){8} (\d+)`)

// delivered returns how many IP packets C's kernel has delivered to the next protocol.
func (k kernelOnEth1) delivered(t *testing.T) int { return k.count(t, inDelivers) }

var noPorts = regexp.MustCompile(`Udp6NoPorts\s+(\d+)|Udp: \d+ (\d+) \d+`)

// rejected returns how many UDP datagrams have come to C's kernel for a port where nobody listens.
func (k kernelOnEth1) rejected(t *testing.T) int { return k.count(t, noPorts) }

// count returns the sum of an IPv4 counter and its IPv6 counterpart.
func (k kernelOnEth1) count(t *testing.T, counters *regexp.Regexp) (n int) {
	t.Helper()
	out, _, err := k.c.Run(within(t, stepTime), "cat /proc/net/snmp /proc/net/snmp6")
	found := counters.FindAllStringSubmatch(out, -1)
	if err != nil || len(found) != 2 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, f := range found {
		m, _ := strconv.Atoi(f[1] + f[2]) // digits
		n += m
	}
	return n
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKernelSockets has a socket of the kernel at the other end of a pair of interfaces send to a group of plain UDP: the kernel
// leaves such datagrams' checksums to a device, and there is none.
func TestKernelSockets(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.wires()
	n.ip("address add 10.9.0.1/24 dev theirs")
	n.ip("route add 239.1.2.3 dev theirs")
	p := n.bridge(`port = "ring"`, `port = "af_packet:ours"`, `direction = "both"`, "direction = \"to-ib\"\nethernet = \"udp:4711\"")
	metrics := ""
	p.await("that datagrams cross", func() bool {
		n.run("ip", "netns", "exec", n.name, "bash", "-c", "echo a datagram >/dev/udp/239.1.2.3/4711")
		metrics = n.get("/metrics")
		return strings.Contains(metrics, "\ncauseway_packets_received_total{") &&
			!strings.Contains(metrics, "\ncauseway_packets_sent_total{direction=\"roce_to_ib\"} 0\n")
	})
	for line := range strings.Lines(metrics) {
		if strings.Contains(line, `reason="udp_csum"`) && !strings.HasSuffix(line, " 0\n") {
			t.Error(strings.TrimSpace(line))
		}
	}
	p.end(syscall.SIGTERM)
	for _, x := range p.lines() {
		if x["msg"] == "stopped" && x["conserved"] != true {
			t.Errorf("%v", x)
		}
	}
}

// gauge returns the value of a metric without labels.
func (n *network) gauge(name string) (value int) {
	n.t.Helper()
	for line := range strings.Lines(n.get("/metrics")) {
		if rest, is := strings.CutPrefix(line, name+" "); is {
			fmt.Sscan(rest, &value)
		}
	}
	return value
}

// TestSnoopingBridge has two kernels be members of a group of a range, behind Linux's bridge, which snoops and is the querier: when
// one leaves, the other still is a member. The bridge asks the one that has left alone, and no other host reports again.
func TestSnoopingBridge(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.wires()
	n.ip("link add br0 type bridge mcast_snooping 1 mcast_querier 1 mcast_query_interval 2000 mcast_startup_query_interval 2000 mcast_query_response_interval 100")
	n.ip("link set theirs master br0")
	n.ip("link set theirs type bridge_slave mcast_router 2") // a router's: it gets all reports
	n.ip("link set br0 up")
	p := n.bridge(`port = "ring"`, `port = "af_packet:ours"`, "[[group]]\nip = \"239.1.2.3\"\n", "[[range]]\nip = \"239.2.0.0/16\"\n")
	var members [2]*program
	for i := range members {
		h := newNetwork(t)
		n.ip(fmt.Sprintf("link add p%d mtu 4200 type veth peer name eth0 netns %s", i, h.name))
		n.ip(fmt.Sprintf("link set p%d master br0 up", i))
		h.ip(fmt.Sprintf("address add 10.9.0.1%d/24 dev eth0", i))
		h.ip("link set eth0 up")
		members[i] = start(t, exec.Command("ip", "netns", "exec", h.name, os.Args[0], "listen", "-on", "packet:eth0", "-group", "239.2.0.5"))
	}
	reports := func() int { return n.gauge("causeway_group_reports_received_total") }
	p.await("that both have reported the group, twice", func() bool { return reports() >= 4 && n.gauge("causeway_groups") == 1 })
	before := reports()
	members[0].end(syscall.SIGTERM)
	p.await("that one has left", func() bool { return reports() > before })
	time.Sleep(9 * time.Second) // without another report
	if got := n.gauge("causeway_groups"); got != 1 {
		t.Errorf("one of two has left, and there are %d groups", got)
	}
	members[1].end(syscall.SIGTERM)
	p.end(syscall.SIGTERM)
}

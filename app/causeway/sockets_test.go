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
	p.endConserved()
}

// endConserved ends a bridge, each of whose packets must have left or been dropped by name.
func (p *program) endConserved() {
	p.t.Helper()
	p.end(syscall.SIGTERM)
	for _, x := range p.lines() {
		if x["msg"] == "stopped" {
			if x["conserved"] != true {
				p.t.Errorf("%v", x)
			}
			return
		}
	}
	p.t.Error("the bridge does not say that it has stopped")
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
		members[i] = h.start("listen", "-on", "packet:eth0", "-group", "239.2.0.5")
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
	p.endConserved()
}

// member joins a group for one source by a socket of the kernel, until it is ended.
const member = `
import socket, struct, sys
group, source = sys.argv[1:3]
six = ":" in group
s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
def address(a): # struct sockaddr_storage
    b = struct.pack("=HHI16sI", socket.AF_INET6, 0, 0, socket.inet_pton(socket.AF_INET6, a), 0) if six else struct.pack("=HH4s", socket.AF_INET, 0, socket.inet_aton(a))
    return b.ljust(128, b"\0")
MCAST_JOIN_SOURCE_GROUP = 46
index = struct.pack("=I4x", socket.if_nametoindex("theirs"))
s.setsockopt(socket.IPPROTO_IPV6 if six else socket.IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP, index + address(group) + address(source))
print("joined", flush=True)
sys.stdin.read()
`

// TestKernelSources has sockets of the kernel be members of source-specific groups of a range, whose querier the bridge is: the group ends
// with the last of its sources.
func TestKernelSources(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, group, one, other string }{{"IGMPv3", "232.7.0.5", "10.9.0.8", "10.9.0.9"}, {"MLDv2", "ff3e::7:5", "fd09::8", "fd09::9"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t)
			n.wires()
			n.ip("address add 10.9.0.1/24 dev theirs")
			n.ip("address add fd09::1/64 dev theirs nodad")
			p := n.bridge(`port = "ring"`, `port = "af_packet:ours"`, `["10.9.0.254/24"]`, `["10.9.0.254/24", "fd09::fe/64"]`, `allow = ["10.9.0.0/24"]`, `allow = ["10.9.0.0/24", "fd09::/64"]`,
				"[[group]]\nip = \"239.1.2.3\"\n", "[[range]]\nip = \"232.7.0.0/16\"\n[[range]]\nip = \"ff3e::/96\"\n")
			join := func(source string) (leave func()) {
				m := exec.Command("ip", "netns", "exec", n.name, "python3", "-c", member, c.group, source)
				stdin, err := m.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				m.Stderr = os.Stderr
				if err := m.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = m.Process.Kill() })
				return func() { _ = stdin.Close(); _ = m.Wait() }
			}
			groups := func() int { return n.gauge("causeway_groups") }
			reports := func() int { return n.gauge("causeway_group_reports_received_total") }
			one := join(c.one)
			p.await("the group", func() bool { return groups() == 1 })
			other := join(c.other)
			before := reports()
			p.await("a report of the second source", func() bool { return reports() > before })
			before = reports()
			one()
			p.await("that the first source is left", func() bool { return reports() > before })
			time.Sleep(4 * time.Second) // longer than a last member may take
			if got := groups(); got != 1 {
				t.Errorf("one of two sources is gone, and there are %d groups", got)
			}
			other()
			p.await("no group", func() bool { return groups() == 0 })
			p.endConserved()
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package ipoib

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"causeway/ibside/ib"
)

// hosts are the RoCE hosts that are at each of two bridges.
type hosts struct {
	mu    sync.Mutex
	at    map[netip.Addr]string // the bridge's interface
	asked []netip.Addr
}

func (h *hosts) put(ip, bridge string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at[netip.MustParseAddr(ip)] = bridge
}

func (h *hosts) remove(ip string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.at, netip.MustParseAddr(ip))
}

// wanted returns what was asked for since the last call.
func (h *hosts) wanted() []netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.asked
	h.asked = nil
	return all
}

// respond has a bridge answer on an interface.
func (h *hosts) respond(t *testing.T, name string, said *strings.Builder) *Responder {
	t.Helper()
	i, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	gid, _ := portOf(i.HardwareAddr)
	r := respond(ResponderConfig{
		Port: func() []ib.GID { return []ib.GID{gid} }, Log: slog.New(slog.NewTextHandler(said, nil)),
		Here: func(_ context.Context, _ ib.PKey, ips []netip.Addr) (here []netip.Addr) {
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, ip := range ips {
				if h.at[ip] == name {
					here = append(here, ip)
				}
			}
			return here
		},
		Searched: func(context.Context, ib.PKey) ([]netip.Addr, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			return slices.Collect(maps.Keys(h.at)), nil
		},
		Ask: func(_ ib.PKey, ip netip.Addr) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.asked = append(h.asked, ip)
		},
	}, portOf)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// soon waits until something holds.
func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 seconds", what)
		}
	}
}

// A node is a kernel beside two bridges, with interfaces ib1 and ib2, at the same cable. No other interface has an
// address that is one of theirs (portOf).
type node struct {
	t    *testing.T
	name string // of its network namespace, which all processes see
}

func newNode(t *testing.T, address string) node {
	t.Helper()
	n := node{t, fmt.Sprint("node", os.Getpid())}
	sh(t, `node=`+n.name+`; ip link set lo up; ip link add br0 address 02:00:00:00:00:f0 type bridge mcast_snooping 0; ip link set br0 up
for n in 1 2; do
	ip link add ib$n address 02:00:00:00:00:0$n type veth peer name x$n address 02:00:00:00:00:f$n
	ip link set x$n master br0 up; ip link set ib$n up
done
ip netns add $node; ip link add ib9 address 02:00:00:00:00:09 netns $node type veth peer name x9 address 02:00:00:00:00:f9
ip link set x9 master br0 up
ip -n $node address add `+address+` dev ib9; ip -n $node link set ib9 up`)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", n.name).Run() })
	return n
}

// knows reports whether it has a host's link-layer address.
func (n node) knows(ip, hardware string) bool {
	return strings.Contains(output(n.t, "ip -n "+n.name+" neigh show "+ip+" dev ib9"), "lladdr "+hardware)
}

// ask sends a host something; whether that succeeds does not matter.
func (n node) ask(ip string) {
	_ = exec.Command("ip", "netns", "exec", n.name, "bash", "-c", "echo > /dev/udp/"+ip+"/9").Run()
}

// output runs commands and returns what they write.
func output(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.Command("sh", "-ec", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// TestResponder has two bridges answer for hosts, and a node's kernel ask. A host that goes from one to the other is
// announced, and the node knows it there without asking again.
func TestResponder(t *testing.T) {
	t.Parallel()
	if !ownNamespace(t) {
		return
	}
	n := newNode(t, "10.9.0.9/24")
	h := &hosts{at: map[netip.Addr]string{}}
	h.put("10.9.0.1", "ib1")
	var said [2]strings.Builder
	one, two := h.respond(t, "ib1", &said[0]), h.respond(t, "ib2", &said[1])
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the first:\n%sthe second:\n%s", &said[0], &said[1])
		}
		if strings.Contains(said[0].String(), "ipoib_kernel_answers") || strings.Count(said[1].String(), "ipoib_kernel_answers") != 1 {
			t.Errorf("of the kernel, which answers on ib2 at the end, they said\n%s\n%s", &said[0], &said[1])
		}
	})
	soon(t, "the bridge that has the host answers", func() bool { n.ask("10.9.0.1"); return n.knows("10.9.0.1", "02:00:00:00:00:01") })
	if wanted := h.wanted(); one.Answered() == 0 || two.Answered() != 0 || !slices.Contains(wanted, netip.MustParseAddr("10.9.0.1")) {
		t.Errorf("answered %d and %d, and the second one asked for %v", one.Answered(), two.Answered(), wanted)
	}
	answered := one.Answered()
	h.put("10.9.0.1", "ib2")
	one.Moved()
	two.Moved()
	soon(t, "the node knows where the host has gone", func() bool { return n.knows("10.9.0.1", "02:00:00:00:00:02") })
	soon(t, "it is announced twice", func() bool { return two.Announced() == 2 })
	if one.Announced() != 0 || one.Answered() != answered {
		t.Errorf("the first one has announced %d times", one.Announced())
	}
	n.ask("10.9.0.8")
	h.put("10.9.0.8", "ib1") // it has answered the bridge
	soon(t, "a host that was not known is announced", func() bool { return n.knows("10.9.0.8", "02:00:00:00:00:01") })
	sh(t, "sysctl -qw net.ipv4.conf.ib2.proxy_arp=1; ip link set ib2 down; ip link set ib2 up; ip link del ib1")
	h.put("10.9.0.7", "ib2")
	soon(t, "it answers again by an interface that was down", func() bool { n.ask("10.9.0.7"); return n.knows("10.9.0.7", "02:00:00:00:00:02") })
	sh(t, "sysctl -qw net.ipv4.conf.ib2.proxy_arp=0; ip link set ib2 address 02:00:01:00:00:02") // of the same port
	h.put("10.9.0.6", "ib2")
	soon(t, "it answers with another address", func() bool { n.ask("10.9.0.6"); return n.knows("10.9.0.6", "02:00:01:00:00:02") })
	if err := two.Close(); err != nil || len(two.stations) != 1 {
		t.Errorf("%d stations are left, %v", len(two.stations), err)
	}
}

// TestARP checks packets that are none, and that what is written is read, with addresses of either length.
func TestARP(t *testing.T) {
	for _, hardware := range []int{macLen, addressLen} {
		one, other := make(net.HardwareAddr, hardware), make(net.HardwareAddr, hardware)
		one[0], other[hardware-1] = 2, 7
		a := arp{op: arpReply, sha: one, spa: netip.MustParseAddr("10.9.0.1"), tha: other, tpa: netip.MustParseAddr("10.9.0.2")}
		b := a.appendTo(nil, 32)
		got, ok := parseARP(append(b, 0, 0), hardware)
		if !ok || got.op != a.op || !slices.Equal(got.sha, one) || !slices.Equal(got.tha, other) || got.spa != a.spa || got.tpa != a.tpa {
			t.Errorf("%x: %+v", b, got)
		}
		for n := range b {
			if _, ok := parseARP(b[:n], hardware); ok {
				t.Errorf("%d bytes of %d are a packet", n, len(b))
			}
		}
		for _, at := range []int{3, 4, 5} {
			b[at]++
			if _, ok := parseARP(b, hardware); ok {
				t.Errorf("a packet with byte %d changed is one", at)
			}
			b[at]--
		}
	}
}

// TestLink checks the headers before a packet.
func TestLink(t *testing.T) {
	to, from := make(net.HardwareAddr, addressLen), make(net.HardwareAddr, addressLen)
	to[addressLen-1], from[0] = 9, 8
	if b := appendLink(nil, 32, 0x806, to, from); !slices.Equal(b, append(slices.Clone([]byte(to)), 8, 6, 0, 0)) {
		t.Errorf("IPoIB: %x", b)
	}
	if b := appendLink(nil, 1, 0x86dd, to[14:], from[:macLen]); !slices.Equal(b, []byte{0, 0, 0, 0, 0, 9, 8, 0, 0, 0, 0, 0, 0x86, 0xdd}) {
		t.Errorf("Ethernet: %x", b)
	}
}

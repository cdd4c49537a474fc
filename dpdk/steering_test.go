// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package dpdk

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"
)

// What these tests need is a kernel with TC: sch_multiq, sch_ingress, cls_flower, act_skbedit, act_mirred, act_gact.
// With them net_tap takes flow rules, and is a NIC that is shared with the kernel like a ConnectX. app/e2e runs them
// in a guest; where a kernel has it all, go test -tags e2e -run Steering ./dpdk does.

// The places where a frame can arrive: port queue n, or the kernel.
const kernel = -1

// where tells where each probe arrived; a probe that was copied has several places.
type where map[string][]int

// steering is a wire into an interface that a port shares with the kernel.
type steering struct {
	port   *Port
	wire   end
	kept   []int // packet sockets of the kernel's, one an ethertype
	probes []probe
}

// newSteering makes the wire and the port, with two queues, that takes nothing yet but what rules will ask for.
func newSteering(t *testing.T) *steering {
	t.Helper()
	ownNetwork(t)
	veth(t, "wire", "shared", "1500")
	s := &steering{wire: kernelEnd(t, "wire")}
	for _, ethertype := range []uint16{typeIPv4, typeIPv6, typeARP, typeRoCEv1, typeTest} {
		s.kept = append(s.kept, keptBy(t, "shared", ethertype))
	}
	s.port = open(t, "tap:dtap4,remote=shared", PortConfig{Pool: newPool(t), RxQueues: 2, TxQueues: 2, RxDescs: 64})
	netdev, err := net.InterfaceByName("shared")
	if err != nil || [6]byte(netdev.HardwareAddr) != s.port.MAC() {
		t.Fatalf("%+v, %v; want the port to have its address: %x", netdev, err, s.port.MAC())
	}
	if known, err := s.port.KernelInterface(); !s.port.Shared() || err != nil || known.Index != netdev.Index {
		t.Errorf("the kernel's interface: %+v, %v; want %s", known, err, netdev.Name)
	}
	if err := s.port.Isolate(true); err != nil {
		t.Fatal(err)
	}
	s.probes = probes(s.port.MAC())
	return s
}

// keptBy is a packet socket for one ethertype. Unlike one for all, it gets a frame only after the classifiers of the
// interface have let it pass (net/core/dev.c, __netif_receive_skb_core).
func keptBy(t *testing.T, name string, ethertype uint16) int {
	t.Helper()
	netdev, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	wire := ethertype<<8 | ethertype>>8
	s, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_NONBLOCK, int(wire))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(s) })
	if err := syscall.Bind(s, &syscall.SockaddrLinklayer{Protocol: wire, Ifindex: netdev.Index}); err != nil {
		t.Fatal(err)
	}
	return s
}

// send sends every probe and tells where each arrived.
func (s *steering) send(t *testing.T) where {
	t.Helper()
	at := where{}
	for _, p := range s.probes {
		if err := s.wire.send(p.frame); err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
	}
	// All of them, and then a while for copies that nobody expects.
	quiet := time.Now().Add(5 * time.Second)
	for all := false; time.Now().Before(quiet); {
		s.collect(t, at)
		if !all && len(at) == len(s.probes) {
			all = true
			quiet = time.Now().Add(100 * time.Millisecond)
		}
		time.Sleep(time.Millisecond)
	}
	return at
}

// collect takes what has arrived until now. At the port frames must be whole; packet sockets show no VLAN tags.
func (s *steering) collect(t *testing.T, at where) {
	note := func(frame []byte, place int) {
		for _, p := range s.probes {
			if !bytes.HasSuffix(frame, p.mark()) {
				continue
			}
			at[p.name] = append(at[p.name], place)
			if place != kernel && !bytes.Equal(frame, p.frame) {
				t.Errorf("%s arrived as %x, want %x", p.name, frame, p.frame)
			}
		}
	}
	for queue := range 2 {
		var burst [32]Mbuf
		for _, m := range burst[:s.port.Rx(queue, burst[:])] {
			note(m.Bytes(), queue)
			m.Free()
		}
	}
	buf := make([]byte, 2048)
	for _, socket := range s.kept {
		for {
			n, _, err := syscall.Recvfrom(socket, buf, 0)
			if err != nil {
				break
			}
			note(buf[:n], kernel)
		}
	}
}

// check sends every probe; those that some rule takes must arrive at its queue alone, the others at the kernel alone.
func (s *steering) check(t *testing.T, taken map[string]int) {
	t.Helper()
	at := s.send(t)
	for _, p := range s.probes {
		want, is := taken[p.name]
		if !is {
			want = kernel
		}
		if !slices.Equal(at[p.name], []int{want}) {
			t.Errorf("%s arrived at %v, want %d (queues; %d is the kernel)", p.name, at[p.name], want, kernel)
		}
	}
	for name := range taken {
		if !slices.ContainsFunc(s.probes, func(p probe) bool { return p.name == name }) {
			t.Errorf("there is no probe %q", name)
		}
	}
	t.Logf("steered %d frames", len(s.probes))
}

// steered are the rules that net_tap takes, and what each of them takes. Where an interface receives, the kernel has
// put a VLAN's tag aside, and a frame is what it is inside.
var steered = []struct {
	name  string
	rule  Rule
	takes []string
}{
	{"RoCE v2, IPv4", Rule{Match: MatchRoCEv2IPv4}, []string{roceV4, roceV4Group, roceV4VLAN}},
	{"RoCE v2, IPv6", Rule{Match: MatchRoCEv2IPv6}, []string{roceV6, roceV6Group}},
	{"RoCE v1", Rule{Match: MatchRoCEv1}, []string{roceV1}},
	{"ARP", Rule{Match: MatchARP}, []string{arp}},
	{"IGMP", Rule{Match: MatchIGMP}, []string{igmpReport}},
	{"a group's MAC", Rule{Match: MatchMAC, MAC: groupMAC}, []string{roceV4Group, otherV4Group, igmpReport}},
	{"an IPv4 group", Rule{Match: MatchIP, IP: netip.MustParseAddr(groupIPv4)}, []string{roceV4Group, otherV4Group, igmpReport}},
	{"an IPv6 group", Rule{Match: MatchIP, IP: netip.MustParseAddr(groupIPv6)}, []string{roceV6Group, otherV6Group}},
}

// TestSteeringOneRule: each rule by itself takes what it is for and no more, to the queue it names, as long as it is
// in force.
func TestSteeringOneRule(t *testing.T) {
	s := newSteering(t)
	s.check(t, nil)
	for _, c := range steered {
		for _, queue := range []uint16{1, 0} {
			t.Run(fmt.Sprintf("%s to queue %d", c.name, queue), func(t *testing.T) {
				c.rule.Queues = []uint16{queue}
				flow, err := s.port.CreateFlow(c.rule)
				if err != nil {
					t.Fatal(err)
				}
				taken := map[string]int{}
				for _, name := range c.takes {
					taken[name] = int(queue)
				}
				s.check(t, taken)
				if err := flow.Destroy(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	s.check(t, nil)
}

// TestSteeringTogether: rules as the bridge makes them, all in force at once, beside groups; the rest is the kernel's.
func TestSteeringTogether(t *testing.T) {
	s := newSteering(t)
	taken := map[string]int{}
	for _, c := range steered {
		// The first rule that takes a frame counts: the groups come last.
		c.rule.Queues, c.rule.Priority = []uint16{1}, 0
		switch c.rule.Match {
		case MatchARP, MatchIGMP:
			c.rule.Queues = []uint16{0}
		case MatchMAC, MatchIP:
			c.rule.Priority = 1
		}
		if _, err := s.port.CreateFlow(c.rule); err != nil {
			t.Fatal(err)
		}
		for _, name := range c.takes {
			if _, earlier := taken[name]; !earlier {
				taken[name] = int(c.rule.Queues[0])
			}
		}
	}
	s.check(t, taken)
	want := testFrame(200, 1)
	m, err := s.port.config.Pool.Alloc(want)
	if err != nil || s.port.Tx(0, []Mbuf{m}) != 1 {
		t.Fatal(err)
	}
	if got := await(s.wire); !bytes.Equal(got, want) {
		t.Errorf("the port sent %.32x, want %.32x", got, want)
	}
}

// TestSteeringRejected: what net_tap cannot do it says, as a thing for software, and nothing of it stays in force.
func TestSteeringRejected(t *testing.T) {
	s := newSteering(t)
	for _, rule := range []Rule{
		{Match: MatchRoCEv2IPv4, VLAN: 100, Queues: []uint16{0}},
		{Match: MatchRoCEv1, VLAN: 100, Queues: []uint16{0}},
		{Match: MatchRoCEv2IPv4, Queues: []uint16{0, 1}, RSS: true},
		{Match: MatchRoCEv2IPv6, Queues: []uint16{0, 1}, RSS: true},
	} {
		if flow, err := s.port.CreateFlow(rule); flow != nil || !errors.Is(err, ErrNoFlow) {
			t.Errorf("%+v: %v", rule, err)
		} else {
			t.Log(err)
		}
	}
	s.check(t, nil)
}

// TestSteeringOwnTap: on a tap that shares nothing every frame arrives at the port: by rule at the queue that it
// names, else at any. What a packet socket sends has its VLAN tag still in it, and is not what it is inside.
func TestSteeringOwnTap(t *testing.T) {
	ownNetwork(t)
	port := open(t, "tap:dtap5", PortConfig{Pool: newPool(t), RxQueues: 2, TxQueues: 2, RxDescs: 64})
	ip(t, "link set dtap5 up")
	s := &steering{port: port, wire: kernelEnd(t, "dtap5"), probes: probes(port.MAC())}
	for _, queue := range []int{1, 0} {
		flow, err := port.CreateFlow(Rule{Match: MatchRoCEv2IPv4, Queues: []uint16{uint16(queue)}})
		if err != nil {
			t.Fatal(err)
		}
		at := s.send(t)
		for _, p := range s.probes {
			named := p.name == roceV4 || p.name == roceV4Group
			if places := at[p.name]; len(places) != 1 || (named && places[0] != queue) {
				t.Errorf("%s arrived at %v; the rule names queue %d", p.name, places, queue)
			}
		}
		t.Logf("steered %d frames", len(s.probes))
		if err := flow.Destroy(); err != nil {
			t.Error(err)
		}
	}
}

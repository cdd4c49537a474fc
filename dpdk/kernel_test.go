// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"causeway/dpdk/nettest"
)

var ip = nettest.IP

// ownNetwork gives the test a network of its own, whose interfaces carry what the test sends and no more: with IPv6, the
// kernel reports memberships of an interface that was set up, within its first second.
func ownNetwork(t *testing.T) {
	t.Helper()
	nettest.Own(t)
	for _, which := range []string{"all", "default"} {
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+which+"/disable_ipv6", []byte("1"), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// veth makes a pair of interfaces, up, with that MTU.
func veth(t *testing.T, a, b, mtu string) {
	t.Helper()
	ip(t, "link add "+a+" mtu "+mtu+" type veth peer name "+b+" mtu "+mtu)
	ip(t, "link set "+a+" up")
	ip(t, "link set "+b+" up")
}

// kernelEnd is a packet socket on an interface: the kernel's own way to the other end.
func kernelEnd(t *testing.T, name string) end {
	t.Helper()
	netdev, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	const allProtocols = 0x0300 // htons(ETH_P_ALL)
	s, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_NONBLOCK, allProtocols)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(s) })
	address := &syscall.SockaddrLinklayer{Protocol: allProtocols, Ifindex: netdev.Index}
	if err := syscall.Bind(s, address); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16384)
	recv := func() []byte {
		n, from, err := syscall.Recvfrom(s, buf, 0)
		if err != nil || from.(*syscall.SockaddrLinklayer).Pkttype == syscall.PACKET_OUTGOING {
			return nil
		}
		return append([]byte(nil), buf[:n]...)
	}
	return end{
		send: func(frame []byte) error { return syscall.Sendto(s, frame, 0, address) },
		recv: func() []byte {
			frame := recv()
			if !isTestFrame(frame) {
				return nil
			}
			return frame
		},
		any: recv,
	}
}

func TestAFPacketPort(t *testing.T) {
	ownNetwork(t)
	veth(t, "ours", "theirs", "4200")
	for _, queues := range []int{1, 2} {
		pool := newPool(t)
		p, err := OpenPort("af_packet:ours", PortConfig{Pool: pool, RxQueues: queues, TxQueues: queues, RxDescs: 64})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		netdev, err := net.InterfaceByName("ours")
		if err != nil || p.MTU() != 4200 || !p.LinkUp() || [6]byte(netdev.HardwareAddr) != p.MAC() {
			t.Errorf("MTU %d, link %v, MAC %x; %v", p.MTU(), p.LinkUp(), p.MAC(), err)
		}
		crossBothWays(t, portEnd(p), kernelEnd(t, "theirs"), 4200)
		how, err := p.SetMulticast([][6]byte{{0x33, 0x33, 0, 0, 0, 1}})
		if err != nil || how != MulticastPromiscuous || !flagged(t, "ours", "PROMISC") {
			t.Errorf("multicast by %v, %v; want promiscuous", how, err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if flagged(t, "ours", "PROMISC") {
			t.Error("the interface is still promiscuous after Close")
		}
	}
}

// flagged reports whether the kernel's interface has a flag, as ip names it.
func flagged(t *testing.T, name, flag string) bool {
	t.Helper()
	out, err := exec.Command("ip", "-d", "link", "show", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(out), flag)
}

func TestTapPort(t *testing.T) {
	ownNetwork(t)
	pool := newPool(t)
	p := open(t, "tap:dtap0", PortConfig{Pool: pool, RxQueues: 2, TxQueues: 2, RxDescs: 32, TxDescs: 32})
	ip(t, "link set dtap0 up")
	netdev, err := net.InterfaceByName("dtap0")
	if err != nil || netdev.MTU != 1500 || [6]byte(netdev.HardwareAddr) == p.MAC() {
		t.Errorf("%+v, %v; want MTU 1500, and another MAC than %x", netdev, err, p.MAC())
	}
	crossBothWays(t, portEnd(p), kernelEnd(t, "dtap0"), 1500)
	if how, err := p.SetAllMulticast(); err != nil || how != MulticastAll || !flagged(t, "dtap0", "ALLMULTI") {
		t.Errorf("multicast by %v, %v; want allmulticast", how, err)
	}
	if how, err := p.SetMulticast([][6]byte{{0x01, 0, 0x5e, 0, 0, 1}}); err != nil || how != MulticastList || flagged(t, "dtap0", "ALLMULTI") {
		t.Errorf("multicast by %v, %v; want list, and allmulticast no more", how, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := net.InterfaceByName("dtap0"); err == nil {
		t.Error("the interface is still there after Close")
	}
}

// TestTapLeavesSignalsAlone: the tap driver wakes its Rx by a real-time signal if one is free, and such a handler
// would run on a goroutine's stack. The Go runtime must have them all.
func TestTapLeavesSignalsAlone(t *testing.T) {
	const realTime = uint64(0xfffffffc00000000) // 35 to 64; the first bit is signal 1
	before := caught(t)
	ownNetwork(t)
	open(t, "tap:dtap1", PortConfig{Pool: newPool(t), RxDescs: 32})
	if after := caught(t); before&realTime != realTime || after != before {
		t.Errorf("signals with a handler: %x, then %x; want the same, and all real-time signals among them", before, after)
	}
}

// caught is the mask of signals that have a handler, of /proc/self/status.
func caught(t *testing.T) uint64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "SigCgt:\t")
	digits, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mask
}

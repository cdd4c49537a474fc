// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"causeway/lcore/frame"
)

// onWire is a frame whose last bytes name it, so that it can be told from the others.
type onWire struct {
	name  string
	heard bool
	frame []byte
}

// ethernet makes a frame for dst, which ends in its name.
func (f *onWire) ethernet(dst frame.MAC, ethertype uint16, payload []byte) {
	f.frame = binary.BigEndian.AppendUint16(slices.Concat(dst[:], hostMAC[:]), ethertype)
	f.frame = slices.Concat(f.frame, payload, make([]byte, 60), []byte(f.name))
}

// ip makes one with an IP packet that has what the filter looks at; options are bytes between IPv4 header and payload.
func (f *onWire) ip(dst frame.MAC, to string, protocol byte, payload []byte, options ...byte) {
	a := netip.MustParseAddr(to)
	if a.Is4() {
		h := slices.Concat([]byte{byte(0x45 + len(options)/4), 0, 0, 200, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 9, 0, 1}, a.AsSlice(), options)
		f.ethernet(dst, frame.TypeIPv4, slices.Concat(h, payload))
		return
	}
	h := slices.Concat([]byte{0x60, 0, 0, 0, 0, 200, protocol, 64}, netip.MustParseAddr("fd09::1").AsSlice(), a.AsSlice())
	f.ethernet(dst, frame.TypeIPv6, slices.Concat(h, payload))
}

// wireFrames are one frame of each kind that the filter tells apart.
func wireFrames(own frame.MAC) []onWire {
	group, solicited := frame.GroupMAC(netip.MustParseAddr("239.1.2.3")), frame.GroupMAC(netip.MustParseAddr("ff02::1:ff00:7"))
	var all []onWire
	add := func(name string, heard bool, fill func(f *onWire)) {
		f := onWire{name: name, heard: heard}
		fill(&f)
		all = append(all, f)
	}
	add("ARP", true, func(f *onWire) { f.ethernet(frame.MAC{255, 255, 255, 255, 255, 255}, frame.TypeARP, nil) })
	add("ARP for another host", false, func(f *onWire) { f.ethernet(frame.MAC{2, 0, 0, 0, 0, 9}, frame.TypeARP, nil) })
	add("RoCE v1", false, func(f *onWire) { f.ethernet(own, 0x8915, nil) })
	for _, x := range []struct {
		name     string
		heard    bool
		dst      frame.MAC
		to       string
		protocol byte
		payload  []byte
		options  []byte
	}{
		{"IGMP", true, group, "239.1.2.3", 2, nil, []byte{0x94, 4, 0, 0}},
		{"ping", true, own, "10.9.0.254", 1, []byte{8}, nil},
		{"ping with options", true, own, "10.9.0.254", 1, []byte{8}, []byte{1, 1, 1, 0}},
		{"pong", false, own, "10.9.0.254", 1, []byte{0}, nil},
		{"UDP", false, own, "10.9.0.254", 17, []byte{8}, nil},
		{"TCP", false, own, "10.9.0.254", 6, []byte{8}, nil},
		{"solicitation", true, solicited, "ff02::1:ff00:7", 58, []byte{135}, nil},
		{"advertisement", true, own, "fd09::fe", 58, []byte{136}, nil},
		{"router advertisement", false, own, "fd09::fe", 58, []byte{134}, nil},
		{"ping 6", true, own, "fd09::fe", 58, []byte{128}, nil},
		{"ping 6, link-local", false, own, "fe80::1", 58, []byte{128}, nil},
		{"MLD", true, solicited, "ff02::1", 0, []byte{58, 0, 5, 2, 0, 0, 1, 0, 130}, nil},
		{"other hop-by-hop", false, own, "fd09::fe", 0, []byte{17, 0}, nil},
		{"TCP 6", false, own, "fd09::fe", 6, []byte{135}, nil},
	} {
		add(x.name, x.heard, func(f *onWire) { f.ip(x.dst, x.to, x.protocol, x.payload, x.options...) })
	}
	return all
}

// TestListener checks that a listener receives the frames that management serves, unchanged and of its VLAN only, and
// nothing else; and that the interface is in the groups while it listens.
func TestListener(t *testing.T) {
	netdev := sharedInterface(t)
	for _, vlan := range []uint16{0, 300} { // no t.Run, whose goroutine would be elsewhere
		hearsItsOwn(t, netdev, vlan)
	}
}

// sharedInterface puts the test in a network namespace of its own, with the interface shared whose other end is wire.
func sharedInterface(t *testing.T) *net.Interface {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: a network namespace and packet sockets")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test's goroutine, and the namespace with it
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	shell(t, "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1")
	// A link that the kernel has not seen come up yet drops what is sent.
	shell(t, "ip link add wire type veth peer name shared && ip link set wire up && ip link set shared up"+
		" && until ip link show wire | grep -q 'state UP' && ip link show shared | grep -q 'state UP'; do sleep .01; done")
	netdev, err := net.InterfaceByName("shared")
	if err != nil {
		t.Fatal(err)
	}
	return netdev
}

func hearsItsOwn(t *testing.T, netdev *net.Interface, vlan uint16) {
	t.Helper()
	group := frame.GroupMAC(netip.MustParseAddr("239.1.2.3"))
	l, err := listen(netdev, vlan, 1500, false, [][6]byte{group})
	if err != nil {
		t.Fatal(err)
	}
	if in := shell(t, "ip maddress show dev shared"); !strings.Contains(in, group.String()) {
		t.Errorf("the interface is in none of the groups: %s", in)
	}
	var want []string
	for _, f := range wireFrames(frame.MAC(netdev.HardwareAddr)) {
		for _, tag := range []uint16{0, 300, 301} {
			sendOn(t, "wire", tagged(f.frame, tag))
		}
		sendOn(t, "shared", tagged(f.frame, vlan)) // what this host itself sends
		if f.heard {
			want = append(want, string(tagged(f.frame, vlan)))
		}
	}
	if got := receives(l, len(want)); !slices.Equal(got, want) {
		t.Errorf("VLAN %d: received %q, want %q, each as it was sent", vlan, names(got), names(want))
	}
	for _, all := range []bool{true, false, true} {
		if err := l.followAll(all); err != nil || strings.Contains(shell(t, "ip -d link show shared"), "allmulti 1 ") != all {
			t.Errorf("all groups %t: %v, %s", all, err, shell(t, "ip -d link show shared"))
		}
	}
	if err := l.close(); err != nil {
		t.Error(err)
	}
	if in := shell(t, "ip -d link show shared"); !strings.Contains(in, "allmulti 0 ") {
		t.Errorf("the interface is still in all groups: %s", in)
	}
	if in := shell(t, "ip maddress show dev shared"); strings.Contains(in, group.String()) {
		t.Errorf("the interface is still in the group: %s", in)
	}
}

// TestListenerMisses checks that frames that management has not taken in time are among those that the port has missed
// while the bridge runs, each once.
func TestListenerMisses(t *testing.T) {
	sharedInterface(t)
	said, err := task(t, "misses")
	if err != nil {
		t.Error(err)
	}
	t.Log(said)
}

// taskMisses floods a listener that nobody reads.
func taskMisses() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	netdev, err := net.InterfaceByName("shared")
	if err != nil {
		return "", err
	}
	l, err := listen(netdev, 0, 1500, false, nil)
	if err != nil {
		return "", err
	}
	h.ethernet[0].setListeners([]*listener{l})
	h.teardown.add(l.close)
	var f onWire
	f.ethernet(frame.Broadcast, frame.TypeARP, make([]byte, 1000))
	missed := func() uint64 { s, _ := h.Ethernet(); return s.RxMissed }
	const flood = 1000 // some ten times what the socket holds
	var before uint64
	for range 2 {
		if err := putOn("wire", f.frame, flood); err != nil {
			return "", err
		}
		now := missed()
		if now < before+flood/2 || now > before+flood || missed() != now {
			return "", fmt.Errorf("%d frames are missed, %d before, of %d more", now, before, flood)
		}
		before = now
	}
	return fmt.Sprintf("%d of %d frames missed", before, 2*flood), h.Close()
}

// names returns the names at the ends of frames.
func names(frames []string) (names []string) {
	for _, f := range frames {
		names = append(names, f[strings.LastIndexByte(f, 0)+1:])
	}
	return names
}

// receives takes n frames from a listener, and what comes within a short time after.
func receives(l *listener, n int) []string {
	var got []string
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(time.Millisecond) {
		before := len(got)
		for _, punted := range l.take(0) {
			got = append(got, string(punted.Data))
		}
		if before < n && len(got) >= n {
			until = time.Now().Add(100 * time.Millisecond)
		}
	}
	return got
}

func tagged(b []byte, vlan uint16) []byte {
	if vlan == 0 {
		return b
	}
	return slices.Concat(b[:12], []byte{0x81, 0, byte(vlan >> 8), byte(vlan)}, b[12:])
}

func sendOn(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := putOn(name, b, 1); err != nil {
		t.Fatal(err)
	}
}

// putOn sends a frame n times.
func putOn(name string, b []byte, n int) error {
	netdev, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for range n {
		if err := unix.Sendto(fd, b, 0, &unix.SockaddrLinklayer{Ifindex: netdev.Index}); err != nil {
			return err
		}
	}
	return nil
}

func shell(t *testing.T, command string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	return string(out)
}

// SPDX-License-Identifier: Apache-2.0

package ipoib

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"causeway/ibside/ib"
)

// inside is set in the process that runs the tests in a network namespace of its own.
const inside = "CAUSEWAY_IPOIB_TEST"

// ownNamespace runs the test again, in a network namespace of its own. It reports true there.
func ownNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) != "" {
		return true
	}
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a network namespace and a tap in it")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// A link is a network interface and the other end of its cable. It is Ethernet, because no interface in software has
// IPoIB's addresses; the kernel's ARP and its table of neighbours are the same.
type link struct {
	t   *testing.T
	tap *os.File
	mu  sync.Mutex
	arp map[netip.Addr][macLen]byte // who answers
}

const (
	macLen      = 6
	ethernetLen = 14
)

// newLink makes ib0 with an address.
func newLink(t *testing.T, address string) *link {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no taps: %v", err)
	}
	request, err := unix.NewIfreq("ib0")
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		t.Fatal(err)
	}
	l := &link{t: t, tap: os.NewFile(uintptr(fd), "tap"), arp: map[netip.Addr][macLen]byte{}}
	t.Cleanup(func() { _ = l.tap.Close() })
	sh(t, "ip link set lo up; ip address add "+address+" dev ib0; "+
		"sysctl -qw net.ipv4.neigh.ib0.retrans_time_ms=50 net.ipv4.neigh.ib0.base_reachable_time_ms=60000; ip link set ib0 up")
	go l.answer()
	return l
}

// sh runs commands.
func sh(t *testing.T, script string) {
	t.Helper()
	if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// set gives an address to a GUID; 0: nobody has it any more.
func (l *link) set(ip string, guid byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if guid == 0 {
		delete(l.arp, netip.MustParseAddr(ip))
		return
	}
	l.arp[netip.MustParseAddr(ip)] = hardware(guid)
}

// hardware is the MAC address that stands for the port fe80::N, and portOf the reverse.
func hardware(guid byte) [macLen]byte { return [macLen]byte{2, 0, 0, 0, 0, guid} }

func portOf(a net.HardwareAddr) (ib.GID, bool) {
	if len(a) != macLen {
		return ib.GID{}, false
	}
	return ib.GIDFromGUID(0xfe80<<48, ib.GUID(a[macLen-1])), true
}

// answer answers ARP requests (RFC 826) with the addresses of GUIDs.
func (l *link) answer() {
	const fixed, ipLen, request, reply = 8, 4, 1, 2
	const sha, spa, tha, tpa, end = fixed, fixed + macLen, fixed + macLen + ipLen, fixed + 2*macLen + ipLen, fixed + 2*macLen + 2*ipLen
	b := make([]byte, 2048)
	for {
		n, err := l.tap.Read(b)
		if err != nil {
			return
		}
		f := b[:n]
		if n < ethernetLen+end || f[12] != 8 || f[13] != 6 || f[ethernetLen+7] != request {
			continue
		}
		p := f[ethernetLen:]
		asked := netip.AddrFrom4([4]byte(p[tpa:]))
		l.mu.Lock()
		owner, has := l.arp[asked]
		l.mu.Unlock()
		if !has || f[0]&1 == 0 && [macLen]byte(f) != owner { // nobody, or another one is asked
			continue
		}
		out := append([]byte(nil), f[:ethernetLen+end]...)
		copy(out[0:macLen], f[macLen:2*macLen])
		copy(out[macLen:2*macLen], owner[:])
		q := out[ethernetLen:]
		q[7] = reply
		copy(q[tha:], p[sha:sha+macLen+ipLen])
		copy(q[sha:], owner[:])
		copy(q[spa:], p[tpa:tpa+ipLen])
		if _, err := l.tap.Write(out); err != nil {
			return
		}
	}
}

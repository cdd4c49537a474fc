// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/vishvananda/netns"

	"causeway/config"
)

// A testbed is three network namespaces: a node, the bridge's machine, where ib0 leads to the node and eth1 to the RoCE
// host, and the RoCE host.
type testbed struct {
	t    *testing.T
	name string // of the namespaces, with a suffix each

	translated bool // what is 10.9.0.0/24 here is 10.8.0.0/24 on the RoCE side
}

// testbeds counts them: tests that wait for a kernel's timers do so beside each other.
var testbeds atomic.Int32

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // they wait more than they compute
	os.Exit(m.Run())
}

func newTestbed(t *testing.T) *testbed {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to make network namespaces")
	}
	h := &testbed{t: t, name: fmt.Sprintf("doctor%d-%d", os.Getpid(), testbeds.Add(1))}
	for _, part := range []string{"node", "bridge", "roce"} {
		h.sh("", "ip netns add "+h.name+part)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", h.name+part).Run() })
	}
	h.sh("bridge", fmt.Sprintf(`ip link add ib0 type veth peer name ib0 netns %[1]snode
		ip link add eth1 type veth peer name eth1 netns %[1]sroce
		ip link set lo up; ip link set ib0 up; ip link set eth1 up`, h.name))
	h.sh("node", "ip link set ib0 up; ip address add 10.9.0.7/24 dev ib0; ip address add fd09::7/64 dev ib0 nodad")
	h.sh("roce", "ip link set eth1 up; ip address add 10.9.0.1/24 dev eth1; ip address add fd09::1/64 dev eth1 nodad")
	return h
}

// sh runs commands in one of the namespaces, and returns what they print.
func (h *testbed) sh(part, script string) string {
	h.t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	if part != "" {
		cmd = exec.Command("ip", "netns", "exec", h.name+part, "sh", "-ec", script)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s: %s: %v\n%s", part, script, err, out)
	}
	return string(out)
}

// examine looks at the bridge's machine, from within its namespace, for how nodes find RoCE hosts.
func (h *testbed) examine() Findings {
	h.t.Helper()
	edits := []string{"mtu = 4200", "mtu = 1500"}
	if h.translated {
		edits = append(edits, elsewhere...)
	}
	return h.look(load(h.t, edits...), Sources{Sys: fstest.MapFS{}, Proc: fstest.MapFS{}, Root: fstest.MapFS{}, Netdev: "ib0"}).of("ipoib")
}

// look examines from within the bridge's namespace. Without a sysfs it takes the namespace's own.
func (h *testbed) look(c *config.Config, m Sources) (found Findings) {
	h.t.Helper()
	m.Kernel, m.Process = Live{Proc: os.DirFS("/proc/sys")}, &body{}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends in the namespace
		ns, err := netns.GetFromName(h.name + "bridge")
		if err == nil {
			defer ns.Close()
			err = netns.Set(ns)
		}
		if err == nil && m.Sys == nil {
			var unmount func()
			if m.Sys, unmount, err = OpenSysfs(); err == nil {
				defer unmount()
			}
		}
		if err == nil {
			found = Examine(c, m)
		}
		done <- err
	}()
	if err := <-done; err != nil {
		h.t.Fatal(err)
	}
	return found
}

// TestFixesWorkOnRoCESide applies what is printed of a real interface, and wants nothing left to say.
func TestFixesWorkOnRoCESide(t *testing.T) {
	t.Parallel()
	h := newTestbed(t)
	h.sh("bridge", "ip address add 10.9.0.254/24 dev eth1; ip link set eth1 down")
	c := load(t, "mlx5_0:1", "fabric:")
	examine := func() Findings {
		found := h.look(c, Sources{Proc: fstest.MapFS{}, Root: fstest.MapFS{}})
		return append(found.of("mtu"), found.of("roce")...)
	}
	var b bytes.Buffer
	if err := examine().WriteFixes(&b); err != nil {
		t.Fatal(err)
	}
	if want := "ip link set eth1 mtu 4200\nip link set eth1 up\nip address del 10.9.0.254/24 dev eth1\n"; b.String() != want {
		t.Fatalf("mended by\n%s\nwant\n%s", &b, want)
	}
	h.sh("bridge", b.String())
	b.Reset()
	if found := examine(); !found.fine() || len(found) < 4 || found.WriteText(&b, true) != nil {
		t.Errorf("after its own commands:\n%s", &b)
	}
}

// asks has the node's kernel ask for an address, and returns which MAC address answers; "" when none does.
func (h *testbed) asks(ip string) string {
	h.t.Helper()
	h.sh("node", "ip neigh flush dev ib0; ip neigh add "+ip+" dev ib0 nud none 2>/dev/null || true; ip neigh replace "+ip+" dev ib0 use nud none 2>/dev/null || true")
	for range 12 {
		time.Sleep(50 * time.Millisecond)
		fields := strings.Fields(h.sh("node", "ip neigh show "+ip+" dev ib0"))
		for i, f := range fields {
			if f == "lladdr" && fields[len(fields)-1] != "FAILED" {
				return fields[i+1]
			}
		}
	}
	return ""
}

// answered asks until somebody answers: an address of the interface's own takes two seconds to be sure of (RFC 4862
// §5.4).
func (h *testbed) answered(ip string) string {
	h.t.Helper()
	for range 8 {
		if got := h.asks(ip); got != "" {
			return got
		}
	}
	return ""
}

// TestFixesWorkOnKernel applies what is printed, and wants nothing left to say, the node's questions answered by the
// bridge's kernel, and only then.
func TestFixesWorkOnKernel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, before string }{
		{"nothing set up", ""},
		// Not every kernel that runs tests has dummy interfaces; one that is there already is as good.
		{"other addresses on InfiniBand", "ip link add causeway0 type veth peer name causeway1; ip link set causeway0 up; ip link set causeway1 up"},
		{"one subnet on both sides", "ip address add 10.9.0.253/24 dev ib0; ip address add 10.9.0.252/24 dev eth1"},
		{"strict", "sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.all.arp_ignore=3"},
		{"down", "ip link set ib0 down"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newTestbed(t)
			h.translated = strings.HasPrefix(c.name, "other addresses")
			h.sh("bridge", c.before)
			mac := strings.TrimSpace(h.sh("bridge", "cat /sys/class/net/ib0/address"))
			for _, ip := range []string{"10.9.0.1", "fd09::1"} {
				if got := h.asks(ip); got != "" {
					t.Fatalf("%s is answered by %s before", ip, got)
				}
			}
			for round := range 3 {
				found := h.examine()
				if found.fine() {
					if round == 0 {
						t.Fatal("all is well before")
					}
					break
				}
				var b bytes.Buffer
				if err := found.WriteFixes(&b); err != nil {
					t.Fatal(err)
				}
				h.sh("bridge", strings.ReplaceAll(b.String(), "ip route get", ": ip route get"))
			}
			if found := h.examine(); !found.fine() {
				var b bytes.Buffer
				_ = found.WriteText(&b, false)
				t.Errorf("after its own commands:\n%s", &b)
			}
			for _, ip := range []string{"10.9.0.1", "fd09::1"} {
				if got := h.answered(ip); got != mac {
					t.Errorf("%s is answered by %q, want %q", ip, got, mac)
				}
			}
			if got := h.asks("10.9.0.8"); got != "" {
				t.Errorf("a node's address is answered by %q", got)
			}
		})
	}
}

// TestEachConditionCounts takes from a mended machine one thing after the other, and wants the doctor to say so
// wherever the kernel falls silent.
func TestEachConditionCounts(t *testing.T) {
	t.Parallel()
	h := newTestbed(t)
	for !h.examine().fine() {
		var b bytes.Buffer
		if err := h.examine().WriteFixes(&b); err != nil {
			t.Fatal(err)
		}
		h.sh("bridge", strings.ReplaceAll(b.String(), "ip route get", ": ip route get"))
	}
	for _, c := range []struct{ name, ip, undo, redo string }{
		{"forwarding", "10.9.0.1", "sysctl -qw net.ipv4.conf.ib0.forwarding=0", "sysctl -qw net.ipv4.conf.ib0.forwarding=1"},
		{"proxy_arp", "10.9.0.1", "sysctl -qw net.ipv4.conf.ib0.proxy_arp=0", "sysctl -qw net.ipv4.conf.ib0.proxy_arp=1"},
		{"medium_id", "10.9.0.1", "sysctl -qw net.ipv4.conf.ib0.medium_id=-1", "sysctl -qw net.ipv4.conf.ib0.medium_id=0"},
		{"roce_routes", "10.9.0.1", "ip route replace 10.9.0.0/24 dev ib0", "ip route replace 10.9.0.0/24 dev eth1"},
		{"rp_filter", "10.9.0.1", "sysctl -qw net.ipv4.conf.ib0.rp_filter=1; ip route del 10.9.0.7/32 dev ib0",
			"sysctl -qw net.ipv4.conf.ib0.rp_filter=0; ip route add 10.9.0.7/32 dev ib0"},
		{"forwarding", "fd09::1", "sysctl -qw net.ipv6.conf.ib0.forwarding=0", "sysctl -qw net.ipv6.conf.ib0.forwarding=1"},
		{"proxy_ndp", "fd09::1", "sysctl -qw net.ipv6.conf.ib0.proxy_ndp=0", "sysctl -qw net.ipv6.conf.ib0.proxy_ndp=1"},
		{"nd_entries", "fd09::1", "ip -6 neigh del proxy fd09::1 dev ib0", "ip -6 neigh add proxy fd09::1 dev ib0"},
	} {
		h.sh("bridge", c.undo)
		said := false
		for _, f := range h.examine() {
			said = said || f.Check == c.name && f.Verdict == Fail
		}
		if got := h.asks(c.ip); got != "" || !said {
			t.Errorf("without %s %s is answered by %q; the doctor says so: %v", c.name, c.ip, got, said)
		}
		h.sh("bridge", c.redo)
		if got := h.answered(c.ip); got == "" || !h.examine().fine() {
			t.Errorf("with %s again %s is answered by %q", c.name, c.ip, got)
		}
	}
}

// datagramsAt counts the datagrams of the RoCE host that reach a port of the node, where nobody listens.
func (h *testbed) datagramsAt(ip string, port int) int {
	h.t.Helper()
	unread := "cat /proc/net/snmp /proc/net/snmp6 | awk '$1 == \"Udp:\" && $3 + 0 > 0 {n += $3} $1 == \"Udp6NoPorts\" {n += $2} END {print n + 0}'"
	count := func() (n int) {
		if _, err := fmt.Sscan(h.sh("node", unread), &n); err != nil {
			h.t.Fatal(err)
		}
		return n
	}
	before := count()
	h.sh("roce", fmt.Sprintf("bash -c 'for i in 1 2 3; do echo x >/dev/udp/%s/%d; sleep 0.05; done' 2>/dev/null || true", ip, port))
	return count() - before
}

// TestPlainIP applies what is printed, once, to a machine without IPv6 on the RoCE side; then the node and the RoCE
// host ping each other, and what the RoCE host sends by RoCE is not forwarded. The bridge's answers to the RoCE host
// are neighbour entries here.
func TestPlainIP(t *testing.T) {
	t.Parallel()
	h := newTestbed(t)
	h.sh("bridge", "sysctl -qw net.ipv6.conf.eth1.disable_ipv6=1; ip address add 10.9.0.253/24 dev ib0; ip address add fd09::fd/64 dev ib0 nodad")
	mac := strings.TrimSpace(h.sh("bridge", "cat /sys/class/net/eth1/address"))
	for _, ip := range []string{"10.9.0.7", "fd09::7"} {
		h.sh("roce", "ip neigh replace "+ip+" lladdr "+mac+" dev eth1")
	}
	var b bytes.Buffer
	if err := h.examine().WriteFixes(&b); err != nil {
		t.Fatal(err)
	}
	h.sh("bridge", b.String())
	for _, way := range [][2]string{{"node", "10.9.0.1"}, {"roce", "10.9.0.7"}, {"node", "fd09::1"}, {"roce", "fd09::7"}} {
		h.sh(way[0], "for i in 1 2 3 4 5; do busybox ping -c 1 -W 1 "+way[1]+" && exit; done; exit 1")
	}
	for _, ip := range []string{"10.9.0.7", "fd09::7"} {
		if roce, other := h.datagramsAt(ip, 4791), h.datagramsAt(ip, 4790); roce != 0 || other == 0 {
			t.Errorf("%s received %d datagrams at RoCE's port and %d at another", ip, roce, other)
		}
	}
	if found := h.examine(); !found.fine() {
		b.Reset()
		_ = found.WriteText(&b, false)
		t.Errorf("after its own commands:\n%s", &b)
	}
}

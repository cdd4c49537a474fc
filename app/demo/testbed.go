// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"causeway/app/bridge"
	"causeway/config"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

const (
	mtu       = 4200   // carries InfiniBand's 4096
	port      = "dut0" // what Causeway opens
	subnetGID = 0xfe80_0000_0000_0000
)

var (
	nodeNames = [...]string{"echo", "listen"}
	toIB      = netip.MustParseAddr("239.1.2.3") // the group that a host publishes to
	toRoCE    = netip.MustParseAddr("239.1.2.4") // the group that a node publishes to
)

func nodeGUID(i int) ib.GUID         { return ib.GUID(0x0002_c903_0000_0007 + uint64(i)) }
func nodeGID(i int) ib.GID           { return ib.GIDFromGUID(subnetGID, nodeGUID(i)) }
func nodeIP4(i int) netip.Addr       { return netip.AddrFrom4([4]byte{10, 9, 0, byte(7 + i)}) }
func nodeIP6(i int) netip.Addr       { return netip.MustParseAddr(fmt.Sprintf("fd09::%d", 7+i)) }
func hostIP4(i int) netip.Addr       { return netip.AddrFrom4([4]byte{10, 9, 0, byte(1 + i)}) }
func hostIP6(i int) netip.Addr       { return netip.MustParseAddr(fmt.Sprintf("fd09::%d", 1+i)) }
func mgidOf(group netip.Addr) ib.GID { return ib.MGIDRDMACM(group, ib.PKeyDefault, 2) }

// A testbed is everything around the bridge. Its network namespaces have no names, so they disappear with the process,
// however it ends.
type testbed struct {
	wires  netns.NsHandle // the switch, and Causeway's port
	hosts  []*host
	subnet *fabric.Fabric
	nodes  []*fabric.Node
	undo   []func() error
	notes  []string // remarks for the output

	onListen atomic.Pointer[func(*fabric.Received)] // called for each message that the listener receives
}

func (tb *testbed) onClose(f func() error) { tb.undo = append(tb.undo, f) }

func (tb *testbed) close() error {
	var errs []error
	for i := len(tb.undo) - 1; i >= 0; i-- {
		errs = append(errs, tb.undo[i]())
	}
	return errors.Join(errs...)
}

func newTestbed(pcapDir string) (*testbed, error) {
	tb := &testbed{}
	roce, ibFile, err := captures(pcapDir)
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		tb.makeWires,
		func() error { return tb.makeHosts(newNamespace, newNamespace) },
		func() error { return tb.startCapture(roce) },
		func() error { return tb.makeSubnet(ibFile) },
	} {
		if err := step(); err != nil {
			return nil, errors.Join(fmt.Errorf("demo: %w", err), tb.close())
		}
	}
	return tb, nil
}

// in runs f in a network namespace, on a thread that is locked meanwhile.
func in(ns netns.NsHandle, f func() error) error {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() { _ = home.Close() }() // only read
	if err := netns.Set(ns); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	err = f()
	if back := netns.Set(home); back != nil {
		return errors.Join(err, back) // the thread is in the wrong namespace: it stays locked and ends with its goroutine
	}
	runtime.UnlockOSThread()
	return err
}

// newNamespace makes a network namespace. The caller stays in its own.
func newNamespace() (ns netns.NsHandle, err error) {
	home, err := netns.Get()
	if err != nil {
		return ns, err
	}
	defer func() { _ = home.Close() }()
	err = in(home, func() error { ns, err = netns.New(); return err })
	return ns, err
}

// makeWires makes the switch and Causeway's port on it. The switch floods multicast, because there is no querier.
func (tb *testbed) makeWires() (err error) {
	if tb.wires, err = newNamespace(); err != nil {
		return fmt.Errorf("make a network namespace: %w; is the process allowed to?", err)
	}
	tb.onClose(tb.wires.Close)
	return in(tb.wires, func() error {
		// The switch needs no IPv6 addresses. (/proc/sys/net is that of the thread's namespace.) In containers, where
		// the file cannot be written, it has some, which do no harm.
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
		snooping := false
		br := &netlink.Bridge{LinkAttrs: attrs("br0"), MulticastSnooping: &snooping}
		if err := errors.Join(netlink.LinkAdd(br), netlink.LinkSetUp(br)); err != nil {
			return fmt.Errorf("make a bridge: %w", err)
		}
		return plug(br, port, "dut1")
	})
}

func attrs(name string) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name, a.MTU = name, mtu
	return a
}

// plug makes a veth pair and connects its far end to the switch.
func plug(br netlink.Link, near, far string) error {
	a := attrs(near)
	v := &netlink.Veth{LinkAttrs: a, PeerName: far, PeerMTU: mtu}
	if err := netlink.LinkAdd(v); err != nil {
		return fmt.Errorf("make a veth pair: %w", err)
	}
	peer, err := netlink.LinkByName(far)
	if err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetMaster(peer, br), netlink.LinkSetUp(peer), netlink.LinkSetUp(v))
}

// makeHosts makes a host in a new namespace from each function.
func (tb *testbed) makeHosts(namespaces ...func() (netns.NsHandle, error)) error {
	for i, make := range namespaces {
		ns, err := make()
		if err != nil {
			return err
		}
		tb.onClose(ns.Close)
		ip6, err := tb.connect(ns, i)
		if err != nil {
			return err
		}
		h, err := newHost(fmt.Sprintf("host%d", i+1), ns, hostIP4(i), ip6)
		if err != nil {
			return err
		}
		tb.hosts = append(tb.hosts, h)
		tb.onClose(h.close)
	}
	return nil
}

// connect makes a host's interface and returns its IPv6 address; the zero Addr without IPv6.
func (tb *testbed) connect(ns netns.NsHandle, i int) (ip6 netip.Addr, err error) {
	near := fmt.Sprintf("h%d", i+1)
	err = in(tb.wires, func() error {
		br, err := netlink.LinkByName("br0")
		if err != nil {
			return err
		}
		if err := plug(br, near, near+"p"); err != nil {
			return err
		}
		l, err := netlink.LinkByName(near)
		if err != nil {
			return err
		}
		return netlink.LinkSetNsFd(l, int(ns))
	})
	if err != nil {
		return ip6, err
	}
	err = in(ns, func() error {
		l, err := netlink.LinkByName(near)
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(l, address(hostIP6(i), 64)); err == nil {
			ip6 = hostIP6(i)
		} else if err := tb.withoutIPv6(i, err); err != nil {
			return err
		}
		return errors.Join(
			netlink.LinkSetName(l, "eth0"),
			netlink.AddrAdd(l, address(hostIP4(i), 24)),
			netlink.LinkSetUp(l),
			addRoute(l, "224.0.0.0/4"),
		)
	})
	return ip6, err
}

const noIPv6 = "IPv6 is disabled on this machine: the IPv6 flow is left out"

// withoutIPv6 notes that a host has no IPv6, if that is what the kernel says: IPv6 is disabled in the
// namespace (EACCES), or in the kernel.
func (tb *testbed) withoutIPv6(i int, err error) error {
	for _, disabled := range []error{unix.EACCES, unix.EAFNOSUPPORT, unix.EOPNOTSUPP} {
		if errors.Is(err, disabled) {
			if !slices.Contains(tb.notes, noIPv6) {
				tb.notes = append(tb.notes, noIPv6)
			}
			return nil
		}
	}
	return fmt.Errorf("give host%d its IPv6 address: %w", i+1, err)
}

// address returns an address that is usable at once, without duplicate address detection.
func address(ip netip.Addr, bits int) *netlink.Addr {
	a, err := netlink.ParseAddr(netip.PrefixFrom(ip, bits).String())
	if err != nil {
		panic(err) // the addresses are constants
	}
	if ip.Is6() {
		a.Flags = noDAD
	}
	return a
}

const noDAD = 0x02 // IFA_F_NODAD, linux/if_addr.h

func addRoute(l netlink.Link, to string) error {
	dst, err := netlink.ParseIPNet(to)
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: dst, Scope: netlink.SCOPE_LINK})
}

// makeSubnet makes the InfiniBand side: an echo node, and a node that listens to the first group.
func (tb *testbed) makeSubnet(capture string) (err error) {
	if tb.subnet, err = fabric.New(fabric.Config{CaptureFile: capture}); err != nil {
		return err
	}
	tb.onClose(tb.subnet.Close)
	for i, groups := range [][]fabric.GroupConfig{{}, {{MGID: mgidOf(toIB), QKey: ib.QKeyRDMAUDP}}} {
		n, err := tb.node(i, fabric.Role(nodeNames[i]), groups...)
		if err != nil {
			return err
		}
		tb.nodes = append(tb.nodes, n)
		tb.onClose(n.Close)
	}
	return nil
}

// configFile returns the demonstration's configuration file.
func configFile() string {
	var b strings.Builder
	fmt.Fprintf(&b, `[bridge]
name = "demo"
[roce]
port      = "af_packet:%s"
addresses = ["10.9.0.254/24", "fd09::fe/64"]
mtu       = %d
[ib]
port = "fabric:"
[workers]
lcores     = [%d]
idle       = "sleep"
memory_mib = 256
mbufs      = 16384
[policy]
allow = ["10.9.0.0/24", "fd09::/64"]
`, port, mtu, lastCPU())
	for i := range nodeNames {
		fmt.Fprintf(&b, "[[host]] # %s\nip = %q\nip6 = %q\nside = \"ib\"\ngid = %q\n", nodeNames[i], nodeIP4(i), nodeIP6(i), nodeGID(i))
	}
	for group, direction := range map[netip.Addr]string{toIB: "to-ib", toRoCE: "to-roce"} {
		fmt.Fprintf(&b, "[[group]]\nip = %q\nmgid = \"rdmacm\"\ndirection = %q\n", group, direction)
	}
	return b.String()
}

// lastCPU returns the last CPU that the process may use, for the worker: other load is mostly on the first ones.
func lastCPU() int {
	last := 0
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return last
	}
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			last = cpu
		}
	}
	return last
}

// build builds the bridge.
func (tb *testbed) build(log *slog.Logger) (*bridge.Bridge, error) {
	cfg, err := config.Parse("demo", []byte(configFile()))
	if err != nil {
		return nil, err
	}
	tb.notes = append(tb.notes, "DPDK runs on ordinary memory (--no-huge), which needs no setup; hugepages are faster")
	return bridge.Build(cfg, bridge.Options{
		Log: log, Subnet: tb.subnet, NoHuge: true,
		Around: func(open func() error) error { return in(tb.wires, open) },
	})
}

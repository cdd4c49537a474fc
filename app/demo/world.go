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

	"causeway/app/house"
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

// A world is all that is around the bridge. Its namespaces have no names: they go with the process, however
// it ends.
type world struct {
	wires  netns.NsHandle // the switch, and Causeway's port
	hosts  []*host
	subnet *fabric.Fabric
	nodes  []*fabric.Node
	undo   []func() error
	notes  []string // what is other than usual, and why

	onListen atomic.Pointer[func(*fabric.Received)] // what the listener does with a message
}

func (w *world) onClose(f func() error) { w.undo = append(w.undo, f) }

func (w *world) close() error {
	var errs []error
	for i := len(w.undo) - 1; i >= 0; i-- {
		errs = append(errs, w.undo[i]())
	}
	return errors.Join(errs...)
}

func newWorld(pcapDir string) (*world, error) {
	w := &world{}
	roce, ibFile, err := captures(pcapDir)
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		w.makeWires,
		func() error { return w.makeHosts(newNamespace, newNamespace) },
		func() error { return w.startCapture(roce) },
		func() error { return w.makeSubnet(ibFile) },
	} {
		if err := step(); err != nil {
			return nil, errors.Join(fmt.Errorf("demo: %w", err), w.close())
		}
	}
	return w, nil
}

// in runs f in a network namespace, on a thread that does nothing else meanwhile.
func in(ns netns.NsHandle, f func() error) error {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() { _ = home.Close() }() // a handle to read
	if err := netns.Set(ns); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	err = f()
	if back := netns.Set(home); back != nil {
		return errors.Join(err, back) // the thread stays locked and dies with its goroutine: it is in the wrong place
	}
	runtime.UnlockOSThread()
	return err
}

// newNamespace makes one, without moving there.
func newNamespace() (ns netns.NsHandle, err error) {
	home, err := netns.Get()
	if err != nil {
		return ns, err
	}
	defer func() { _ = home.Close() }()
	err = in(home, func() error { ns, err = netns.New(); return err })
	return ns, err
}

// makeWires makes the switch and Causeway's port on it. The switch floods multicast: nobody there queries.
func (w *world) makeWires() (err error) {
	if w.wires, err = newNamespace(); err != nil {
		return fmt.Errorf("make a network namespace: %w; is the process allowed to?", err)
	}
	w.onClose(w.wires.Close)
	return in(w.wires, func() error {
		// The switch is no host. (A write to /proc/sys/net is one to the thread's own namespace.) Where the file
		// cannot be written, as in containers, the switch has IPv6 addresses that nobody asks for.
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

// plug makes a veth pair, and puts its far end into the switch.
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

// makeHosts makes a host in each of the namespaces that are made for them.
func (w *world) makeHosts(namespaces ...func() (netns.NsHandle, error)) error {
	for i, make := range namespaces {
		ns, err := make()
		if err != nil {
			return err
		}
		w.onClose(ns.Close)
		ip6, err := w.connect(ns, i)
		if err != nil {
			return err
		}
		h, err := newHost(fmt.Sprintf("host%d", i+1), ns, hostIP4(i), ip6)
		if err != nil {
			return err
		}
		w.hosts = append(w.hosts, h)
		w.onClose(h.close)
	}
	return nil
}

// connect gives a host its interface, and returns its IPv6 address: the zero Addr where the kernel has no IPv6.
func (w *world) connect(ns netns.NsHandle, i int) (ip6 netip.Addr, err error) {
	near := fmt.Sprintf("h%d", i+1)
	err = in(w.wires, func() error {
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
		} else if err := w.withoutIPv6(i, err); err != nil {
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
func (w *world) withoutIPv6(i int, err error) error {
	for _, disabled := range []error{unix.EACCES, unix.EAFNOSUPPORT, unix.EOPNOTSUPP} {
		if errors.Is(err, disabled) {
			if !slices.Contains(w.notes, noIPv6) {
				w.notes = append(w.notes, noIPv6)
			}
			return nil
		}
	}
	return fmt.Errorf("give host%d its IPv6 address: %w", i+1, err)
}

// address is used at once, without a search for duplicates.
func address(ip netip.Addr, bits int) *netlink.Addr {
	a, err := netlink.ParseAddr(netip.PrefixFrom(ip, bits).String())
	if err != nil {
		panic(err) // the addresses are ours
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

// makeSubnet makes the InfiniBand side: an echo, and a listener to the first group.
func (w *world) makeSubnet(capture string) (err error) {
	if w.subnet, err = fabric.New(fabric.Config{CaptureFile: capture}); err != nil {
		return err
	}
	w.onClose(w.subnet.Close)
	for i, groups := range [][]fabric.GroupConfig{{}, {{MGID: mgidOf(toIB), QKey: ib.QKeyRDMAUDP}}} {
		n, err := w.node(i, fabric.Role(nodeNames[i]), groups...)
		if err != nil {
			return err
		}
		w.nodes = append(w.nodes, n)
		w.onClose(n.Close)
	}
	return nil
}

// Config is the demonstration's configuration, as an operator would write it.
func Config() string {
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

// lastCPU is the last CPU that the process may use: the worker's. Most of what else runs is on the first ones.
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

// build builds the bridge between the two.
func (w *world) build(log *slog.Logger) (*house.House, error) {
	cfg, err := config.Parse("demo", []byte(Config()))
	if err != nil {
		return nil, err
	}
	w.notes = append(w.notes, "DPDK runs on ordinary memory (--no-huge), so that nothing must be set up; hugepages are faster")
	return house.Build(cfg, house.Options{
		Log: log, Subnet: w.subnet, NoHuge: true,
		Around: func(open func() error) error { return in(w.wires, open) },
	})
}

// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"causeway/app/bridge"
	"causeway/app/segment"
	"causeway/config"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

const (
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

// A testbed is everything around the bridge.
type testbed struct {
	segment *segment.Segment
	hosts   []*host
	subnet  *fabric.Fabric
	nodes   []*fabric.Node
	second  *secondFabric // nil: one fabric
	undo    []func() error
	notes   []string // remarks for the output

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

func newTestbed(pcapDir string, fabrics int) (*testbed, error) {
	tb := &testbed{}
	roce, ibFile, err := captures(pcapDir)
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		tb.makeSegment,
		func() error { return tb.makeHosts(segment.NewNamespace, segment.NewNamespace) },
		func() error { return tb.startCapture(roce) },
		func() error { return tb.makeSubnet(ibFile) },
		func() error {
			if fabrics < MostFabrics {
				return nil
			}
			return tb.makeSecond()
		},
	} {
		if err := step(); err != nil {
			return nil, errors.Join(fmt.Errorf("demo: %w", err), tb.close())
		}
	}
	return tb, nil
}

func (tb *testbed) makeSegment() (err error) {
	if tb.segment, err = segment.New(); err == nil {
		tb.onClose(tb.segment.Close)
	}
	return err
}

// makeHosts makes a host in a new namespace from each function.
func (tb *testbed) makeHosts(namespaces ...func() (netns.NsHandle, error)) error {
	for i, make := range namespaces {
		ns, err := make()
		if err != nil {
			return err
		}
		h, err := newHost(tb.segment, i, ns)
		if err != nil {
			return err
		}
		if !h.IP6.IsValid() && !slices.Contains(tb.notes, noIPv6) {
			tb.notes = append(tb.notes, noIPv6)
		}
		tb.hosts = append(tb.hosts, h)
		tb.onClose(h.Close)
	}
	return nil
}

const noIPv6 = "IPv6 is disabled on this machine: the IPv6 flow is left out"

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
func (tb *testbed) configFile() string {
	var b strings.Builder
	fmt.Fprintf(&b, `[bridge]
name = "`+bridgeName+`"
[roce]
port      = "af_packet:%s"
addresses = ["10.9.0.254/24", "fd09::fe/64"]
mtu       = %d
%s[workers]
lcores     = [%d]
idle       = "sleep"
memory_mib = 256
mbufs      = 16384
[policy]
allow = ["10.9.0.0/24", "fd09::/64"]
`, segment.Port, segment.MTU, tb.configTables(), lastCPU())
	for i := range nodeNames {
		fmt.Fprintf(&b, "[[host]] # %s\nip = %q\nip6 = %q\nside = \"ib\"\n%s\n", nodeNames[i], nodeIP4(i), nodeIP6(i), tb.gidText(i))
	}
	for group, direction := range map[netip.Addr]string{toIB: "to-ib", toRoCE: "to-roce"} {
		fmt.Fprintf(&b, "[[group]]\nip = %q\nmgid = \"rdmacm\"\ndirection = %q\n", group, direction)
	}
	return b.String()
}

// lastCPU returns the last CPU that the process may use, for the worker: other load is mostly on the first ones.
func lastCPU() int {
	all := usableCPUs()
	return all[len(all)-1]
}

// usableCPUs returns the CPUs that the process may use; the first one if that cannot be known.
func usableCPUs() (all []int) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return []int{0}
	}
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	return all
}

// build builds the bridge.
func (tb *testbed) build(log *slog.Logger) (*bridge.Bridge, error) {
	cfg, err := config.Parse("demo", []byte(tb.configFile()))
	if err != nil {
		return nil, err
	}
	tb.notes = append(tb.notes, "DPDK runs on ordinary memory (--no-huge), which needs no setup; hugepages are faster")
	return bridge.Build(cfg, bridge.Options{
		Log: log, Subnet: tb.subnet, MoreSubnets: tb.subnets(), NoHuge: true,
		Around: tb.segment.Do,
	})
}

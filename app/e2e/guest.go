// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"causeway/app/e2e/agent/client"
)

const (
	// bootWithin is generous: a guest takes half a second on an idle machine, and an emulated one 3 to 8 s.
	bootWithin = 90 * time.Second
	// guestMiB suffices for the unpacked initramfs (30 MiB) and the tools.
	guestMiB = 256
	// wireMTU is what taps and NICs can carry; guests choose below it.
	wireMTU = 9000
)

// NIC is an Ethernet interface of a guest, eth0, eth1 ... in order.
type NIC struct {
	MTU   int      // netdev MTU; 0 for 1500
	Addrs []string // addresses with prefix length
	RDMA  bool     // make an RDMA device on it: rxe0, rxe1 ... in order
	VLANs []VLAN
	// Segment is the one that the NIC is on: 0 is the segment that Causeway's own interface is on, 1 is the second one.
	Segment int
	// Mute keeps the kernel from sending anything of its own there.
	Mute bool
	// InfiniBand makes it the cable of an adapter with InfiniBand's link layer instead: on no segment, without MTU
	// and addresses of its own.
	InfiniBand *Adapter
}

// VLAN is an 802.1Q interface, named ethN.ID.
type VLAN struct {
	ID       int
	Priority int // PCP of the frames that it sends
	Addrs    []string
}

// GuestConfig describes a guest.
type GuestConfig struct {
	Name  string // also part of its taps' names: at most 8 letters
	NICs  []NIC
	Share string // a folder of this machine, /host in the guest; "" for none
	MiB   int    // memory; 0 for guestMiB

	// Container makes the guest processes of this machine, by its kernel: without NICs and RDMA devices, and as fast.
	Container bool

	// What follows is for QEMU's machine: see emulated.
	Emulated bool
	CPUs     int      // 0 for 1
	QEMU     []string // further arguments of QEMU
	Kernel   string   // further parameters of the kernel
}

// Guest is a running RoCE host.
type Guest struct {
	Name    string
	rig     *Rig
	machine *process // the kernel itself, QEMU, or the agent
	client  *client.Client
	console string // the file that keeps what it printed to its console

	emulated, container bool
}

// tap returns the name of the host's end of a guest's NIC.
func tap(guest string, nic int) string {
	if nic == 0 {
		return "tap" + guest
	}
	return fmt.Sprintf("tap%s.%d", guest, nic)
}

// mac is the same for the same guest and NIC in every run; 52:54:00 is QEMU's.
func mac(guest string, nic int) string {
	h := fnv.New32a()
	h.Write([]byte(guest))
	sum := h.Sum32()
	return fmt.Sprintf("52:54:00:%02x:%02x:%02x", byte(sum>>8), byte(sum), nic+1)
}

// StartGuest begins to boot a guest; Ready waits for it. Several can boot at
// a time.
func (r *Rig) StartGuest(c GuestConfig) (*Guest, error) {
	for i, nic := range c.NICs {
		if nic.InfiniBand != nil {
			continue
		}
		if err := r.addTap(tap(c.Name, i), segments[nic.Segment]); err != nil {
			return nil, err
		}
	}
	g := &Guest{Name: c.Name, rig: r, console: r.file(c.Name + ".console"), emulated: r.emulated(c), container: c.Container}
	start := r.startKernel
	switch {
	case g.container:
		start = r.startContainer
	case g.emulated:
		start = r.startQEMU
	}
	machine, conn, err := start(c, g.console)
	if err != nil {
		return nil, fmt.Errorf("guest %s: %w", c.Name, err)
	}
	g.machine, g.client = machine, client.New(conn)
	r.guests = append(r.guests, g)
	return g, nil
}

// Ready waits until the guest answers, and then gives it its interfaces.
func (g *Guest) Ready(ctx context.Context, c GuestConfig) error {
	ctx, cancel := context.WithTimeout(ctx, bootWithin)
	defer cancel()
	if err := g.client.Ready(ctx); err != nil {
		return fmt.Errorf("guest %s: %w; its console:\n%s", g.Name, err, g.Console())
	}
	return g.Must(ctx, setUp(c))
}

// setUp returns the shell commands that make a guest's interfaces.
func setUp(c GuestConfig) string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line("set -e; hostname %s", c.Name)
	quiet := func(dev string) {
		line("for f in accept_dad router_solicitations; do echo 0 >/proc/sys/net/ipv6/conf/%s/$f; done", dev)
	}
	rxe := 0
	for i, nic := range c.NICs {
		dev := fmt.Sprintf("eth%d", i)
		if nic.InfiniBand != nil {
			continue
		}
		quiet(dev)
		if nic.Mute {
			line("echo 1 >/proc/sys/net/ipv6/conf/%s/disable_ipv6", dev)
		}
		line("ip link set %s up mtu %d", dev, cmp.Or(nic.MTU, 1500))
		for _, a := range nic.Addrs {
			line("ip addr add %s dev %s", a, dev)
		}
		if nic.RDMA {
			b.WriteString(addDevice(fmt.Sprintf("rxe%d", rxe), dev))
			rxe++
		}
		for _, v := range nic.VLANs {
			name := fmt.Sprintf("%s.%d", dev, v.ID)
			line("ip link add link %s name %s type vlan id %d egress-qos-map 0:%d", dev, name, v.ID, v.Priority)
			quiet(name)
			line("ip link set %s up", name)
			for _, a := range v.Addrs {
				line("ip addr add %s dev %s", a, name)
			}
		}
	}
	b.WriteString(setUpAdapters(c))
	b.WriteString(rdmaNodes)
	return b.String()
}

// rdmaNodes makes the device files where the libraries look for them: there is
// no udev in the guest.
const rdmaNodes = `
for n in /sys/class/infiniband_verbs/uverbs* /sys/class/infiniband_mad/umad* /sys/class/misc/rdma_cm; do
	[ -e $n/dev ] || continue
	file=/dev/infiniband/${n##*/}
	[ -e $file ] || mknod $file c $(tr : ' ' <$n/dev)
done
`

// Start begins a shell command in the guest.
func (g *Guest) Start(command string) (*client.Command, error) {
	c, err := g.client.Start(command)
	if err != nil {
		return nil, fmt.Errorf("guest %s: %w", g.Name, err)
	}
	return c, nil
}

// Run carries out a shell command in the guest and returns what it printed
// (standard output and error) and its exit code. When ctx ends, so does the
// command. Any number may run at a time.
func (g *Guest) Run(ctx context.Context, command string) (out string, exit int, err error) {
	c, err := g.Start(command)
	if err != nil {
		return "", -1, err
	}
	out, exit, err = c.Wait(ctx)
	if err != nil {
		err = fmt.Errorf("guest %s: %w", g.Name, err)
	}
	return out, exit, err
}

// Must is Run for a command that has to succeed and whose output is not needed.
func (g *Guest) Must(ctx context.Context, command string) error {
	out, exit, err := g.Run(ctx, command)
	if err == nil && exit != 0 {
		err = fmt.Errorf("guest %s: %q: exit code %d: %s", g.Name, command, exit, lastLines(out))
	}
	return err
}

// Until repeats a shell condition in the guest until it holds.
func (g *Guest) Until(ctx context.Context, condition string) error {
	err := g.Must(ctx, "until "+condition+"; do sleep .1; done")
	if err != nil {
		return fmt.Errorf("waiting until %q: %w", condition, err)
	}
	return nil
}

// Console returns the end of what the guest printed to its serial console.
func (g *Guest) Console() string {
	text, err := os.ReadFile(g.console)
	if err != nil {
		return err.Error()
	}
	return lastLines(strings.ReplaceAll(string(text), "\r", ""))
}

// Stop ends the machine, as a loss of power would. The guest's taps stay, without a carrier.
func (g *Guest) Stop() {
	g.rig.guests = slices.DeleteFunc(g.rig.guests, func(o *Guest) bool { return o == g })
	if g.client != nil {
		g.client.Close()
	}
	_ = g.machine.stop(syscall.SIGTERM) // its exit code says that a signal ended it
}

// linkLocal returns the fe80:: address that the kernel derives from a NIC's MAC
// (EUI-64, RFC 4291 appendix A).
func linkLocal(g *Guest, nic int) string {
	hw, err := net.ParseMAC(mac(g.Name, nic))
	if err != nil {
		panic(err) // cannot fail: mac made it
	}
	ip := net.IP{0xfe, 0x80, 0, 0, 0, 0, 0, 0, hw[0] ^ 2, hw[1], hw[2], 0xff, 0xfe, hw[3], hw[4], hw[5]}
	return ip.String()
}

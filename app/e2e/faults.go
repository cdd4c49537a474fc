// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Faults that tests cause in a guest, and how they end.

// A Fault begins and ends by shell commands. Begin returns once the fault has taken effect.
type Fault struct {
	Begin, End string
}

// Suffer causes a fault in the guest and, after the pause, ends it. lasted is how long the fault lasted by the guest's
// own clock: from the return of Begin to the start of End, so that an outage after a fault's end is never measured as
// longer than it was.
func (g *Guest) Suffer(ctx context.Context, f Fault, pause time.Duration) (lasted time.Duration, err error) {
	const clock = "\ncut -d ' ' -f 1 /proc/uptime\n"
	script := "set -e\n" + f.Begin + clock + fmt.Sprintf("sleep %.2f", pause.Seconds()) + clock + f.End
	out, exit, err := g.Run(ctx, script)
	if err == nil && exit != 0 {
		err = fmt.Errorf("guest %s: fault %q: exit code %d: %s", g.Name, f.Begin, exit, out)
	}
	if err != nil {
		return 0, err
	}
	var from, to float64
	if _, err := fmt.Sscan(out, &from, &to); err != nil {
		return 0, fmt.Errorf("guest %s: fault %q: printed %q: %w", g.Name, f.Begin, out, err)
	}
	return time.Duration((to - from) * float64(time.Second)), nil
}

// DeviceLost, CablePulled and AddressLost are faults of an interface and the RDMA
// device on it.
func DeviceLost(device, netdev string) Fault {
	return Fault{loseDevice(device), findDevice(device, netdev)}
}

// CablePulled: see PullCable and PlugCable.
func CablePulled(netdev string, nic NIC) Fault {
	return Fault{pullCable(netdev), plugCable(netdev, nic)}
}

// AddressLost removes an address, and so its GID, and adds it again.
func AddressLost(netdev, address string) Fault {
	return Fault{
		fmt.Sprintf("ip addr del %s dev %s", address, netdev),
		fmt.Sprintf("ip addr add %s dev %s", address, netdev),
	}
}

// LoseDevice takes an RDMA device away, as an unplugged HCA. The kernel waits, and
// so does this, until no process has it open any more: end ctx to give up.
func (g *Guest) LoseDevice(ctx context.Context, device string) error {
	return g.Must(ctx, loseDevice(device))
}

func loseDevice(device string) string { return "rdma link delete " + device }

// FindDevice makes an RDMA device (again).
func (g *Guest) FindDevice(ctx context.Context, device, netdev string) error {
	return g.Must(ctx, findDevice(device, netdev))
}

func findDevice(device, netdev string) string {
	return addDevice(device, netdev) + rdmaNodes
}

// addDevice waits until no device has the name any more, because a deleted one is there until the last process has let
// go of it, and adds the device.
func addDevice(device, netdev string) string {
	return fmt.Sprintf("until ! rdma link show | grep -q '%[1]s/'; do sleep .1; done; rdma link add %[1]s type rxe netdev %[2]s\n", device, netdev)
}

// PullCable takes an interface down. The kernel then drops its IPv6 addresses,
// and a queue pair that sends meanwhile goes into its error state.
func (g *Guest) PullCable(ctx context.Context, netdev string) error {
	return g.Must(ctx, pullCable(netdev))
}

func pullCable(netdev string) string { return "ip link set " + netdev + " down" }

// PlugCable takes an interface up and adds the addresses that it has lost.
func (g *Guest) PlugCable(ctx context.Context, netdev string, nic NIC) error {
	return g.Must(ctx, plugCable(netdev, nic))
}

func plugCable(netdev string, nic NIC) string {
	var b strings.Builder
	fmt.Fprintf(&b, "ip link set %s up\n", netdev)
	for _, a := range nic.Addrs {
		fmt.Fprintf(&b, "ip addr replace %s dev %s\n", a, netdev)
	}
	return b.String()
}

// Unplug takes the cable of a guest's first NIC out of its segment, which the guest does not notice: what is sent
// meanwhile is lost. Plug puts it back.
func (r *Rig) Unplug(g *Guest) error { return r.ns.run("ip link set " + tap(g.Name, 0) + " nomaster") }

// Plug undoes Unplug; the NIC is on that segment.
func (r *Rig) Plug(g *Guest, segment int) error {
	return r.ns.run("ip link set " + tap(g.Name, 0) + " master " + segments[segment])
}

// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"strings"

	"causeway/ibside/ib"
)

// Adapter is a software channel adapter with InfiniBand's link layer (guest/shca): shca0, with IPoIB on ib0. Its cable
// is a pair of datagram sockets between two QEMUs, or between QEMU and the switch: a frame is a datagram, and who is
// slow holds the other up, as credits do on InfiniBand.
type Adapter struct {
	GUID  ib.GUID
	Peer  string   // the name of the guest, or of the switch's port, at the other end of the cable
	Addrs []string // IPoIB's, with prefix length
}

// cableSocket returns the path of an end of a cable.
func (r *Rig) cableSocket(name string) string { return r.file(name + ".cable") }

// backend is QEMU's -netdev for the cable of a guest's adapter.
func (a *Adapter) backend(r *Rig, id, guest string) string {
	return fmt.Sprintf("dgram,id=%s,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s",
		id, r.cableSocket(guest), r.cableSocket(a.Peer))
}

// setUp returns the shell commands that make the adapter on its cable.
func (a *Adapter) setUp(netdev, name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "echo 1 >/proc/sys/net/ipv6/conf/%s/disable_ipv6\n", netdev)
	fmt.Fprintf(&b, "ip link set %s mtu %d up\n", netdev, wireMTU)
	fmt.Fprintf(&b, "modprobe shca guid=%#x netdev=%s description=%s\n", uint64(a.GUID), netdev, name)
	b.WriteString("modprobe ib_ipoib\nmkdir -p /var/cache/opensm /var/log\nip link set ib0 up\n")
	for _, addr := range a.Addrs {
		fmt.Fprintf(&b, "ip addr add %s dev ib0\n", addr)
	}
	return b.String()
}

// StartSM runs opensm in the guest, with more of its options, until the returned stop, which ends it. Its log is a new
// one, and each line is there at once.
func (g *Guest) StartSM(options string) (stop func(), err error) {
	c, err := g.Start("rm -f /tmp/opensm.log; exec opensm -s 5 -d 2 -f /tmp/opensm.log " + options)
	if err != nil {
		return nil, err
	}
	return c.Stop, nil
}

// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"fmt"
	"strings"

	"causeway/ibside/ib"
)

// Adapter is a software channel adapter with InfiniBand's link layer (guest/shca): shca0, with IPoIB on ib0; a guest's
// second one is shca1, with ib1. Its cable is a pair of datagram sockets between two QEMUs, or between QEMU and the
// switch: a frame is a datagram, and who is slow holds the other up, as credits do on InfiniBand.
type Adapter struct {
	GUID  ib.GUID
	Cable string   // the name of this end of the cable; "": the guest's
	Peer  string   // the name of the guest, or of the switch's port, at the other end of the cable
	Addrs []string // IPoIB's, with prefix length
}

// cableSocket returns the path of an end of a cable.
func (r *Rig) cableSocket(name string) string { return r.file(name + ".cable") }

// backend is QEMU's -netdev for the cable of a guest's adapter.
func (a *Adapter) backend(r *Rig, id, guest string) string {
	return fmt.Sprintf("dgram,id=%s,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s",
		id, r.cableSocket(cmp.Or(a.Cable, guest)), r.cableSocket(a.Peer))
}

// setUpAdapters returns the shell commands that make a guest's adapters on their cables; none without one.
func setUpAdapters(c GuestConfig) string {
	var b strings.Builder
	var guids, netdevs, addrs []string
	for i, nic := range c.NICs {
		if nic.InfiniBand == nil {
			continue
		}
		netdev := fmt.Sprintf("eth%d", i)
		fmt.Fprintf(&b, "echo 1 >/proc/sys/net/ipv6/conf/%s/disable_ipv6\n", netdev)
		fmt.Fprintf(&b, "ip link set %s mtu %d up\n", netdev, wireMTU)
		ipoib := fmt.Sprintf("ib%d", len(guids))
		addrs = append(addrs, fmt.Sprintf("ip link set %s up\n", ipoib))
		for _, addr := range nic.InfiniBand.Addrs {
			addrs = append(addrs, fmt.Sprintf("ip addr add %s dev %s\n", addr, ipoib))
		}
		guids, netdevs = append(guids, fmt.Sprintf("%#x", uint64(nic.InfiniBand.GUID))), append(netdevs, netdev)
	}
	if guids == nil {
		return ""
	}
	fmt.Fprintf(&b, "modprobe shca guid=%s netdev=%s description=%s\n", strings.Join(guids, ","), strings.Join(netdevs, ","), c.Name)
	b.WriteString("modprobe ib_ipoib\nmkdir -p /var/cache/opensm /var/log\n")
	return b.String() + strings.Join(addrs, "")
}

// An SM is how one opensm of a guest differs from another.
type SM struct {
	Name    string // of its log, /tmp/NAME.log, its process number, /tmp/NAME.pid, and its memory, /var/cache/NAME
	Options string
}

// StartSM runs opensm in the guest until the returned stop, which ends it. Its log is a new one, and each line is there
// at once.
func (g *Guest) StartSM(sm SM) (stop func(), err error) {
	c, err := g.Start(fmt.Sprintf("rm -f /tmp/%[1]s.log; mkdir -p /var/cache/%[1]s; echo $$ >/tmp/%[1]s.pid; "+
		"export OSM_CACHE_DIR=/var/cache/%[1]s; exec opensm -s 5 -d 2 -f /tmp/%[1]s.log %[2]s", sm.Name, sm.Options))
	if err != nil {
		return nil, err
	}
	return c.Stop, nil
}

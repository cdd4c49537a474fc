// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// neighbours are an interface's neighbours as the kernel resolves them, by ARP and ND.
type neighbours struct {
	link   *net.Interface
	kernel *netlink.Handle

	mu   sync.Mutex
	all  map[netip.Addr]*neighbour
	done chan struct{}
}

// A neighbour's MAC address follows the kernel's table.
type neighbour struct {
	packed   atomic.Uint64 // the MAC address; 0: not resolved yet
	resolved chan struct{}
}

func (n *neighbour) mac() frame.MAC {
	b := binary.BigEndian.AppendUint64(nil, n.packed.Load())
	return frame.MAC(b[2:])
}

func (n *neighbour) set(mac frame.MAC) {
	if n.packed.Swap(binary.BigEndian.Uint64(append([]byte{0, 0}, mac[:]...))) == 0 {
		close(n.resolved)
	}
}

// resolveTimeout is a little longer than the kernel's three requests, a second apart.
const resolveTimeout = 4 * time.Second

// openNeighbours follows the kernel's table in the network namespace of the calling thread.
func openNeighbours(link *net.Interface) (*neighbours, error) {
	ns := &neighbours{link: link, all: map[netip.Addr]*neighbour{}, done: make(chan struct{})}
	var err error
	if ns.kernel, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("packet:%s: netlink: %w", link.Name, err)
	}
	updates := make(chan netlink.NeighUpdate)
	if err := netlink.NeighSubscribeWithOptions(updates, ns.done, netlink.NeighSubscribeOptions{ListExisting: true}); err != nil {
		ns.kernel.Close()
		return nil, fmt.Errorf("packet:%s: the kernel's neighbours: %w", link.Name, err)
	}
	go func() {
		for u := range updates {
			ns.update(&u.Neigh)
		}
	}()
	return ns, nil
}

// update takes over a change of the kernel's table. The last MAC address of an entry that expires or fails stays in
// use.
func (ns *neighbours) update(n *netlink.Neigh) {
	ip, ok := netip.AddrFromSlice(n.IP)
	if !ok || n.LinkIndex != ns.link.Index || len(n.HardwareAddr) != frame.MACLen || n.State&(netlink.NUD_INCOMPLETE|netlink.NUD_FAILED) != 0 {
		return
	}
	if mac := frame.MAC(n.HardwareAddr); mac.IsStation() {
		ns.get(ip.Unmap()).set(mac)
	}
}

func (ns *neighbours) get(ip netip.Addr) *neighbour {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	n := ns.all[ip]
	if n == nil {
		n = &neighbour{resolved: make(chan struct{})}
		ns.all[ip] = n
	}
	return n
}

// awaitLinkLocal waits, a while at most, until the interface has a link-local address that may be used, which is up to two
// seconds after its link came up: without one the kernel's ND asks nobody, and takes that for no answer.
func (ns *neighbours) awaitLinkLocal(ctx context.Context, hop netip.Addr) error {
	for deadline := time.Now().Add(resolveTimeout); hop.Is6() && time.Now().Before(deadline); {
		all, err := ns.kernel.AddrList(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: ns.link.Index}}, netlink.FAMILY_V6)
		if err != nil {
			return fmt.Errorf("packet:%s: the interface's addresses: %w", ns.link.Name, err)
		}
		usable := func(a netlink.Addr) bool { return a.IP.IsLinkLocalUnicast() && a.Flags&unix.IFA_F_TENTATIVE == 0 }
		if slices.ContainsFunc(all, usable) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// resolve makes the kernel resolve the next hop to an address, and waits for it.
func (ns *neighbours) resolve(ctx context.Context, to netip.Addr) (*neighbour, error) {
	// FIBMatch: else the kernel takes every address without a route for a neighbour on the interface.
	routes, err := ns.kernel.RouteGetWithOptions(net.IP(to.AsSlice()), &netlink.RouteGetOptions{Oif: ns.link.Name, FIBMatch: true})
	if err != nil || len(routes) == 0 {
		return nil, fmt.Errorf("packet:%s: the kernel has no route to %v by this interface; add an address or a route", ns.link.Name, to)
	}
	hop := to
	if gw, ok := netip.AddrFromSlice(routes[0].Gw); ok {
		hop = gw.Unmap()
	}
	if err := ns.awaitLinkLocal(ctx, hop); err != nil {
		return nil, err
	}
	n := ns.get(hop)
	use := &netlink.Neigh{LinkIndex: ns.link.Index, IP: net.IP(hop.AsSlice()), Flags: netlink.NTF_USE}
	if err := ns.kernel.NeighSet(use); err != nil {
		return nil, fmt.Errorf("packet:%s: have the kernel resolve %v: %w; use sudo, or give the program CAP_NET_ADMIN", ns.link.Name, hop, err)
	}
	select {
	case <-n.resolved:
		return n, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(resolveTimeout):
	}
	protocol := "ARP"
	if hop.Is6() {
		protocol = "ND"
	}
	return nil, fmt.Errorf("packet:%s: nobody answers %s for %v; is the address right, and has the bridge a [[host]] with it?", ns.link.Name, protocol, hop)
}

func (ns *neighbours) Close() error {
	close(ns.done)
	ns.kernel.Close()
	return nil
}

// Resolve finds the MAC address of the host, or of the gateway to it.
func (e *packetEndpoint) Resolve(ctx context.Context, to netip.Addr, qpn ib.QPN) (Destination, error) {
	from, err := e.source(to)
	if err != nil {
		return nil, err
	}
	n, err := e.neighbours.resolve(ctx, to)
	if err != nil {
		return nil, err
	}
	return e.destination(from, to, n, qpn, e.qkey), nil
}

// ReplyTo replies to the frame's source MAC address.
func (e *packetEndpoint) ReplyTo(m *Message) Destination {
	n := &neighbour{resolved: make(chan struct{})}
	n.set(m.mac)
	from, err := e.source(m.From)
	if err != nil {
		from = e.ip[0]
	}
	return e.destination(from, m.From, n, m.SrcQP, e.qkey)
}

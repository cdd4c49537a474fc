// SPDX-License-Identifier: Apache-2.0

package talk

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// A neighbour is who takes frames to an address. What it says of itself later counts at once.
type neighbour struct {
	at    atomic.Uint64 // its MAC address; 0: not known yet
	known chan struct{}
}

func (n *neighbour) mac() frame.MAC {
	b := binary.BigEndian.AppendUint64(nil, n.at.Load())
	return frame.MAC(b[2:])
}

func (n *neighbour) set(mac frame.MAC) {
	if n.at.Swap(binary.BigEndian.Uint64(append([]byte{0, 0}, mac[:]...))) == 0 {
		close(n.known)
	}
}

const (
	asks     = 5
	askEvery = 300 * time.Millisecond
)

// Find asks who has the address, or the gateway to it.
func (e *packetEnd) Find(ctx context.Context, to netip.Addr, qpn ib.QPN) (Way, error) {
	from, err := e.source(to)
	if err != nil {
		return nil, err
	}
	hop, err := e.hop(from, to)
	if err != nil {
		return nil, err
	}
	n := e.neighbour(hop)
	protocol := "ARP"
	if to.Is6() {
		protocol = "ND"
	}
	for range asks {
		if err := e.ask(from.Addr(), hop); err != nil {
			return nil, err
		}
		select {
		case <-n.known:
			return e.way(from.Addr(), to, n, qpn, e.qkey), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(askEvery):
		}
	}
	return nil, fmt.Errorf("packet:%s: nobody answers %s for %v, asked %d times from %v; is the address right, and has the bridge a [[host]] with it?",
		e.nic.name, protocol, hop, asks, from.Addr())
}

// hop returns the next one on the way to an address: itself on the link, else the kernel's gateway to it.
func (e *packetEnd) hop(from own, to netip.Addr) (netip.Addr, error) {
	if from.Contains(to) || to.IsLinkLocalUnicast() {
		return to, nil
	}
	routes, err := netlink.RouteGetWithOptions(net.IP(to.AsSlice()), &netlink.RouteGetOptions{Oif: e.nic.name})
	if err != nil || len(routes) == 0 {
		return to, fmt.Errorf("packet:%s: %v is not in %v, and the kernel has no route to it by this interface; give -ip with the right prefix length, or add a route",
			e.nic.name, to, from.Masked())
	}
	if gw, ok := netip.AddrFromSlice(routes[0].Gw); ok {
		return gw.Unmap(), nil
	}
	return to, nil
}

// neighbour returns what is known of who has an address, and remembers from now on what is heard.
func (e *packetEnd) neighbour(ip netip.Addr) *neighbour {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.near[ip]
	if n == nil {
		n = &neighbour{known: make(chan struct{})}
		e.near[ip] = n
	}
	return n
}

// heard notes who has an address, if anybody wants to know.
func (e *packetEnd) heard(ip netip.Addr, mac frame.MAC) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := e.near[ip]; n != nil && mac.IsStation() {
		n.set(mac)
	}
}

// ask asks who has an address.
func (e *packetEnd) ask(from, who netip.Addr) error {
	if who.Is4() {
		return e.write(frame.AppendARPRequest(nil, e.link, from, who))
	}
	return e.write(frame.AppendNS(nil, e.link, from, who))
}

// answers reports whether this end, and not the kernel, answers for an address.
func (e *packetEnd) answers(ip netip.Addr) bool {
	for _, o := range e.own {
		if o.Addr() == ip && !o.kernels {
			return true
		}
	}
	return false
}

func (e *packetEnd) arp(f frame.Frame) {
	p, fault := frame.ParseARP(f.Eth.Src(), f.Payload)
	if fault != "" || f.Eth.Src() == e.link.MAC {
		return
	}
	if !p.IsProbe() {
		e.heard(p.SPA, p.SHA)
	}
	if p.Op == frame.ARPRequest && e.answers(p.TPA) {
		_ = e.write(frame.AppendARPReply(nil, e.link, p)) // who asks will ask again
	}
}

func (e *packetEnd) icmp6(f frame.Frame) {
	if f.Protocol() == frame.ProtoHopByHop {
		if p, fault := frame.ParseMLD(f.IPv6, f.Payload); fault == "" {
			e.queried(p)
		}
		return
	}
	p, fault := frame.ParseND(f.Eth.Src(), f.IPv6, f.Payload)
	switch {
	case fault != "" || f.Eth.Src() == e.link.MAC:
	case p.Type == frame.NDAdvertisement && !p.LinkLayer.IsZero():
		e.heard(p.Target, p.LinkLayer)
	case p.Type == frame.NDSolicitation:
		if !p.LinkLayer.IsZero() {
			e.heard(f.Src(), p.LinkLayer)
		}
		if e.answers(p.Target) {
			_ = e.write(frame.AppendNA(nil, e.link, f.Eth.Src(), f.Src(), p.Target)) // who asks will ask again
		}
	}
}

// announce tells all that the host has its addresses, for who had them with another MAC address. One that goes missing is
// asked for.
func (e *packetEnd) announce() {
	for _, o := range e.own {
		switch {
		case o.kernels:
		case o.Addr().Is4():
			_ = e.write(frame.AppendARPAnnouncement(nil, e.link, o.Addr()))
		default:
			_ = e.write(frame.AppendNAAnnouncement(nil, e.link, o.Addr()))
		}
	}
}

// Back goes by the frame's own sender, which need not be asked for.
func (e *packetEnd) Back(m *Message) Way {
	n := &neighbour{known: make(chan struct{})}
	n.set(m.mac)
	from, err := e.source(m.From)
	if err != nil {
		from = e.own[0]
	}
	return e.way(from.Addr(), m.From, n, m.SrcQP, e.qkey)
}

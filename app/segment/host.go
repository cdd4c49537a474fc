// SPDX-License-Identifier: Apache-2.0

package segment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

// A Host is a RoCE host over UDP sockets. ARP, ND, IGMP and MLD are the kernel's.
type Host struct {
	Name string
	IP4  netip.Addr
	IP6  netip.Addr // the zero Addr: none

	ns      netns.NsHandle
	receive func(*roce.Packet)
	psn     atomic.Uint32
	send4   *net.UDPConn
	send6   *net.UDPConn
	ended   sync.WaitGroup

	mu      sync.Mutex
	sockets []*net.UDPConn
}

// srcPort is the UDP port that hosts send from.
var srcPort = ib.FlowLabelToSrcPort(0x100)

// AddHost connects a host by an interface eth0 in the namespace ns, which it owns from then on; it has IPv6 where the
// kernel has. The name is that of an interface. receive is called with each valid message, by several goroutines; the
// message and its payload are valid until it returns.
func (s *Segment) AddHost(name string, ns netns.NsHandle, ip4, ip6 netip.Addr, receive func(*roce.Packet)) (*Host, error) {
	h := &Host{Name: name, IP4: ip4, ns: ns, receive: receive}
	var err error
	if h.IP6, err = s.connect(ns, name, ip4, ip6); err == nil {
		err = h.open()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), h.Close())
	}
	return h, nil
}

// open opens the sockets to send from and to receive unicast.
func (h *Host) open() (err error) {
	if h.send4, err = h.listen(netip.AddrPortFrom(h.IP4, srcPort)); err != nil {
		return err
	}
	addresses := []netip.Addr{h.IP4}
	if h.IP6.IsValid() {
		if h.send6, err = h.listen(netip.AddrPortFrom(h.IP6, srcPort)); err != nil {
			return err
		}
		addresses = append(addresses, h.IP6)
	}
	for _, ip := range addresses {
		c, err := h.listen(netip.AddrPortFrom(ip, frame.PortRoCEv2))
		if err != nil {
			return err
		}
		h.read(c, ip)
	}
	return nil
}

// listen opens a UDP socket in the host's namespace. Like RoCE senders, it sends no fragments and no checksum, and the
// host does not receive its own multicast. Its buffer holds a second of the demonstration's traffic.
func (h *Host) listen(at netip.AddrPort) (c *net.UDPConn, err error) {
	const room = 8 << 20
	lc := net.ListenConfig{Control: func(network, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			options := [][3]int{{unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room}, {unix.SOL_SOCKET, unix.SO_REUSEADDR, 1}}
			if network == "udp4" {
				options = append(options, [3]int{unix.SOL_SOCKET, unix.SO_NO_CHECK, 1}, [3]int{unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP, 0},
					[3]int{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO})
			} else {
				options = append(options, [3]int{unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_TX, 1},
					[3]int{unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1}, [3]int{unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP, 0})
			}
			for _, o := range options {
				failed = errors.Join(failed, unix.SetsockoptInt(int(fd), o[0], o[1], o[2]))
			}
		})
		return errors.Join(err, failed)
	}}
	network := "udp4"
	if at.Addr().Is6() {
		network = "udp6"
	}
	err = h.Do(func() error {
		p, err := lc.ListenPacket(context.Background(), network, at.String())
		if err == nil {
			c = p.(*net.UDPConn)
			h.mu.Lock()
			h.sockets = append(h.sockets, c)
			h.mu.Unlock()
		}
		return err
	})
	return c, err
}

// Do runs f in the host's namespace.
func (h *Host) Do(f func() error) error { return In(h.ns, f) }

// read reads from a socket bound to dst, an address of the host or a group.
func (h *Host) read(c *net.UDPConn, dst netip.Addr) {
	h.ended.Go(func() {
		b := make([]byte, 9000)
		for {
			n, src, err := c.ReadFromUDPAddrPort(b)
			if err != nil {
				return // the socket is closed
			}
			src = netip.AddrPortFrom(src.Addr().Unmap(), src.Port())
			if p, err := roce.ParseDatagram(src, netip.AddrPortFrom(dst, frame.PortRoCEv2), b[:n]); err == nil {
				h.receive(&p)
			}
		}
	})
}

// Join makes the host a member of a group: the kernel sends the IGMP or MLD reports. The function that it returns ends
// the membership.
func (h *Host) Join(group netip.Addr) (leave func() error, err error) {
	c, err := h.listen(netip.AddrPortFrom(group, frame.PortRoCEv2))
	if err != nil {
		return nil, err
	}
	var eth0 *net.Interface
	if err := h.Do(func() error { eth0, err = net.InterfaceByName("eth0"); return err }); err != nil {
		return nil, err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		if group.Is4() {
			m := &unix.IPMreqn{Multiaddr: group.As4(), Ifindex: int32(eth0.Index)}
			failed = unix.SetsockoptIPMreqn(int(fd), unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, m)
		} else {
			m := &unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(eth0.Index)}
			failed = unix.SetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, m)
		}
	})
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	h.read(c, group)
	return func() error {
		h.mu.Lock()
		h.sockets = slices.DeleteFunc(h.sockets, func(s *net.UDPConn) bool { return s == c })
		h.mu.Unlock()
		return c.Close()
	}, nil
}

// Send sends one UD message. The caller gives the destination, the source's QPN, the Q_Key, and what the message
// carries; the rest is the host's.
func (h *Host) Send(p roce.Packet) error {
	c := h.send4
	p.SrcIP = h.IP4
	head := frame.IPv4Len
	if p.DstIP.Is6() {
		c, p.SrcIP, head = h.send6, h.IP6, frame.IPv6Len
	}
	p.Version, p.HopLimit, p.SrcPort, p.PKey, p.PSN = 2, 64, srcPort, ib.PKeyDefault, h.psn.Add(1)&0xffffff
	_, err := c.WriteToUDPAddrPort(p.Network()[head+frame.UDPLen:], netip.AddrPortFrom(p.DstIP, frame.PortRoCEv2))
	return err
}

// Close takes the host off the segment.
func (h *Host) Close() error {
	h.mu.Lock()
	var errs []error
	for _, c := range h.sockets {
		errs = append(errs, c.Close())
	}
	h.sockets = nil
	h.mu.Unlock()
	h.ended.Wait()
	return errors.Join(append(errs, h.ns.Close())...)
}

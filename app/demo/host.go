// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

// A host is a RoCE host with one UD QP over UDP sockets. ARP, ND and IGMP are the kernel's.
type host struct {
	name string
	ip4  netip.Addr
	ip6  netip.Addr // the zero Addr: none
	qpn  ib.QPN
	psn  atomic.Uint32

	send4, send6 *net.UDPConn
	ns           netns.NsHandle
	sockets      []*net.UDPConn
	ended        sync.WaitGroup

	mu      sync.Mutex
	onUD    map[ib.QPN]func(*roce.Packet) // by the sender's QPN, for unicast
	onGroup map[netip.Addr]func(*roce.Packet)
	bad     atomic.Uint64 // datagrams that are not valid RoCE for this host
}

func newHost(name string, ns netns.NsHandle, ip4, ip6 netip.Addr) (*host, error) {
	h := &host{
		name: name, ip4: ip4, ip6: ip6, ns: ns, qpn: ib.QPN(0x100 + rand.IntN(0x1000)),
		onUD: map[ib.QPN]func(*roce.Packet){}, onGroup: map[netip.Addr]func(*roce.Packet){},
	}
	srcPort := ib.FlowLabelToSrcPort(uint32(h.qpn))
	var err error
	open := func(ip netip.Addr, port uint16) *net.UDPConn {
		c, e := h.listen(netip.AddrPortFrom(ip, port))
		err = errors.Join(err, e)
		return c
	}
	h.send4 = open(ip4, srcPort)
	addresses := []netip.Addr{ip4}
	if ip6.IsValid() {
		h.send6 = open(ip6, srcPort)
		addresses = append(addresses, ip6)
	}
	for _, ip := range addresses {
		if c := open(ip, frame.PortRoCEv2); c != nil {
			h.receive(c, ip)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), h.close())
	}
	return h, nil
}

// listen opens a UDP socket in the host's namespace. Like RoCE senders, it sends no fragments and no checksum. Its
// buffer holds a second of the demonstration's traffic.
func (h *host) listen(at netip.AddrPort) (c *net.UDPConn, err error) {
	const room = 8 << 20
	lc := net.ListenConfig{Control: func(network, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			options := [][3]int{{unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room}, {unix.SOL_SOCKET, unix.SO_REUSEADDR, 1}}
			if network == "udp4" {
				options = append(options, [3]int{unix.SOL_SOCKET, unix.SO_NO_CHECK, 1},
					[3]int{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO})
			} else {
				options = append(options, [3]int{unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_TX, 1},
					[3]int{unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1})
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
	err = in(h.ns, func() error {
		p, err := lc.ListenPacket(context.Background(), network, at.String())
		if err == nil {
			c = p.(*net.UDPConn)
			h.sockets = append(h.sockets, c)
		}
		return err
	})
	return c, err
}

// receive reads from a socket bound to dst, an address of the host or a group.
func (h *host) receive(c *net.UDPConn, dst netip.Addr) {
	h.ended.Go(func() {
		b := make([]byte, 9000)
		for {
			n, src, err := c.ReadFromUDPAddrPort(b)
			if err != nil {
				return // the socket is closed
			}
			src = netip.AddrPortFrom(src.Addr().Unmap(), src.Port())
			p, err := roce.ParseDatagram(src, netip.AddrPortFrom(dst, frame.PortRoCEv2), b[:n])
			if err != nil {
				h.bad.Add(1)
				continue
			}
			h.message(&p)
		}
	})
}

// message passes a message to its receiver.
func (h *host) message(p *roce.Packet) {
	h.mu.Lock()
	f := h.onGroup[p.DstIP]
	if !p.IsMulticast() {
		f = h.onUD[p.SrcQP]
		if p.DestQP != h.qpn || p.QKey != ib.QKeyRDMAUDP {
			f = nil
		}
	}
	h.mu.Unlock()
	if f == nil {
		h.bad.Add(1)
		return
	}
	f(p)
}

// join makes the host a member of a group. The kernel sends the IGMP reports.
func (h *host) join(group netip.Addr, f func(*roce.Packet)) error {
	c, err := h.listen(netip.AddrPortFrom(group, frame.PortRoCEv2))
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.onGroup[group] = f
	h.mu.Unlock()
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	m := &unix.IPMreqn{Multiaddr: group.As4(), Address: h.ip4.As4()}
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptIPMreqn(int(fd), unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, m)
	})
	h.receive(c, group)
	return errors.Join(err, failed)
}

// send sends one UD message.
func (h *host) send(dst netip.Addr, qpn ib.QPN, imm bool, payload []byte) error {
	c, src := h.send4, h.ip4
	if dst.Is6() {
		c, src = h.send6, h.ip6
	}
	p := roce.Packet{
		Version: 2, SrcIP: src, DstIP: dst, HopLimit: 64, SrcPort: uint16(c.LocalAddr().(*net.UDPAddr).Port),
		PKey: ib.PKeyDefault, DestQP: qpn, PSN: h.psn.Add(1) & 0xffffff, QKey: ib.QKeyRDMAUDP, SrcQP: h.qpn,
		HasImm: imm, Imm: uint32(h.qpn), Payload: payload,
	}
	network := p.Network()
	head := frame.IPv4Len
	if src.Is6() {
		head = frame.IPv6Len
	}
	_, err := c.WriteToUDPAddrPort(network[head+frame.UDPLen:], netip.AddrPortFrom(dst, frame.PortRoCEv2))
	return err
}

func (h *host) close() error {
	var errs []error
	for _, c := range h.sockets {
		errs = append(errs, c.Close())
	}
	h.ended.Wait()
	return errors.Join(errs...)
}

// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

// Floods are frames that a host sends as fast as it can, past its kernel. All flows may lose messages meanwhile, since
// queues overrun, and must keep their order.

// portAddress returns the MAC address of the bridge's port of a partition.
func (r *rig) portAddress(p *partition) (mac frame.MAC, err error) {
	err = r.segment.Do(func() error {
		l, err := netlink.LinkByName(p.port)
		if err == nil {
			mac = frame.MAC(l.Attrs().HardwareAddr)
		}
		return err
	})
	return mac, err
}

// flood sends frames from a host. They are drawn before, since only one goroutine may draw.
func (r *rig) flood(name string, n int, draw func(in *partition, i int, to frame.MAC) []byte) fault {
	p := r.anyPartition()
	h := p.hosts[r.random.IntN(permanent)]
	frames := make([][]byte, n)
	mac, failed := r.portAddress(p)
	for i := range frames {
		frames[i] = draw(p, i, mac)
	}
	return fault{fmt.Sprintf("%d %s from %v", n, name, h), "flood", everything, false, func() error {
		if failed != nil {
			return failed
		}
		return h.Do(func() error {
			eth0, err := net.InterfaceByName("eth0")
			if err != nil {
				return err
			}
			s, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(s)
			for _, b := range frames {
				if err := unix.Sendto(s, b, 0, &unix.SockaddrLinklayer{Ifindex: eth0.Index}); err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.ENETDOWN) {
					return err
				}
			}
			return nil
		})
	}}
}

// packet is a message of a queue pair that no flow has.
func (r *rig) packet(in *partition, to frame.MAC, from netip.Addr, dst netip.Addr, size int) roce.Packet {
	p := roce.Packet{
		Version: 2, Dst: to, Src: frame.MAC(r.mac()), SrcIP: from, DstIP: dst, HopLimit: 64, SrcPort: 0xc123, PKey: ib.PKeyDefault,
		DestQP: nodeQPN(in.first()), PSN: r.random.Uint32() & 0xffffff, QKey: ib.QKeyRDMAUDP, SrcQP: 0x300, Payload: make([]byte, size),
	}
	if dst.IsMulticast() {
		p.Dst, p.DestQP = frame.GroupMAC(dst), ib.QPMulticast
	}
	return p
}

// shortest is the length of the shortest frame that the kernel always passes on. One that ends in its VLAN tag it
// counts as received, and drops before any packet socket sees it.
const shortest = 20

// hostileFlood sends frames that are damaged at random: bits, lengths, and order of bytes.
func hostileFlood(r *rig) fault {
	return r.flood("damaged frames", 1000+r.random.IntN(4000), func(in *partition, _ int, to frame.MAC) []byte {
		dst := []netip.Addr{nodeIP4(in.first()), nodeIP6(in.first()), toIB[0], toIB[1], nodeIP4(200)}[r.random.IntN(5)]
		from := hostIP4(100)
		if dst.Is6() {
			from = hostIP6(100)
		}
		p := r.packet(in, to, from, dst, r.random.IntN(300))
		if r.random.IntN(4) == 0 {
			p.DestQP, p.QKey, p.SrcQP = ib.QP1, ib.QKeyGSI, ib.QP1
		}
		b := p.AppendTo(nil)
		for range 1 + r.random.IntN(6) {
			b[12+r.random.IntN(len(b)-12)] = byte(r.random.Uint32())
		}
		if r.random.IntN(4) == 0 {
			b = b[:shortest+r.random.IntN(len(b)-shortest)]
		}
		return b
	})
}

// forgedFlood sends good messages from addresses that are nobody's, in the allowed subnet and elsewhere.
func forgedFlood(r *rig) fault {
	return r.flood("messages of forged sources", 1000+r.random.IntN(4000), func(in *partition, _ int, to frame.MAC) []byte {
		from := netip.AddrFrom4([4]byte{10, byte(9 + r.random.IntN(3)), 0, byte(128 + r.random.IntN(100))})
		p := r.packet(in, to, from, nodeIP4(r.random.IntN(len(r.nodes))), r.random.IntN(300))
		return p.AppendTo(nil)
	})
}

// crowd sends messages and requests for services from more addresses than there may be hosts: the tables are full
// afterwards, and the next host must be served nevertheless.
func crowd(r *rig) fault {
	return r.flood("messages and requests of as many hosts", 2*mostKnown+r.random.IntN(2*mostKnown), func(in *partition, i int, to frame.MAC) []byte {
		from := hostIP6(1<<12 + r.random.IntN(1<<15))
		p := r.packet(in, to, from, nodeIP6(r.random.IntN(len(r.nodes))), r.random.IntN(100))
		if r.random.IntN(2) == 0 {
			p.DestQP, p.SrcQP, p.QKey, p.Payload = ib.QP1, ib.QP1, ib.QKeyGSI, sidrRequest(uint32(1<<30+i), from, p.DstIP)
		}
		return p.AppendTo(nil)
	})
}

// burst sends more good messages at once than any queue holds.
func burst(r *rig) fault {
	k := r.random.IntN(2)
	return r.flood("messages to "+[]string{"a node", toIB[0].String()}[k]+" at once", 5000+r.random.IntN(10000), func(in *partition, _ int, mac frame.MAC) []byte {
		to := []netip.Addr{nodeIP4(in.first()), toIB[0]}[k]
		p := r.packet(in, mac, hostIP4(101), to, r.random.IntN(1000))
		return p.AppendTo(nil)
	})
}

// requestFlood sends what management answers: requests for services, ARP, and reports of memberships.
func requestFlood(r *rig) fault {
	return r.flood("requests to management", 1000+r.random.IntN(4000), func(in *partition, i int, to frame.MAC) []byte {
		from := netip.AddrFrom4([4]byte{10, 9, 0, byte(128 + r.random.IntN(100))})
		switch r.random.IntN(3) {
		case 0:
			p := r.packet(in, to, from, nodeIP4(in.first()), 0)
			p.DestQP, p.SrcQP, p.QKey, p.Payload = ib.QP1, ib.QP1, ib.QKeyGSI, sidrRequest(uint32(1<<31+i), from, p.DstIP)
			return p.AppendTo(nil)
		case 1:
			return arpFrame(frame.MAC(r.mac()), from, nodeIP4(r.random.IntN(len(r.nodes))))
		}
		return igmpFrame(frame.MAC(r.mac()), from, netip.AddrFrom4([4]byte{239, 3, byte(r.random.IntN(256)), byte(r.random.IntN(256))}))
	})
}

func arpFrame(mac frame.MAC, from, target netip.Addr) []byte {
	b := make([]byte, 60)
	eth := frame.PutEthernet(b, frame.EthernetFields{Dst: frame.MAC{255, 255, 255, 255, 255, 255}, Src: mac, Type: frame.TypeARP})
	frame.PutARP(b[len(eth):], frame.ARPFields{Op: frame.ARPRequest, SHA: mac, SPA: from, TPA: target})
	return b
}

func igmpFrame(mac frame.MAC, from, group netip.Addr) []byte {
	b := make([]byte, 60)
	eth := frame.PutEthernet(b, frame.EthernetFields{Dst: frame.GroupMAC(group), Src: mac, Type: frame.TypeIPv4})
	ip := frame.PutIPv4(b[len(eth):], frame.IPv4Fields{TotalLen: frame.IPv4Len + frame.IGMPLen, TTL: 1, Protocol: frame.ProtoIGMP, Src: from, Dst: group})
	frame.PutIGMP(b[len(eth)+len(ip):], frame.IGMPv2Report, 0, group)
	return b
}

// SPDX-License-Identifier: Apache-2.0

package talk

import (
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

// sequencer numbers packets: a PSN has 24 bits.
type sequencer struct{ n atomic.Uint32 }

func (s *sequencer) next() uint32 { return s.n.Add(1) & 0xffffff }

// Reasons for which packets are refused, beside the faults of packets that cannot be read.
const (
	refusedQPN     = "no_qp" // the queue pair is another's
	refusedQKey    = "qkey"
	refusedICRC    = "icrc"
	refusedBroken  = "broken" // RoCE in name only
	refusedUnasked = "mc_qp"  // to a group, but not to the queue pair of groups

	notOurs = "other" // for another host: not counted
)

// receive reads frames until the socket is closed.
func (e *packetEnd) receive(each func(*Message)) {
	defer close(e.gone)
	b := make([]byte, 0x10000)
	for {
		n, err := e.nic.Read(b)
		if err != nil {
			select {
			case <-e.closing:
				return
			default:
			}
			if _, err := net.InterfaceByIndex(e.nic.link.Index); err != nil {
				return // it has been removed
			}
			time.Sleep(100 * time.Millisecond) // it is down, and may be up again
			continue
		}
		e.frame(b[:n], time.Now(), each)
	}
}

// frame deals with one frame.
func (e *packetEnd) frame(b []byte, at time.Time, each func(*Message)) {
	f, fault := frame.Open(b)
	if fault != "" {
		return // nothing that anybody meant for this host
	}
	switch {
	case f.Type == frame.TypeARP:
		e.arp(f)
	case f.Type == frame.TypeRoCEv1:
		e.roce(b, ib.GID{}.Addr(), at, each)
	case f.IPv6 != nil && (f.Protocol() == frame.ProtoICMPv6 || f.Protocol() == frame.ProtoHopByHop):
		e.icmp6(f)
	case f.IPv4 != nil && f.Protocol() == frame.ProtoIGMP:
		if p, fault := frame.ParseIGMP(f.IPv4, f.Payload); fault == "" {
			e.queried(p)
		}
	case f.IsIP() && f.Protocol() == frame.ProtoUDP:
		if u, ok := frame.AsUDP(f.Payload); ok && u.DstPort() == frame.PortRoCEv2 {
			e.roce(b, f.Dst(), at, each)
		}
	}
}

// roce deals with a RoCE packet to an IP address; the unspecified one where a GRH has it.
func (e *packetEnd) roce(b []byte, to netip.Addr, at time.Time, each func(*Message)) {
	if !to.IsUnspecified() && !to.IsMulticast() && !e.has(to) {
		return // another host's
	}
	p, err := roce.Parse(b)
	if err != nil {
		e.refuse(fault(err))
		return
	}
	to = groupOfV1(p.DstIP)
	if p.Src == e.link.MAC {
		return // another program's on this interface
	}
	if why := e.check(&p, to); why != "" {
		if why != notOurs {
			e.refuse(why)
		}
		return
	}
	each(&Message{At: at, From: p.SrcIP, SrcQP: p.SrcQP, To: to, Payload: p.Payload, mac: p.Src})
}

// fault returns the counter of a packet that could not be read.
func fault(err error) string {
	if strings.Contains(err.Error(), "ICRC") {
		return refusedICRC
	}
	return refusedBroken
}

// groupOfV1 returns the IPv4 group that version 1 writes as ff0e::ffff:a.b.c.d; any other address as it is.
func groupOfV1(a netip.Addr) netip.Addr {
	if b := a.As16(); a.Is6() && b[0] == 0xff && b[1] == 0x0e {
		b[0], b[1] = 0, 0
		if v4 := netip.AddrFrom16(b).Unmap(); v4.Is4() {
			return v4
		}
	}
	return a
}

// check returns why a packet is not for this end's queue pair; notOurs: it is for another host.
func (e *packetEnd) check(p *roce.Packet, to netip.Addr) string {
	if !to.IsMulticast() {
		switch {
		case !e.has(to):
			return notOurs
		case p.DestQP != e.qpn:
			return refusedQPN
		case p.QKey != e.qkey:
			return refusedQKey
		}
		return ""
	}
	e.mu.Lock()
	qkey, joined := e.groups[to]
	e.mu.Unlock()
	switch {
	case !joined:
		return notOurs
	case p.DestQP != ib.QPMulticast:
		return refusedUnasked
	case p.QKey != qkey:
		return refusedQKey
	}
	return ""
}

// has reports whether an address is this host's.
func (e *packetEnd) has(ip netip.Addr) bool {
	for _, o := range e.own {
		if o.Addr() == ip {
			return true
		}
	}
	return false
}

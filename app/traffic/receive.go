// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"net"
	"net/netip"
	"slices"
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

// Reasons for which packets are rejected.
const (
	rejectedQPN       = "no_qp" // not this endpoint's queue pair
	rejectedQKey      = "qkey"
	rejectedICRC      = "icrc"
	rejectedMalformed = "malformed"
	rejectedGroupQP   = "mc_qp" // to a group, but not to the multicast QPN

	otherHost = "other" // for another host: not counted
)

// receive reads frames until the socket is closed.
func (e *packetEndpoint) receive(each func(*Message)) {
	defer close(e.done)
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
				return // the interface has been removed
			}
			time.Sleep(100 * time.Millisecond) // the interface is down, and may come up again
			continue
		}
		e.frame(b[:n], time.Now(), each)
	}
}

// frame handles one frame. The kernel handles all but RoCE.
func (e *packetEndpoint) frame(b []byte, at time.Time, each func(*Message)) {
	f, fault := frame.Open(b)
	if fault != "" {
		return // not addressed to this host by anybody
	}
	switch {
	case f.Type == frame.TypeRoCEv1:
		e.roce(b, at, each)
	case f.IsIP() && f.Protocol() == frame.ProtoUDP:
		if u, ok := frame.AsUDP(f.Payload); ok && u.DstPort() == frame.PortRoCEv2 && (f.Dst().IsMulticast() || slices.Contains(e.ip, f.Dst())) {
			e.roce(b, at, each)
		}
	}
}

// roce handles a RoCE packet.
func (e *packetEndpoint) roce(b []byte, at time.Time, each func(*Message)) {
	p, err := roce.Parse(b)
	if err != nil {
		e.reject(parseFault(err))
		return
	}
	if p.Src == frame.MAC(e.nic.link.HardwareAddr) {
		return // sent by another program on this interface
	}
	to := groupOfV1(p.DstIP)
	if why := e.check(&p, to); why != "" {
		if why != otherHost {
			e.reject(why)
		}
		return
	}
	each(&Message{At: at, From: p.SrcIP, SrcQP: p.SrcQP, To: to, Payload: p.Payload, mac: p.Src})
}

// parseFault returns the reason to count for a packet that cannot be parsed.
func parseFault(err error) string {
	if strings.Contains(err.Error(), "ICRC") {
		return rejectedICRC
	}
	return rejectedMalformed
}

// groupOfV1 returns the IPv4 group of RoCE v1's ff0e::ffff:a.b.c.d; any other address is returned as it is.
func groupOfV1(a netip.Addr) netip.Addr {
	if b := a.As16(); a.Is6() && b[0] == 0xff && b[1] == 0x0e {
		b[0], b[1] = 0, 0
		if v4 := netip.AddrFrom16(b).Unmap(); v4.Is4() {
			return v4
		}
	}
	return a
}

// check returns why a packet is not for this endpoint's queue pair; "": it is.
func (e *packetEndpoint) check(p *roce.Packet, to netip.Addr) string {
	if !to.IsMulticast() {
		switch {
		case !slices.Contains(e.ip, to):
			return otherHost
		case p.DestQP != e.qpn:
			return rejectedQPN
		case p.QKey != e.qkey:
			return rejectedQKey
		}
		return ""
	}
	e.mu.Lock()
	qkey, joined := e.groups[to]
	e.mu.Unlock()
	switch {
	case !joined:
		return otherHost
	case p.DestQP != ib.QPMulticast:
		return rejectedGroupQP
	case p.QKey != qkey:
		return rejectedQKey
	}
	return ""
}

// SPDX-License-Identifier: Apache-2.0

// Package roce builds and parses whole RoCE packets of UD messages: frame's views around ib's headers.
//
//	Ethernet [802.1Q] IPv4|IPv6 UDP BTH DETH [ImmDt] payload pad ICRC     version 2
//	Ethernet [802.1Q] GRH           BTH DETH [ImmDt] payload pad ICRC     version 1
//
// Tests, the demonstration, the traffic generator and management use it. It shares nothing with the datapath's C, so
// that each can be checked against the other.
package roce

import (
	"net/netip"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// A Packet is one UD message on Ethernet. Numbers are in host order.
type Packet struct {
	Version  int // 1 or 2
	Dst, Src frame.MAC
	Tag      *frame.VLANFields // nil: untagged; its Type is not used

	// In version 1 these are GIDs: an IPv4 address is IPv4-mapped, an IPv4 group is ff0e::ffff:a.b.c.d.
	SrcIP, DstIP netip.Addr
	TClass       uint8
	FlowLabel    uint32 // not in IPv4
	HopLimit     uint8
	SrcPort      uint16 // of UDP, version 2 only
	UDPChecksum  bool   // else 0, as RoCE senders send it

	OpCode    uint8 // 0: UD SEND_ONLY, with immediate data if HasImm
	Solicited bool
	FECN      bool
	BECN      bool
	PKey      ib.PKey
	DestQP    ib.QPN
	PSN       uint32
	QKey      ib.QKey
	SrcQP     ib.QPN
	HasImm    bool
	Imm       uint32
	Payload   []byte
}

// IsMulticast reports whether the packet goes to a group.
func (p *Packet) IsMulticast() bool { return p.DstIP.IsMulticast() }

// Transport returns the UDP payload of a RoCEv2 packet, from the BTH to the pad, without the ICRC.
func (p *Packet) Transport() []byte {
	pad := -len(p.Payload) & 3
	n := ib.BTHLen + ib.DETHLen + len(p.Payload) + pad
	op := p.OpCode
	if op == 0 {
		op = ib.OpUDSendOnly
	}
	if p.HasImm {
		n += ib.ImmDtLen
		if p.OpCode == 0 {
			op = ib.OpUDSendOnlyImm
		}
	}
	b := make([]byte, n)
	ib.PutBTH(b, ib.BTHFields{
		OpCode: op, Solicited: p.Solicited, MigReq: true, PadCnt: pad, PKey: p.PKey,
		FECN: p.FECN, BECN: p.BECN, DestQP: p.DestQP, PSN: p.PSN,
	})
	at := ib.BTHLen
	ib.PutDETH(b[at:], ib.DETHFields{QKey: p.QKey, SrcQP: p.SrcQP})
	at += ib.DETHLen
	if p.HasImm {
		ib.PutImmDt(b[at:], p.Imm)
		at += ib.ImmDtLen
	}
	copy(b[at:], p.Payload)
	return b
}

// AppendTo appends the frame to b, without FCS, and returns the whole, like append.
func (p *Packet) AppendTo(b []byte) []byte {
	eth := frame.EthernetFields{Dst: p.Dst, Src: p.Src, Type: p.etherType()}
	head := make([]byte, frame.EthernetLen+frame.VLANLen)
	n := frame.EthernetLen
	if p.Tag != nil {
		tag := *p.Tag
		tag.Type, eth.Type = eth.Type, frame.TypeVLAN
		frame.PutVLAN(head[n:], tag)
		n += frame.VLANLen
	}
	frame.PutEthernet(head, eth)
	b = append(b, head[:n]...)
	return append(b, p.Network()...)
}

func (p *Packet) etherType() uint16 {
	switch {
	case p.Version == 1:
		return frame.TypeRoCEv1
	case p.SrcIP.Is4():
		return frame.TypeIPv4
	}
	return frame.TypeIPv6
}

// Network returns the packet from its IP header or GRH on, with its ICRC.
func (p *Packet) Network() []byte {
	transport := append(p.Transport(), make([]byte, ib.ICRCLen)...)
	if p.Version == 1 {
		return p.version1(transport)
	}
	n := frame.UDPLen + len(transport)
	var head []byte
	if p.SrcIP.Is4() {
		head = make([]byte, frame.IPv4Len)
		frame.PutIPv4(head, frame.IPv4Fields{
			TOS: p.TClass, TotalLen: frame.IPv4Len + n, Flags: frame.IPv4DontFragment, TTL: p.HopLimit,
			Protocol: frame.ProtoUDP, Src: p.SrcIP, Dst: p.DstIP,
		})
	} else {
		head = make([]byte, frame.IPv6Len)
		frame.PutIPv6(head, frame.IPv6Fields{
			TrafficClass: p.TClass, FlowLabel: p.FlowLabel, PayloadLen: n, NextHeader: frame.ProtoUDP,
			HopLimit: p.HopLimit, Src: p.SrcIP, Dst: p.DstIP,
		})
	}
	udp := make([]byte, frame.UDPLen)
	frame.PutUDP(udp, frame.UDPFields{SrcPort: p.SrcPort, DstPort: frame.PortRoCEv2, Len: n})
	at := len(head)
	out := append(append(head, udp...), transport...)
	ib.PutICRC(out[len(out)-ib.ICRCLen:], ib.ICRCRoCEv2(out[:len(out)-ib.ICRCLen]))
	if p.UDPChecksum {
		frame.SetUDPChecksum(out[at:], p.SrcIP, p.DstIP)
	}
	return out
}

func (p *Packet) version1(transport []byte) []byte {
	out := make([]byte, ib.GRHLen, ib.GRHLen+len(transport))
	ib.PutGRH(out, ib.GRHFields{
		TClass: p.TClass, FlowLabel: p.FlowLabel, PayLen: len(transport), HopLimit: p.HopLimit,
		SGID: ib.GIDFromAddr(p.SrcIP), DGID: ib.GIDFromAddr(p.DstIP),
	})
	out = append(out, transport...)
	ib.PutICRC(out[len(out)-ib.ICRCLen:], ib.ICRCRoCEv1(out[:len(out)-ib.ICRCLen]))
	return out
}

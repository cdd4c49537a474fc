// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"fmt"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/tables"
)

// frame adds the headers of a frame as far as they can be parsed, and returns its endpoints.
func (x *explainer) frame(to *Facts, m *lcore.MirroredPacket) (e endpoints) {
	f, fault := frame.Open(m.Data)
	to.add("port", "Ethernet")
	to.add("length", "%d bytes", m.Len)
	if f.Eth == nil {
		return e
	}
	to.add("MAC", "%v to %v", f.Eth.Src(), f.Eth.Dst())
	if f.Tag != nil {
		to.add("VLAN", "%d, priority %d", f.Tag.VID(), f.Tag.PCP())
	}
	whole := m.Len == len(m.Data)
	switch {
	case f.IPv4 != nil:
		e.src, e.dst = f.IPv4.Src(), f.IPv4.Dst()
		x.network(to, e, "TTL", f.IPv4.TOS(), f.IPv4.TTL())
		n := min(max(f.IPv4.TotalLen(), f.IPv4.HeaderLen()), ipLen(m.Data, f))
		ip := m.Data[len(m.Data)-ipLen(m.Data, f):][:n]
		x.udp(to, &e, f.Protocol(), ip, f.IPv4.HeaderLen(), whole && n == f.IPv4.TotalLen())
	case f.IPv6 != nil:
		e.src, e.dst = f.IPv6.Src(), f.IPv6.Dst()
		x.network(to, e, "hop limit", f.IPv6.TrafficClass(), f.IPv6.HopLimit())
		n := min(frame.IPv6Len+f.IPv6.PayloadLen(), ipLen(m.Data, f))
		ip := m.Data[len(m.Data)-ipLen(m.Data, f):][:n]
		x.udp(to, &e, f.IPv6.NextHeader(), ip, frame.IPv6Len, whole && n == frame.IPv6Len+f.IPv6.PayloadLen())
	case f.Type == frame.TypeRoCEv1 && fault == "":
		x.grh(to, &e, f.Payload, whole)
	case f.Type == frame.TypeARP:
		if a, ok := frame.AsARP(f.Payload); ok {
			e.src, e.dst = a.SPA(), a.TPA()
			to.add("ARP", "%v of %v", a.SPA(), a.TPA())
		}
	default:
		to.add("ethertype", "%#04x", f.Type)
	}
	return e
}

// ipLen returns the bytes behind the Ethernet header and tag.
func ipLen(data []byte, f frame.Frame) int {
	n := len(data) - frame.EthernetLen
	if f.Tag != nil {
		n -= frame.VLANLen
	}
	return n
}

func (x *explainer) network(to *Facts, e endpoints, hops string, tclass, ttl uint8) {
	to.add("IP", "%v to %v", e.src, e.dst)
	to.add("DSCP", "%d", tclass>>2)
	if tclass&3 == 3 {
		to.add("ECN", "congestion experienced")
	}
	to.add(hops, "%d", ttl)
}

// udp adds what follows an IP header; complete: the packet is not truncated.
func (x *explainer) udp(to *Facts, e *endpoints, protocol uint8, ip []byte, header int, complete bool) {
	u, ok := frame.AsUDP(ip[min(header, len(ip)):])
	if protocol != frame.ProtoUDP || !ok {
		to.add("protocol", "%d", protocol)
		return
	}
	to.add("UDP", "%d to %d", u.SrcPort(), u.DstPort())
	if u.DstPort() == frame.PortRoCEv2 {
		x.transport(to, e, ip[header+frame.UDPLen:])
		x.icrc(to, ip, header+frame.UDPLen+ib.BTHLen, complete, ib.ICRCRoCEv2)
		return
	}
	if _, bridged := x.tables.Group(tables.GroupAddr{IP: e.dst, UDPPort: u.DstPort()}); bridged {
		x.plain(to, e, u, ip[header:], complete)
	}
}

// plain adds a datagram of plain UDP to a group.
func (x *explainer) plain(to *Facts, e *endpoints, u frame.UDP, datagram []byte, complete bool) {
	e.transport, e.srcQP, e.udpPort, e.payload = true, tables.PlainQPN, u.DstPort(), max(u.Len()-frame.UDPLen, 0)
	switch {
	case !complete || u.Len() != len(datagram):
		to.add("UDP checksum", "not checked: the packet is truncated")
	case u.Checksum() == 0:
		to.add("UDP checksum", "none")
	case frame.UDPChecksumOK(datagram, e.src, e.dst):
		to.add("UDP checksum", "correct")
	default:
		to.add("UDP checksum", "wrong")
	}
	to.add("payload", "%d bytes", e.payload)
}

func (x *explainer) grh(to *Facts, e *endpoints, b []byte, whole bool) {
	g, ok := ib.AsGRH(b)
	if !ok {
		return
	}
	e.src, e.dst = g.SGID().Addr(), g.DGID().Addr()
	if e.dst.Is6() && e.dst.IsMulticast() {
		if v4 := ib.GID(e.dst.As16()); [4]byte(v4[8:12]) == [4]byte{0, 0, 0xff, 0xff} {
			v4[0], v4[1], v4[8], v4[9] = 0, 0, 0, 0
			e.dst = v4.Addr()
		}
	}
	to.add("RoCE", "version 1")
	x.network(to, *e, "hop limit", g.TClass(), g.HopLimit())
	x.transport(to, e, b[ib.GRHLen:])
	n := ib.GRHLen + g.PayLen()
	x.icrc(to, b[:min(n, len(b))], ib.GRHLen+ib.BTHLen, whole && n <= len(b), ib.ICRCRoCEv1)
}

// transport adds the BTH and DETH. b ends after the ICRC, or is truncated anywhere.
func (x *explainer) transport(to *Facts, e *endpoints, b []byte) {
	bth, ok := ib.AsBTH(b)
	if !ok {
		return
	}
	e.pkey, e.dstQ = bth.PKey(), bth.DestQP()
	to.add("opcode", "%s", opcode(bth.OpCode()))
	to.add("P_Key", "%#04x", uint16(e.pkey))
	deth, ok := ib.AsDETH(b[ib.BTHLen:])
	if !ok || bth.OpCode() != ib.OpUDSendOnly && bth.OpCode() != ib.OpUDSendOnlyImm {
		to.add("to QP", "0x%x", uint32(e.dstQ))
		return
	}
	e.transport, e.qkey, e.srcQP = true, deth.QKey(), deth.SrcQP()
	to.add("QP", "0x%x to 0x%x", uint32(e.srcQP), uint32(e.dstQ))
	to.add("Q_Key", "%#08x", uint32(e.qkey))
	to.add("PSN", "%d", bth.PSN())
	e.payload = len(b) - ib.BTHLen - ib.DETHLen - ib.ICRCLen - bth.PadCnt()
	if imm, ok := ib.AsImmDt(b[ib.BTHLen+ib.DETHLen:]); ok && bth.OpCode() == ib.OpUDSendOnlyImm {
		to.add("immediate", "%#08x", imm.Value())
		e.payload -= ib.ImmDtLen
	}
	to.add("payload", "%d bytes", e.payload)
}

func opcode(op uint8) string {
	switch op {
	case ib.OpUDSendOnly:
		return "UD send"
	case ib.OpUDSendOnlyImm:
		return "UD send with immediate"
	case ib.OpCNP:
		return "congestion notification"
	}
	return fmt.Sprintf("%#02x", op)
}

// icrc checks the last four bytes of what the network header covers.
func (x *explainer) icrc(to *Facts, b []byte, least int, complete bool, of func([]byte) uint32) {
	if !complete || len(b) < least+ib.ICRCLen {
		to.add("ICRC", "not checked: the packet is truncated")
		return
	}
	covered := b[:len(b)-ib.ICRCLen]
	has, right := binary.LittleEndian.Uint32(b[len(covered):]), of(covered)
	if has == right {
		to.add("ICRC", "correct")
	} else {
		to.add("ICRC", "wrong: %#08x, expected %#08x", has, right)
	}
}

// message adds the fields of an InfiniBand message, and returns its endpoints.
func (x *explainer) message(s *lcore.MirroredPacket) endpoints {
	m, to := s.IB, &x.Received
	e := endpoints{sgid: m.SGID, dgid: m.DGID, slid: m.SLID, srcQP: m.Peer, dstQ: m.QPN, payload: s.Len, transport: m.Known}
	to.add("port", "InfiniBand")
	if m.Known {
		to.add("from LID", "%v", m.SLID)
	}
	if m.GRH || !m.SGID.IsZero() {
		to.add("GID", "%v to %v", m.SGID, m.DGID)
		to.add("traffic class", "%#02x", m.TClass)
		to.add("hop limit", "%d", m.HopLimit)
	} else {
		to.add("GRH", "none")
	}
	if m.Known {
		to.add("SL", "%d", m.SL)
		to.add("QP", "0x%x to 0x%x", uint32(m.Peer), uint32(m.QPN))
	}
	if m.HasImm {
		to.add("immediate", "%#08x", m.Imm)
	}
	if m.FECN {
		to.add("FECN", "set")
	}
	if len(m.Area) < ib.GRHLen {
		to.add("completion", "%d bytes", len(m.Area))
	}
	to.add("payload", "%d bytes", s.Len)
	to.add("ICRC", "checked by the port")
	return e
}

// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"fmt"
	"strings"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/tables"
)

// frame adds the headers of a frame as far as they can be parsed, and returns its endpoints.
func (x *explainer) frame(to *Facts, m *lcore.MirroredPacket) (e endpoints) {
	f, fault := frame.Open(m.Data)
	to.add("port", "%s", strings.TrimSpace("Ethernet "+m.PortName))
	e.at.Port = m.Port
	to.size("length", m.Len)
	if f.Eth == nil {
		return e
	}
	to.pair("MAC", "%v", f.Eth.Src(), f.Eth.Dst())
	if f.Tag != nil {
		e.at.VLAN = f.Tag.VID()
		tag := Facts{}
		tag.number("id", int(f.Tag.VID()))
		tag.number("priority", int(f.Tag.PCP()))
		to.several("VLAN", fmt.Sprintf("%d, priority %d", f.Tag.VID(), f.Tag.PCP()), tag)
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
			to.several("ARP", fmt.Sprintf("%v of %v", a.SPA(), a.TPA()),
				Facts{{Name: "from", Value: a.SPA().String()}, {Name: "of", Value: a.TPA().String()}})
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
	to.pair("IP", "%v", e.src, e.dst)
	to.number("DSCP", int(tclass>>2))
	if tclass&3 == 3 {
		to.add("ECN", "congestion experienced")
	}
	to.number(hops, int(ttl))
}

// udp adds what follows an IP header; complete: the packet is not truncated.
func (x *explainer) udp(to *Facts, e *endpoints, protocol uint8, ip []byte, header int, complete bool) {
	u, ok := frame.AsUDP(ip[min(header, len(ip)):])
	if protocol != frame.ProtoUDP || !ok {
		to.number("protocol", int(protocol))
		return
	}
	ports := Facts{}
	ports.number("from", int(u.SrcPort()))
	ports.number("to", int(u.DstPort()))
	to.several("UDP", fmt.Sprintf("%d to %d", u.SrcPort(), u.DstPort()), ports)
	if u.DstPort() == frame.PortRoCEv2 {
		x.transport(to, e, ip[header+frame.UDPLen:])
		x.icrc(to, ip, header+frame.UDPLen+ib.BTHLen, complete, ib.ICRCRoCEv2)
		return
	}
	if _, bridged := x.tables.Group(e.at, tables.GroupAddr{IP: e.dst, UDPPort: u.DstPort()}); bridged {
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
	case frame.UDPChecksumUnfinished(datagram, e.src, e.dst):
		to.add("UDP checksum", "unfinished, as a kernel leaves it for a device to finish")
	case frame.UDPChecksumOK(datagram, e.src, e.dst):
		to.add("UDP checksum", "correct")
	default:
		to.add("UDP checksum", "wrong")
	}
	to.size("payload", e.payload)
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
	*to = append(*to, Fact{"RoCE", "version 1", 1})
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
	to.pair("QP", "0x%x", uint32(e.srcQP), uint32(e.dstQ))
	to.add("Q_Key", "%#08x", uint32(e.qkey))
	to.number("PSN", int(bth.PSN()))
	e.payload = len(b) - ib.BTHLen - ib.DETHLen - ib.ICRCLen - bth.PadCnt()
	if imm, ok := ib.AsImmDt(b[ib.BTHLen+ib.DETHLen:]); ok && bth.OpCode() == ib.OpUDSendOnlyImm {
		to.add("immediate", "%#08x", imm.Value())
		e.payload -= ib.ImmDtLen
	}
	to.size("payload", e.payload)
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
		to.several("ICRC", "not checked: the packet is truncated", Facts{{"checked", "no", false}})
		return
	}
	covered := b[:len(b)-ib.ICRCLen]
	has, right := binary.LittleEndian.Uint32(b[len(covered):]), of(covered)
	if has == right {
		to.several("ICRC", "correct", Facts{{"correct", "yes", true}})
	} else {
		values := Facts{{"correct", "no", false}}
		values.add("has", "%#08x", has)
		values.add("expected", "%#08x", right)
		to.several("ICRC", fmt.Sprintf("wrong: %#08x, expected %#08x", has, right), values)
	}
}

// message adds the fields of an InfiniBand message, and returns its endpoints.
func (x *explainer) message(s *lcore.MirroredPacket) endpoints {
	m, to := s.IB, &x.Received
	e := endpoints{sgid: m.SGID, dgid: m.DGID, slid: m.SLID, srcQP: m.Peer, dstQ: m.QPN, payload: s.Len, transport: m.Known}
	to.add("port", "%s", strings.TrimSpace("InfiniBand "+m.Ports))
	if m.Known {
		to.add("from LID", "%v", m.SLID)
	}
	if m.GRH || !m.SGID.IsZero() {
		to.pair("GID", "%v", m.SGID, m.DGID)
		to.add("traffic class", "%#02x", m.TClass)
		to.number("hop limit", int(m.HopLimit))
	} else {
		to.add("GRH", "none")
	}
	if m.Known {
		to.number("SL", int(m.SL))
		to.pair("QP", "0x%x", uint32(m.Peer), uint32(m.QPN))
	}
	if m.HasImm {
		to.add("immediate", "%#08x", m.Imm)
	}
	if m.FECN {
		to.add("FECN", "set")
	}
	if len(m.Area) < ib.GRHLen {
		to.size("completion", len(m.Area))
	}
	to.size("payload", s.Len)
	to.several("ICRC", "checked by the port", Facts{{"correct", "yes", true}})
	return e
}

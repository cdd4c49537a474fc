// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"causeway/ibside/fabricport"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/tables"
)

// header parses BTH, DETH and immediate.
func (r *reference) header(d *datagram, _ []byte) string {
	if d.plain != nil {
		return ""
	}
	d.bth, _ = ib.AsBTH(d.transport)
	rest := d.transport[ib.BTHLen:]
	if d.bth.TVer() != 0 {
		return "bth_tver"
	}
	switch d.bth.OpCode() {
	case ib.OpUDSendOnly, ib.OpUDSendOnlyImm:
	case ib.OpCN, ib.OpCNP:
		return "cnp_rx"
	default:
		return "bth_opcode"
	}
	deth, ok := ib.AsDETH(rest)
	if !ok {
		return "bth_len"
	}
	d.deth, rest = deth, rest[ib.DETHLen:]
	if d.bth.OpCode() == ib.OpUDSendOnlyImm {
		v, ok := ib.AsImmDt(rest)
		if !ok {
			return "bth_len"
		}
		d.hasImm, d.imm, rest = true, v.Value(), rest[ib.ImmDtLen:]
	}
	if d.bth.PadCnt() > len(rest) {
		return "bth_pad"
	}
	d.payload = rest[:len(rest)-d.bth.PadCnt()]
	d.congestion = d.tclass&3 == 3 || d.bth.FECN()
	return ""
}

func (r *reference) transport(d *datagram, _ []byte) string {
	if d.plain != nil {
		return ""
	}
	dest, qkey, src := d.bth.DestQP(), d.deth.QKey(), d.deth.SrcQP()
	switch {
	case !d.bth.PKey().Matches(r.config.RoCEPKey):
		return "pkey"
	case dest == ib.QP0:
		return "qp0"
	case d.toGroup != (dest == ib.QPMulticast):
		return "mcast_incons"
	case dest == ib.QP1 && qkey != ib.QKeyGSI:
		return "qkey"
	case dest == ib.QP1 && len(d.payload) != ib.MADLen:
		return "mad_len"
	case dest == ib.QP1 && (isSIDR(d.payload) || r.isOwnMessage(d)):
		return "mad_served"
	case dest == ib.QP1:
		return "mad_unserved"
	case qkey.IsControlled():
		return "qkey_controlled"
	case src == ib.QP0 || src == ib.QP1 || src == ib.QPMulticast:
		return "srcqp"
	}
	return ""
}

// isSIDR reports whether a MAD is a SIDR request or reply.
func isSIDR(b []byte) bool {
	m, ok := ib.AsMAD(b)
	return ok && m.IsCM() && (m.AttrID() == ib.AttrSIDRReq || m.AttrID() == ib.AttrSIDRRep)
}

// isOwnMessage reports whether a MAD is of another bridge to an own address. What management looks at the worker leaves.
func (r *reference) isOwnMessage(d *datagram) bool {
	m, ok := ib.AsMAD(d.payload)
	ok = ok && m.BaseVersion() == 1 && m.Class() == ib.ClassBridge && m.ClassVersion() == ib.ClassVersionBridge && m.Method() == ib.MethodSend
	return ok && binary.BigEndian.Uint32(d.payload[36:])&0xffffff == ib.OUIBridge &&
		slices.ContainsFunc(r.config.Addresses, func(p netip.Prefix) bool { return p.Addr() == d.dst })
}

func isControl(group netip.Addr) bool {
	if group.Is4() {
		return netip.MustParsePrefix("224.0.0.0/24").Contains(group)
	}
	return group.As16()[1]&15 <= ib.ScopeLinkLocal
}

func (r *reference) policy(d *datagram, _ []byte) string {
	if d.toGroup {
		g := r.groupOf(d)
		switch {
		case g == nil && isControl(d.dst):
			return "mc_control"
		case g == nil:
			return "mc_unknown"
		case !g.ToIB:
			return "mc_direction"
		case d.plain == nil && d.deth.QKey() != g.RoCEQKey:
			return "qkey"
		case len(d.payload) > g.MTUToIB:
			return "mtu_exceeded"
		}
	} else {
		switch {
		case r.nodeOf[d.dst] == nil && r.isRoCE(d.dst):
			return "same_side"
		case r.nodeOf[d.dst] == nil:
			return "node_unknown"
		case len(d.payload) > cmp.Or(r.nodeOf[d.dst].MTU, lcore.MaxPayload):
			return "mtu_exceeded"
		case !r.reaches(r.nodeOf[d.dst]):
			return "wrong_partition"
		}
	}
	switch {
	case r.proxyQP(d.src, d.srcQP()) != nil:
		return r.source(d)
	case r.nodeOf[d.src] != nil && r.reaches(r.nodeOf[d.src]):
		return "loop_bridge"
	case within(d.src, r.config.Allow) || within(d.src, r.alone):
		return isPending
	}
	return "acl"
}

// reaches reports whether messages of the segment may go to a node, and come from it.
func (r *reference) reaches(n *tables.Node) bool {
	return !r.config.Bound || n.Partition == tables.PartitionHeard || n.Partition == r.config.Partition
}

// isRoCE reports whether an address is a host's of any segment.
func (r *reference) isRoCE(ip netip.Addr) bool {
	for w := r.fixture; w != nil; w = w.second {
		if slices.ContainsFunc(w.hosts, func(h tables.Host) bool { return h.IP == ip }) {
			return true
		}
	}
	return false
}

// source judges a packet of a QP with a proxy QP by the MAC address that it came from.
func (r *reference) source(d *datagram) string {
	i := slices.IndexFunc(r.hosts, func(h tables.Host) bool { return h.IP == d.src })
	if h := r.hosts[i]; h.Routed || h.MAC == d.mac {
		return ""
	}
	return isPending
}

// groupOf returns the group that a datagram is for.
func (r *reference) groupOf(d *datagram) *tables.Group {
	if d.plain != nil {
		return d.plain
	}
	return r.group(d.dst)
}

// srcQP returns the source QPN, or what stands for it.
func (d *datagram) srcQP() ib.QPN {
	if d.plain != nil {
		return tables.PlainQPN
	}
	return d.deth.SrcQP()
}

// message returns the message that the IB port must get.
func (r *reference) message(d *datagram) posted {
	s := r.proxyQP(d.src, d.srcQP())
	m := posted{payload: string(d.payload), Sent: fabricport.Sent{
		QP: s.QP, Source: s.Source, TClass: d.tclass, FlowLabel: d.flow, DestQP: ib.QPMulticast, HasImm: d.hasImm, Imm: d.imm,
		FECN: d.congestion, Len: len(d.payload),
	}}
	if d.plain == nil {
		m.DestQP, m.Solicited = d.bth.DestQP(), d.bth.Solicited()
	}
	rewrite := r.config.RewriteImm
	if d.toGroup {
		g := r.groupOf(d)
		m.DGID, m.DLID, m.SL, m.HopLimit, m.Rate, m.QKey, m.HasGRH = g.MGID, g.MLID, g.SL, g.HopLimit, g.Rate, g.QKey, true
		rewrite = g.RewriteImm
	} else {
		n := r.nodeOf[d.dst]
		m.DGID, m.DLID, m.SL, m.HopLimit, m.Rate, m.QKey, m.HasGRH = n.GID, n.LID, n.SL, n.HopLimit, n.Rate, d.deth.QKey(), n.GRH
		if r.config.IBIsEthernet {
			m.HopLimit = max(d.hops, 1) - 1
		}
		if sl := r.config.SLOfDSCP[d.tclass>>2]; sl != 0 {
			m.SL = sl
		}
	}
	if rewrite && d.hasImm && d.imm == uint32(s.HostQPN) {
		m.Imm, m.immQPN = uint32(s.QPN), true
	}
	return m
}

// fromIB returns the frame for a message, or the reason why there is none.
func (r *reference) fromIB(m *message) ([]byte, string) {
	if m.SrcQP == ib.QP0 || m.SrcQP == ib.QP1 || m.SrcQP == ib.QPMulticast {
		return nil, "srcqp"
	}
	out := roce.Packet{
		Src: r.config.MAC, HopLimit: r.config.TTL, Solicited: m.Solicited, PKey: r.config.RoCEPKey, SrcQP: m.SrcQP,
		HasImm: m.HasImm, Imm: m.Imm, Payload: m.Payload, TClass: r.config.DSCPOfSL[m.SL&15] << 2,
	}
	from, mgid, why := r.origin(m, &out)
	if why != "" {
		return nil, why
	}
	if why = r.destination(m, &out, mgid); why != "" {
		return nil, why
	}
	switch {
	case from == nil && r.config.BridgeUnknown:
		from = &tables.Node{IP4: r.ownIP(netip.Addr.Is4), IP6: r.ownIP(netip.Addr.Is6)}
	case from == nil:
		return nil, "node_unknown"
	case from.Bridge:
		return nil, "loop_bridge"
	case !r.reaches(from):
		return nil, "wrong_partition"
	}
	if out.SrcIP = from.IP6; out.DstIP.Is4() {
		out.SrcIP = from.IP4
	}
	if !out.SrcIP.IsValid() {
		return nil, "node_no_ip"
	}
	if r.ask != nil {
		if why = r.ask(); why != "" {
			return nil, why
		}
	}
	if out.Version == 1 && out.DstIP.Is4() && out.DstIP.IsMulticast() {
		out.DstIP = ib.MGIDRoCEv1(out.DstIP).Addr()
	}
	out.SrcPort = ib.SrcPort(out.FlowLabel, m.SrcQP, out.DestQP)
	if m.FECN && out.TClass&3 != 0 {
		out.TClass |= 3
	}
	if g := r.byMGID[mgid]; g != nil && g.UDPPort != 0 {
		return plainFrame(&out, g), ""
	}
	psn := &r.psn[(uint32(m.SrcQP)^uint32(m.SLID))%256]
	out.PSN = *psn
	*psn = (*psn + 1) & 0xffffff
	return out.AppendTo(nil), ""
}

// plainFrame is what becomes of a message to a group of plain UDP, whose RoCE packet out would be.
func plainFrame(out *roce.Packet, g *tables.Group) []byte {
	l := frame.Link{MAC: out.Src}
	if out.Tag != nil {
		l.VID, l.PCP = out.Tag.VID, out.Tag.PCP
	}
	return frame.AppendUDP(nil, l, out.Dst, frame.Datagram{
		Src: netip.AddrPortFrom(out.SrcIP, g.UDPPort), Dst: netip.AddrPortFrom(out.DstIP, g.UDPPort), TOS: out.TClass, TTL: g.TTL,
		FlowLabel: out.FlowLabel, Checksum: true,
	}, out.Payload)
}

// ownIP returns the bridge's first address of an IP version.
func (r *reference) ownIP(kind func(netip.Addr) bool) netip.Addr {
	for _, p := range r.config.Addresses {
		if kind(p.Addr()) && !p.Addr().IsLinkLocalUnicast() {
			return p.Addr()
		}
	}
	return netip.Addr{}
}

// origin finds the sender of a message, copies the fields of its network header, and returns the group that it is for.
func (r *reference) origin(m *message, out *roce.Packet) (from *tables.Node, mgid ib.GID, why string) {
	if !m.HasGRH {
		if r.own.LID != 0 && r.own.LID <= m.SLID && m.SLID < r.own.LID+1<<r.own.LMC {
			why = "loop_self"
		}
		return r.byLID[m.SLID], mgid, why
	}
	var sgid, dgid ib.GID
	hops := uint8(0)
	ip, ok := frame.AsIPv4(m.GRH[20:])
	is6, is4 := m.GRH[0]>>4 == 6, m.GRH[20]>>4 == 4
	if is6 {
		is4 = ok && ip.HeaderLen() == frame.IPv4Len && ip.ChecksumOK()
	}
	switch {
	case r.config.IBIsEthernet && is4:
		h := m.GRH[20:] // at a RoCE port, any IHL is accepted when the first half is no IPv6 header
		sgid, dgid = ib.GIDFromAddr(netip.AddrFrom4([4]byte(h[12:16]))), ib.GIDFromAddr(netip.AddrFrom4([4]byte(h[16:20])))
		out.TClass, hops = h[1], h[8]
	case is6:
		grh, _ := ib.AsGRH(m.GRH[:])
		sgid, dgid = grh.SGID(), grh.DGID()
		out.TClass, out.FlowLabel, hops = grh.TClass(), grh.FlowLabel(), grh.HopLimit()
	default:
		return nil, mgid, "grh_class"
	}
	if hops >= 2 {
		out.HopLimit = hops - 1
	}
	if slices.Contains(r.own.GIDs, sgid) {
		return nil, mgid, "loop_self"
	}
	if dgid.IsIBMulticast() || r.config.IBIsEthernet && is4 && dgid.IsMulticast() {
		mgid = dgid
	}
	return r.byGID[sgid], mgid, ""
}

// destination sets where the frame goes, and returns the reason for a drop, or "".
func (r *reference) destination(m *message, out *roce.Packet, mgid ib.GID) string {
	vlan, mtu := uint16(0), r.config.RoCEMTU
	if !mgid.IsZero() {
		g := r.byMGID[mgid]
		switch {
		case g == nil:
			return "mc_unknown"
		case !g.ToRoCE:
			return "mc_direction"
		}
		vlan, mtu = g.VLAN, g.MTUToRoCE
		out.DstIP, out.Version, out.DestQP, out.QKey, out.Dst = g.IP, int(g.Version), ib.QPMulticast, g.RoCEQKey, frame.GroupMAC(g.IP)
		if g.Version == lcore.V1 {
			out.Dst = ib.MulticastMAC(ib.MGIDRoCEv1(g.IP))
		}
	} else {
		s, h := r.behind(m.QPN)
		if s == nil {
			return "proxy_qp_unknown"
		}
		vlan = h.VLAN
		out.DstIP, out.Version, out.DestQP, out.QKey, out.Dst = s.Host, int(s.Version), s.HostQPN, s.QKey, h.MAC
	}
	if len(m.Payload) > mtu {
		return "mtu_exceeded"
	}
	if vlan != 0 {
		out.Tag = &frame.VLANFields{PCP: r.config.PCPOfSL[m.SL&15], VID: vlan}
	}
	return ""
}

// behind returns the proxy QP with this QPN, and its host.
func (r *reference) behind(qpn ib.QPN) (*tables.ProxyQP, *tables.Host) {
	for i := range r.proxyQPs {
		if s := &r.proxyQPs[i]; s.QPN == qpn && s.HostQPN != tables.PlainQPN {
			for j := range r.hosts {
				if h := &r.hosts[j]; h.IP == s.Host {
					return s, h
				}
			}
		}
	}
	return nil, nil
}

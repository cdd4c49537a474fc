// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"causeway/ibside/fabricport"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/tables"
)

// A reference is a second bridge, in plain Go, one packet at a time, with which the C is compared. It shares nothing
// with the C but the names of the drops. Its checks are in the order of drop.def.
type reference struct {
	*fixture
	nodeOf map[netip.Addr]*tables.Node
	byGID  map[ib.GID]*tables.Node
	byLID  map[ib.LID]*tables.Node
	byMGID map[ib.GID]*tables.Group
	psn    *[256]uint32   // by which segments number their packets together
	alone  []netip.Prefix // allowed in this segment only
	ask    func() string  // why the port wants the next message dropped that would cross; nil: it is not asked
}

func newReference(w *fixture) *reference {
	r := &reference{
		fixture: w, nodeOf: map[netip.Addr]*tables.Node{}, byGID: map[ib.GID]*tables.Node{}, byLID: map[ib.LID]*tables.Node{},
		byMGID: map[ib.GID]*tables.Group{}, psn: new([256]uint32),
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		r.byGID[n.GID] = n
		for lid := n.LID; n.HopLimit < 2 && n.LIDs == tables.LIDsKnown && lid < n.LID+1<<n.LMC; lid++ {
			r.byLID[lid] = n
		}
		for _, ip := range []netip.Addr{n.IP4, n.IP6} {
			if ip.IsValid() {
				r.nodeOf[ip] = n
			}
		}
	}
	for i := range w.groups {
		r.byMGID[w.groups[i].MGID] = &w.groups[i]
	}
	return r
}

// The results for a frame that is neither dropped by name nor sent.
const (
	isPunted  = "(punted)"  // punted to management
	isPending = "(pending)" // waits for a proxy QP, or until its host has moved
)

// A posted message as a value: port.Sent with its payload as a string.
type posted struct {
	fabricport.Sent
	payload string
	port    int  // of several InfiniBand ports
	immQPN  bool // Imm is the sending proxy QP's QPN; the model's alone
}

func postedOf(s fabricport.Sent) posted {
	p := posted{Sent: s, payload: string(s.Payload)}
	p.Payload = nil
	return p
}

func (p *posted) equal(o *posted) bool {
	return p.port == o.port && p.QP == o.QP && p.DGID == o.DGID && p.DLID == o.DLID && p.SL == o.SL && p.HopLimit == o.HopLimit && p.Rate == o.Rate && p.TClass == o.TClass &&
		p.Source == o.Source && p.FlowLabel == o.FlowLabel && p.DestQP == o.DestQP && p.QKey == o.QKey && p.Imm == o.Imm &&
		p.HasImm == o.HasImm && p.Solicited == o.Solicited && p.HasGRH == o.HasGRH && p.FECN == o.FECN &&
		p.Len == o.Len && p.payload == o.payload
}

// datagram is a frame as parsed by the reference.
type datagram struct {
	mac        frame.MAC  // that it came from
	src, dst   netip.Addr // IPv4 never mapped
	toGroup    bool       // by its destination address
	tclass     uint8
	hops       uint8
	flow       uint32
	whole      []byte // network header to ICRC
	transport  []byte // BTH to the last pad byte
	bth        ib.BTH
	deth       ib.DETH
	hasImm     bool
	imm        uint32
	payload    []byte
	congestion bool
	plain      *tables.Group // the group, of plain UDP: there is no transport
}

// fromRoCE returns the message for a frame, or the reason why there is none.
func (r *reference) fromRoCE(f []byte) (posted, string) {
	var d datagram
	for _, check := range []func(*datagram, []byte) string{r.ethernet, r.integrity, r.header, r.transport, r.policy} {
		if why := check(&d, f); why != "" {
			return posted{}, why
		}
	}
	return r.message(&d), ""
}

func (r *reference) ethernet(d *datagram, f []byte) string {
	eth, ok := frame.AsEthernet(f)
	switch {
	case !ok:
		return "l2_short"
	case !eth.Dst().IsMulticast() && eth.Dst() != r.config.MAC:
		return "l2_notus"
	case !eth.Src().IsStation():
		return "l2_badsrc"
	case eth.Src() == r.config.MAC || slices.Contains(r.config.MoreMACs, [6]byte(eth.Src())):
		return "loop_self"
	}
	d.mac = eth.Src()
	rest, kind, why := r.untag(f[frame.EthernetLen:], eth.Type())
	if why != "" {
		return why
	}
	switch kind {
	case frame.TypeARP:
		return isPunted
	case frame.TypeIPv4:
		why = r.ip4(d, rest)
	case frame.TypeIPv6:
		why = r.ip6(d, rest)
	case frame.TypeRoCEv1:
		why = r.grh(d, rest)
	default:
		return "l2_other"
	}
	if why == "" && (eth.Dst().IsMulticast() != d.toGroup || eth.Dst() == frame.MAC{255, 255, 255, 255, 255, 255}) {
		why = "l2_l3_mismatch"
	}
	return why
}

// untag removes the VLAN tag, if there is one.
func (r *reference) untag(b []byte, kind uint16) (rest []byte, inner uint16, why string) {
	vid := uint16(0)
	switch kind {
	case frame.TypeSTag:
		return nil, 0, "vlan_double"
	case frame.TypeVLAN:
		tag, ok := frame.AsVLAN(b)
		if !ok {
			if len(b) == 17-frame.EthernetLen { // dpdk/tags.c
				return nil, 0, "vlan_double"
			}
			return nil, 0, "l2_short"
		}
		vid, kind, b = tag.VID(), tag.Type(), b[frame.VLANLen:]
		if kind == frame.TypeVLAN || kind == frame.TypeSTag {
			return nil, 0, "vlan_double"
		}
	}
	if vid != r.config.VLAN {
		return nil, 0, "vlan_unknown"
	}
	return b, kind, ""
}

var (
	noSource4 = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("224.0.0.0/3")}
	noDest4   = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("240.0.0.0/4")}
	oldGroups = netip.MustParsePrefix("ff0e::ffff:0:0/96")
)

func within(a netip.Addr, prefixes []netip.Prefix) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

func (r *reference) isOwn(a netip.Addr) bool {
	return slices.ContainsFunc(r.config.Addresses, func(p netip.Prefix) bool { return p.Addr() == a })
}

// isBroadcast reports whether a is the last address of a subnet of the bridge's.
func (r *reference) isBroadcast(a netip.Addr) bool {
	return slices.ContainsFunc(r.config.Addresses, func(p netip.Prefix) bool {
		return p.Addr().Is4() && p.Bits() <= 30 && p.Contains(a) && !p.Contains(a.Next())
	})
}

func (r *reference) ip4(d *datagram, b []byte) string {
	if len(b) < frame.IPv4Len || b[0]>>4 != 4 {
		return "ip_hdr"
	}
	header := int(b[0]&15) * 4
	total, proto := int(binary.BigEndian.Uint16(b[2:])), b[9]
	switch {
	case proto == frame.ProtoICMP || proto == frame.ProtoIGMP:
		return isPunted
	case header < frame.IPv4Len:
		return "ip_hdr"
	case header > frame.IPv4Len:
		return "ip_options"
	case frame.Checksum(b[:frame.IPv4Len]) != 0:
		return "ip_csum"
	case total < frame.IPv4Len || total > len(b):
		return "ip_len"
	}
	ip, _ := frame.AsIPv4(b)
	d.src, d.dst, d.tclass, d.hops = ip.Src(), ip.Dst(), ip.TOS(), ip.TTL()
	d.toGroup = d.dst.IsMulticast()
	switch {
	case ip.IsFragment():
		return "ip_frag"
	case d.hops == 0:
		return "ip_ttl"
	case within(d.src, noSource4) || r.isBroadcast(d.src) || d.src == d.dst:
		return "ip_badsrc"
	case r.isOwn(d.src):
		return "loop_self"
	case within(d.dst, noDest4) || r.isBroadcast(d.dst):
		return "ip_baddst"
	case proto != frame.ProtoUDP:
		return "not_roce"
	}
	return r.udp(d, b[:total], b[frame.IPv4Len:total])
}

// IANA: IPv6 extension header types, and "no next header".
var extensions6 = []byte{0, 43, 44, 50, 51, 59, 60, 135, 139, 140}

func (r *reference) ip6(d *datagram, b []byte) string {
	ip, ok := frame.AsIPv6(b)
	if !ok || b[0]>>4 != 6 {
		return "ip_hdr"
	}
	next, rest := ip.NextHeader(), b[frame.IPv6Len:]
	switch {
	case next == frame.ProtoICMPv6, next == frame.ProtoHopByHop && len(rest) > 0 && rest[0] == frame.ProtoICMPv6:
		return isPunted
	case slices.Contains(extensions6, next):
		return "ip6_ext"
	case next != frame.ProtoUDP:
		return "not_roce"
	case ip.PayloadLen() == 0 || ip.PayloadLen() > len(rest):
		return "ip_len"
	case ip.HopLimit() == 0:
		return "ip_ttl"
	}
	d.src, d.dst, d.tclass, d.hops, d.flow = ip.Src(), ip.Dst(), ip.TrafficClass(), ip.HopLimit(), ip.FlowLabel()
	d.toGroup = d.dst.IsMulticast()
	switch {
	case d.src.Is4In6() || d.src.IsUnspecified() || d.src.IsLoopback() || d.src.IsMulticast() || d.src == d.dst:
		return "ip_badsrc"
	case r.isOwn(d.src):
		return "loop_self"
	case d.dst.Is4In6() || d.dst.IsUnspecified() || d.dst.IsLoopback() || oldGroups.Contains(d.dst):
		return "ip_baddst"
	}
	n := ip.PayloadLen()
	return r.udp(d, b[:frame.IPv6Len+n], rest[:n])
}

func (r *reference) udp(d *datagram, whole, b []byte) string {
	udp, ok := frame.AsUDP(b)
	switch {
	case !ok:
		return "udp_len"
	case udp.DstPort() != frame.PortRoCEv2:
		return r.plainUDP(d, udp, b)
	case r.config.Versions&lcore.V2 == 0:
		return "version_off"
	case udp.Len() < 24 || udp.Len() > len(b) || udp.Len()%4 != 0:
		return "udp_len"
	case udp.Len() != len(b):
		return "ip_len"
	case !frame.UDPChecksumOK(b, d.src, d.dst):
		return "udp_csum"
	}
	d.whole, d.transport = whole, b[frame.UDPLen:len(b)-ib.ICRCLen]
	return ""
}

// plainUDP parses a datagram that is not RoCE.
func (r *reference) plainUDP(d *datagram, udp frame.UDP, b []byte) string {
	if udp.DstPort() != 0 {
		d.plain = r.groupAt(tables.GroupAddr{IP: d.dst, UDPPort: udp.DstPort()})
	}
	switch {
	case d.plain == nil:
		return "not_roce"
	case udp.Len() < frame.UDPLen || udp.Len() > len(b):
		return "udp_len"
	case udp.Len() != len(b):
		return "ip_len"
	case udp.Checksum() == 0 && d.dst.Is6(), !frame.UDPChecksumOK(b, d.src, d.dst):
		return "udp_csum"
	}
	d.payload, d.congestion = b[frame.UDPLen:], d.tclass&3 == 3
	return ""
}

func (r *reference) grh(d *datagram, b []byte) string {
	if r.config.Versions&lcore.V1 == 0 {
		return "version_off"
	}
	grh, ok := ib.AsGRH(b)
	if !ok || !grh.IsBTHNext() {
		return "grh_hdr"
	}
	n := grh.PayLen()
	if n < 16 || n > len(b)-ib.GRHLen || n%4 != 0 {
		return "grh_len"
	}
	d.src, d.dst = grh.SGID().Addr(), grh.DGID().Addr()
	d.tclass, d.hops, d.flow = grh.TClass(), grh.HopLimit(), grh.FlowLabel()
	d.toGroup = grh.DGID().IsIBMulticast()
	switch {
	case d.src.IsUnspecified() || d.src.IsLoopback() || d.src.IsMulticast() || within(d.src, noSource4) || r.isBroadcast(d.src.Unmap()) || d.src == d.dst:
		return "ip_badsrc"
	case r.isOwn(d.src):
		return "loop_self"
	case grh.DGID().IsZero():
		return "ip_baddst"
	}
	if oldGroups.Contains(d.dst) {
		a := d.dst.As16()
		d.dst = netip.AddrFrom4([4]byte(a[12:]))
	}
	d.whole, d.transport = b[:ib.GRHLen+n], b[ib.GRHLen:ib.GRHLen+n-ib.ICRCLen]
	return ""
}

func (r *reference) integrity(d *datagram, _ []byte) string {
	if d.plain != nil {
		return ""
	}
	end := len(d.whole) - ib.ICRCLen
	of := ib.ICRCRoCEv2
	if len(d.transport) == end-ib.GRHLen { // no UDP between them
		of = ib.ICRCRoCEv1
	}
	if of(d.whole[:end]) != binary.LittleEndian.Uint32(d.whole[end:]) {
		return "icrc"
	}
	return ""
}

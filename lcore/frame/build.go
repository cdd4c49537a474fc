// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"net/netip"
	"slices"
)

// Link is what all frames sent on one port have in common.
type Link struct {
	MAC MAC    // the source
	VID uint16 // the VLAN, 0 for untagged frames
	PCP uint8  // the priority, sent only in a tag
}

// The Append functions below append one frame to b and return the whole, like append. The frame does not contain
// the FCS and is at least MinLen long; b's own bytes need no special alignment.

// open appends an Ethernet header, the tag if any, n bytes for the payload and padding. It returns the payload's
// place, zeroed, and the whole.
func (l Link) open(b []byte, dst MAC, kind uint16, n int) (whole, payload []byte) {
	head := EthernetLen
	if l.VID != 0 {
		head += VLANLen
	}
	at, size := len(b), max(head+n, MinLen)
	b = slices.Grow(b, size)[:at+size]
	f := b[at:]
	clear(f)
	if l.VID == 0 {
		PutEthernet(f, EthernetFields{Dst: dst, Src: l.MAC, Type: kind})
	} else {
		PutEthernet(f, EthernetFields{Dst: dst, Src: l.MAC, Type: TypeVLAN})
		PutVLAN(f[EthernetLen:], VLANFields{PCP: l.PCP, VID: l.VID, Type: kind})
	}
	return b, f[head : head+n]
}

// AppendARP appends an ARP packet to dst.
func AppendARP(b []byte, l Link, dst MAC, f ARPFields) []byte {
	b, p := l.open(b, dst, TypeARP, ARPLen)
	PutARP(p, f)
	return b
}

// AppendARPRequest appends a broadcast request for target, from the address sender.
func AppendARPRequest(b []byte, l Link, sender, target netip.Addr) []byte {
	return AppendARP(b, l, Broadcast, ARPFields{Op: ARPRequest, SHA: l.MAC, SPA: sender, TPA: target})
}

// AppendRARP appends a broadcast of RARP (RFC 903) in which a station asks for its own address. Nobody answers, but switches
// learn where its MAC address is.
func AppendRARP(b []byte, l Link) []byte {
	const request = 3
	none := netip.IPv4Unspecified()
	b, p := l.open(b, Broadcast, TypeRARP, ARPLen)
	PutARP(p, ARPFields{Op: request, SHA: l.MAC, SPA: none, THA: l.MAC, TPA: none})
	return b
}

// AppendARPReply appends the reply to a request, with the port's own MAC address. For a host on the other side of the
// bridge this is proxy ARP (RFC 1027).
func AppendARPReply(b []byte, l Link, req ARPFields) []byte {
	return AppendARP(b, l, req.SHA, ARPFields{Op: ARPReply, SHA: l.MAC, SPA: req.TPA, THA: req.SHA, TPA: req.SPA})
}

// AppendARPAnnouncement appends a broadcast announcement of ip at the port's own MAC address: a request whose sender
// and target are the same (RFC 5227 §2.3). Hosts update their entries for ip.
func AppendARPAnnouncement(b []byte, l Link, ip netip.Addr) []byte {
	return AppendARPRequest(b, l, ip, ip)
}

// AppendND appends a neighbour solicitation or advertisement.
func AppendND(b []byte, l Link, to MAC, src, dst netip.Addr, f NDFields) []byte {
	b, p := l.open(b, to, TypeIPv6, IPv6Len+f.Len())
	PutIPv6(p, IPv6Fields{PayloadLen: f.Len(), NextHeader: ProtoICMPv6, HopLimit: ndHops, Src: src, Dst: dst})
	PutND(p[IPv6Len:], src, dst, f)
	return b
}

// AppendNS appends a solicitation for target, to its solicited-node group. src is an address of the port.
func AppendNS(b []byte, l Link, src, target netip.Addr) []byte {
	dst := SolicitedNode(target)
	return AppendND(b, l, GroupMAC(dst), src, dst, NDFields{Type: NDSolicitation, Target: target, LinkLayer: l.MAC})
}

// AppendNA appends the advertisement for a solicitation for target from the address asker at MAC address to, with the
// port's own MAC address. It is sent from target. Override is not set, as proxies must not (RFC 4861 §7.2.8). An asker
// with the address :: is answered to all nodes, without Solicited (§7.2.4).
func AppendNA(b []byte, l Link, to MAC, asker, target netip.Addr) []byte {
	f := NDFields{Type: NDAdvertisement, Solicited: true, Target: target, LinkLayer: l.MAC}
	if asker.IsUnspecified() {
		f.Solicited, asker, to = false, AllNodes6, GroupMAC(AllNodes6)
	}
	return AppendND(b, l, to, target, asker, f)
}

// AppendNAAnnouncement appends an unsolicited advertisement of target at the port's own MAC address, to all nodes (RFC
// 4861 §7.2.6). Override is set: without it hosts would keep the old MAC address until it fails.
func AppendNAAnnouncement(b []byte, l Link, target netip.Addr) []byte {
	return AppendND(b, l, GroupMAC(AllNodes6), target, AllNodes6, NDFields{Type: NDAdvertisement, Override: true, Target: target, LinkLayer: l.MAC})
}

// igmpTOS is internetwork control, which IGMPv3 requires (RFC 3376 §4).
const igmpTOS = 0xc0

// routerAlert is the option that makes routers examine packets that are not addressed to them (RFC 2113).
var routerAlert = []byte{0x94, 4, 0, 0}

// igmp appends Ethernet and IP headers for an IGMP message of n bytes and returns its place.
func (l Link) igmp(b []byte, src, dst netip.Addr, n int) (whole, message []byte) {
	f := IPv4Fields{TOS: igmpTOS, Flags: IPv4DontFragment, TTL: 1, Protocol: ProtoIGMP, Src: src, Dst: dst, Options: routerAlert}
	f.TotalLen = f.HeaderLen() + n
	b, p := l.open(b, GroupMAC(dst), TypeIPv4, f.TotalLen)
	PutIPv4(p, f)
	return b, p[f.HeaderLen():]
}

// AppendIGMPv2Report appends a report that src is a member of group, sent to the group.
func AppendIGMPv2Report(b []byte, l Link, src, group netip.Addr) []byte {
	return l.olderReport(b, IGMPv2Report, src, group)
}

// AppendIGMPv1Report is AppendIGMPv2Report for queriers of version 1.
func AppendIGMPv1Report(b []byte, l Link, src, group netip.Addr) []byte {
	return l.olderReport(b, IGMPv1Report, src, group)
}

func (l Link) olderReport(b []byte, kind uint8, src, group netip.Addr) []byte {
	b, m := l.igmp(b, src, group, IGMPLen)
	PutIGMP(m, kind, 0, group)
	return b
}

// AppendIGMPv2Leave appends the message that src leaves group, sent to all routers.
func AppendIGMPv2Leave(b []byte, l Link, src, group netip.Addr) []byte {
	b, m := l.igmp(b, src, AllRouters4, IGMPLen)
	PutIGMP(m, IGMPv2Leave, 0, group)
	return b
}

// AppendIGMPv3Query appends a query of version 3: a general one, to all hosts, if q.Group is 0.0.0.0, else to the
// group.
func AppendIGMPv3Query(b []byte, l Link, src netip.Addr, q Query) []byte {
	b, m := l.igmp(b, src, queryTo(q.Group, AllHosts4), IGMPv3QueryFullLen(q))
	PutIGMPv3Query(m, q)
	return b
}

// AppendIGMPv3Report appends a report of version 3; JoinRecord and LeaveRecord make the records.
func AppendIGMPv3Report(b []byte, l Link, src netip.Addr, rs ...GroupRecord) []byte {
	b, m := l.igmp(b, src, AllIGMPv3, IGMPv3ReportFullLen(rs))
	PutIGMPv3Report(m, rs)
	return b
}

// queryTo returns where a query about group is sent.
func queryTo(group, general netip.Addr) netip.Addr {
	if group.IsMulticast() {
		return group
	}
	return general
}

// mld appends Ethernet, IP and hop-by-hop headers for an MLD message of n bytes and returns its place.
func (l Link) mld(b []byte, src, dst netip.Addr, n int) (whole, message []byte) {
	b, p := l.open(b, GroupMAC(dst), TypeIPv6, IPv6Len+HopByHopLen+n)
	PutIPv6(p, IPv6Fields{PayloadLen: HopByHopLen + n, NextHeader: ProtoHopByHop, HopLimit: 1, Src: src, Dst: dst})
	PutRouterAlert(p[IPv6Len:], ProtoICMPv6)
	return b, p[IPv6Len+HopByHopLen:]
}

// AppendMLDv1Report appends a report of version 1 that src, a link-local address, is a member of group, sent to the
// group.
func AppendMLDv1Report(b []byte, l Link, src, group netip.Addr) []byte {
	b, m := l.mld(b, src, group, MLDLen)
	PutMLDv1(m, src, group, MLDv1Report, group)
	return b
}

// AppendMLDv1Done appends the message of version 1 that src, a link-local address, leaves group, sent to all routers.
func AppendMLDv1Done(b []byte, l Link, src, group netip.Addr) []byte {
	b, m := l.mld(b, src, AllRouters6, MLDLen)
	PutMLDv1(m, src, AllRouters6, MLDv1Done, group)
	return b
}

// AppendMLDv2Report appends a report of version 2; JoinRecord and LeaveRecord make the records.
// src must be a link-local address, or routers ignore the report.
func AppendMLDv2Report(b []byte, l Link, src netip.Addr, rs ...GroupRecord) []byte {
	b, m := l.mld(b, src, AllMLDv2, MLDv2ReportFullLen(rs))
	PutMLDv2Report(m, src, AllMLDv2, rs)
	return b
}

// AppendMLDv2Query appends a query of version 2: a general one, to all nodes, if q.Group is ::, else to the group.
// src is a link-local address.
func AppendMLDv2Query(b []byte, l Link, src netip.Addr, q Query) []byte {
	dst := queryTo(q.Group, AllNodes6)
	b, m := l.mld(b, src, dst, MLDv2QueryFullLen(q))
	PutMLDv2Query(m, src, dst, q)
	return b
}

// Datagram is the head of a UDP datagram that AppendUDP sends. Both addresses are of the same IP version.
type Datagram struct {
	Src, Dst  netip.AddrPort
	TOS       uint8 // traffic class in IPv6
	TTL       uint8 // hop limit in IPv6
	FlowLabel uint32
	Checksum  bool // without it the checksum is 0, as RoCEv2 senders send it
}

// AppendUDP appends a UDP datagram. IPv4 has Don't Fragment set and identification 0, as RoCEv2 requires.
// Payload and header together must fit IP's length field.
func AppendUDP(b []byte, l Link, to MAC, d Datagram, payload []byte) []byte {
	n := UDPLen + len(payload)
	src, dst := d.Src.Addr(), d.Dst.Addr()
	var p []byte
	if src.Is4() {
		b, p = l.open(b, to, TypeIPv4, IPv4Len+n)
		PutIPv4(p, IPv4Fields{
			TOS: d.TOS, TotalLen: IPv4Len + n, Flags: IPv4DontFragment, TTL: d.TTL, Protocol: ProtoUDP, Src: src, Dst: dst,
		})
		p = p[IPv4Len:]
	} else {
		b, p = l.open(b, to, TypeIPv6, IPv6Len+n)
		PutIPv6(p, IPv6Fields{
			TrafficClass: d.TOS, FlowLabel: d.FlowLabel, PayloadLen: n, NextHeader: ProtoUDP, HopLimit: d.TTL, Src: src, Dst: dst,
		})
		p = p[IPv6Len:]
	}
	PutUDP(p, UDPFields{SrcPort: d.Src.Port(), DstPort: d.Dst.Port(), Len: n})
	copy(p[UDPLen:], payload)
	if d.Checksum {
		SetUDPChecksum(p, src, dst)
	}
	return b
}

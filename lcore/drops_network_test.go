// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"encoding/binary"
	"slices"

	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

func inVLAN100(w *fixture) { w.onVLAN(100) }

func onlyVersion(v uint8) func(*fixture) {
	return func(w *fixture) { w.config.Versions = v }
}

// etherCases are about Ethernet and its tag.
var etherCases = []roceCase{
	{"a frame", "", v4(), nil},
	{"no frame at all", "l2_short", nil, nil},
	{"ends inside the Ethernet header", "l2_short", v4()[:13], nil},
	{"ends inside the tag", "l2_short", tagged(v4(), 0x81, 0, 0, 100)[:16], inVLAN100},
	{"cut, because its tag is not 802.1Q's", "vlan_double", tagged(v4(), 0x81, 0, 0, 100)[:17], inVLAN100},
	{"to another MAC address", "l2_notus", v4(func(p *roce.Packet) { p.Dst[5] = 9 }), nil},
	{"from a multicast MAC address", "l2_badsrc", v4(func(p *roce.Packet) { p.Src[0] |= 1 }), nil},
	{"from the broadcast MAC address", "l2_badsrc", v4(func(p *roce.Packet) { p.Src = frame.MAC{255, 255, 255, 255, 255, 255} }), nil},
	{"from MAC address zero", "l2_badsrc", v4(func(p *roce.Packet) { p.Src = frame.MAC{} }), nil},
	{"from the bridge's own MAC address", "loop_self", v4(func(p *roce.Packet) { p.Src = bridgeMAC }), nil},
	{"two tags", "vlan_double", tagged(v4(), 0x81, 0, 0, 100, 0x81, 0, 0, 100), inVLAN100},
	{"an 802.1ad tag", "vlan_double", tagged(v4(), 0x88, 0xa8, 0, 100), inVLAN100},
	{"an 802.1ad tag inside", "vlan_double", tagged(v4(), 0x81, 0, 0, 100, 0x88, 0xa8, 0, 100), inVLAN100},
	{"another VLAN", "vlan_unknown", tagged(v4(), 0x81, 0, 0, 101), inVLAN100},
	{"untagged on a VLAN", "vlan_unknown", v4(), inVLAN100},
	{"tagged without a VLAN", "vlan_unknown", tagged(v4(), 0x81, 0, 0, 100), nil},
	{"the VLAN, with priority and DEI", "", tagged(v4(), 0x81, 0, 0xf0, 100), inVLAN100},
	{"a priority tag", "", tagged(v4(), 0x81, 0, 0x60, 0), nil},
	{"LLDP", "l2_other", patch(v4(), atEthType, 0x88, 0xcc), nil},
	{"an 802.3 length instead of a type", "l2_other", patch(v4(), atEthType, 0, 60), nil},
	{"multicast MAC, unicast IPv4", "l2_l3_mismatch", v4(func(p *roce.Packet) { p.Dst = frame.GroupMAC(group4) }), nil},
	{"unicast MAC, IPv4 group", "l2_l3_mismatch", v4(to(group4), func(p *roce.Packet) { p.Dst = bridgeMAC }), nil},
	{"broadcast MAC, IPv4 group", "l2_l3_mismatch", v4(to(group4), func(p *roce.Packet) { p.Dst = frame.MAC{255, 255, 255, 255, 255, 255} }), nil},
	{"unicast MAC, IPv6 group", "l2_l3_mismatch", v6(to(group6), func(p *roce.Packet) { p.Dst = bridgeMAC }), nil},
	{"multicast MAC, unicast GID", "l2_l3_mismatch", v1(func(p *roce.Packet) { p.Dst = frame.GroupMAC(group6) }), nil},
	{"a multicast MAC of another group", "", v4(to(group4), func(p *roce.Packet) { p.Dst = frame.GroupMAC(group6) }), nil},
}

// ip4Cases are about the IPv4 header.
var ip4Cases = []roceCase{
	{"nothing behind Ethernet, IPv4", "ip_hdr", v4()[:14], nil},
	{"IPv4 header cut off", "ip_hdr", v4()[:33], nil},
	{"version 6 under 0800", "ip_hdr", sign(sum(patch(v4(), atNet, 0x65))), nil},
	{"IPv4 header of 16 bytes", "ip_hdr", patch(v4(), atNet, 0x44), nil},
	{"IPv4 options", "ip_options", sum(patch(slices.Insert(v4(), at4UDP, 1, 1, 1, 0), atNet, 0x46, 0, 0, 64)), nil},
	{"IPv4 checksum wrong", "ip_csum", sign(patch(v4(), at4Sum, 0x26, 0x38)), nil},
	{"IPv4 checksum zero", "ip_csum", sign(patch(v4(), at4Sum, 0, 0)), nil},
	{"IPv4 longer than the frame", "ip_len", sign(sum(patch(v4(), at4Len, 0, 61))), nil},
	{"IPv4 shorter than its header", "ip_len", sum(patch(v4(), at4Len, 0, 19)), nil},
	{"IPv4 length 0", "ip_len", sum(patch(v4(), at4Len, 0, 0)), nil},
	{"IPv4 longer than UDP", "ip_len", sign(sum(patch(append(v4(), 0, 0, 0, 0), at4Len, 0, 64))), nil},
	{"a trailer", "", append(v4(), 1, 2, 3, 4, 5, 6, 7), nil},
	{"first fragment", "ip_frag", sign(sum(patch(v4(), at4Frag, 0x20, 0))), nil},
	{"middle fragment", "ip_frag", sign(sum(patch(v4(), at4Frag, 0x20, 1))), nil},
	{"last fragment", "ip_frag", sign(sum(patch(v4(), at4Frag, 0x1f, 0xff))), nil},
	{"may be fragmented, but is not", "", sign(sum(patch(v4(), at4Frag, 0, 0))), nil},
	{"with an identification", "", sign(sum(patch(v4(), at4Frag-2, 0x12, 0x34))), nil},
	{"TTL 0", "ip_ttl", v4(func(p *roce.Packet) { p.HopLimit = 0 }), nil},
	{"TTL 1", "", v4(func(p *roce.Packet) { p.HopLimit = 1 }), nil},
	{"from 0.0.0.0", "ip_badsrc", v4(from("0.0.0.0")), nil},
	{"from 127.0.0.1", "ip_badsrc", v4(from("127.0.0.1")), nil},
	{"from a group", "ip_badsrc", v4(from("224.0.0.1")), nil},
	{"from the reserved range", "ip_badsrc", v4(from("240.0.0.1")), nil},
	{"from the broadcast address", "ip_badsrc", v4(from("255.255.255.255")), nil},
	{"from the subnet's broadcast address", "ip_badsrc", v4(from("10.10.0.255")), nil},
	{"to itself", "ip_badsrc", v4(from("10.10.0.2")), nil},
	{"from the bridge's IPv4 address", "loop_self", v4(from("10.10.0.254")), nil},
	{"to the broadcast address", "ip_baddst", v4(dest("255.255.255.255")), nil},
	{"to the subnet's broadcast address", "ip_baddst", v4(dest("10.10.0.255")), nil},
	{"to 0.0.0.0", "ip_baddst", v4(dest("0.0.0.0")), nil},
	{"to 127.0.0.1", "ip_baddst", v4(dest("127.0.0.1")), nil},
	{"to the reserved range", "ip_baddst", v4(dest("240.0.0.1")), nil},
	{"TCP", "not_roce", sum(patch(v4(), at4Proto, 6)), nil},
	{"RoCEv2 on a RoCEv1 port, IPv4", "version_off", v4(), onlyVersion(lcore.V1)},
}

// ip6Cases are about the IPv6 header.
var ip6Cases = []roceCase{
	{"a frame of IPv6", "", v6(), nil},
	{"nothing behind Ethernet, IPv6", "ip_hdr", v6()[:14], nil},
	{"IPv6 header cut off", "ip_hdr", v6()[:53], nil},
	{"version 4 under 86dd", "ip_hdr", patch(v6(), atNet, 0x46), nil},
	{"hop-by-hop options before UDP", "ip6_ext", withExtension(0), nil},
	{"hop-by-hop options and nothing behind", "ip6_ext", patch(v6(), at6Next, 0)[:54], nil},
	{"destination options", "ip6_ext", withExtension(60), nil},
	{"routing header", "ip6_ext", withExtension(43), nil},
	{"IPv6 fragment", "ip6_ext", withExtension(44), nil},
	{"AH", "ip6_ext", withExtension(51), nil},
	{"ESP", "ip6_ext", withExtension(50), nil},
	{"no next header", "ip6_ext", patch(v6(), at6Next, 59), nil},
	{"IPv6 payload length 0, or a jumbogram", "ip_len", patch(v6(), at6Len, 0, 0), nil},
	{"IPv6 longer than the frame", "ip_len", sign(patch(v6(), at6Len, 0, 41)), nil},
	{"IPv6 longer than UDP", "ip_len", sign(patch(append(v6(), 0, 0, 0, 0), at6Len, 0, 44)), nil},
	{"a trailer behind IPv6", "", append(v6(), 1, 2, 3), nil},
	{"hop limit 0", "ip_ttl", v6(func(p *roce.Packet) { p.HopLimit = 0 }), nil},
	{"from ::", "ip_badsrc", v6(from("::")), nil},
	{"from ::1", "ip_badsrc", v6(from("::1")), nil},
	{"from an IPv6 group", "ip_badsrc", v6(from("ff15::1")), nil},
	{"from an IPv4-mapped address", "ip_badsrc", v6(from("::ffff:10.10.0.1")), nil},
	{"to itself, IPv6", "ip_badsrc", v6(from("2001:db8::2")), nil},
	{"from the bridge's IPv6 address", "loop_self", v6(from("2001:db8::fe")), nil},
	{"to ::", "ip_baddst", v6(dest("::")), nil},
	{"to ::1", "ip_baddst", v6(dest("::1")), nil},
	{"to an IPv4-mapped address", "ip_baddst", v6(dest("::ffff:10.10.0.2")), nil},
	{"to RoCEv1's form of an IPv4 group", "ip_baddst", v6(to(group6), dest("ff0e::ffff:239.1.2.3")), nil},
	{"TCP over IPv6", "not_roce", patch(v6(), at6Next, 6), nil},
	{"RoCEv2 on a RoCEv1 port, IPv6", "version_off", v6(), onlyVersion(lcore.V1)},
}

// withExtension inserts an extension header between IPv6 and UDP.
func withExtension(kind byte) []byte {
	f := slices.Insert(v6(), at6UDP, 17, 0, 0, 0, 0, 0, 0, 0)
	return patch(patch(f, at6Next, kind), at6Len, 0, f[at6Len+1]+8)
}

// grhCases are about RoCEv1.
var grhCases = []roceCase{
	{"a frame of RoCEv1", "", v1(), nil},
	{"RoCEv1 on a RoCEv2 port", "version_off", v1(), onlyVersion(lcore.V2)},
	{"GRH cut off", "grh_hdr", v1()[:53], nil},
	{"GRH of version 4", "grh_hdr", patch(v1(), atNet, 0x40), nil},
	{"GRH without a BTH", "grh_hdr", patch(v1(), at6Next, 17), nil},
	{"GRH length beyond the frame", "grh_len", patch(v1(), at6Len, 0, 36), nil},
	{"GRH length 65535", "grh_len", patch(v1(), at6Len, 255, 255), nil},
	{"GRH length below BTH and ICRC", "grh_len", sign(patch(v1(), at6Len, 0, 12)), nil},
	{"GRH length not a multiple of 4", "grh_len", sign(patch(v1(), at6Len, 0, 30)), nil},
	{"a trailer behind RoCEv1", "", append(v1(), 1, 2, 3, 4), nil},
	{"GRH hop limit 0 stays in the subnet", "", v1(func(p *roce.Packet) { p.HopLimit = 0 }), nil},
	{"from GID zero", "ip_badsrc", v1(from("::")), nil},
	{"from the loopback GID", "ip_badsrc", v1(from("::1")), nil},
	{"from a multicast GID", "ip_badsrc", v1(from("ff0e::1")), nil},
	{"from an IPv4-mapped group", "ip_badsrc", v1(from("::ffff:239.1.2.3")), nil},
	{"from an IPv4-mapped loopback", "ip_badsrc", v1(from("::ffff:127.0.0.1")), nil},
	{"from the IPv4-mapped zero", "ip_badsrc", v1(from("::ffff:0.0.0.0")), nil},
	{"from IPv4-mapped broadcast", "ip_badsrc", v1(from("::ffff:255.255.255.255")), nil},
	{"from the IPv4-mapped broadcast address of the subnet", "ip_badsrc", v1(from("::ffff:10.10.0.255")), nil},
	{"to its own GID", "ip_badsrc", v1(func(p *roce.Packet) { p.DstIP = p.SrcIP }), nil},
	{"from the bridge's GID", "loop_self", v1(from("2001:db8::fe")), nil},
	{"from the bridge's IPv4-mapped GID", "loop_self", v1(from("::ffff:10.10.0.254")), nil},
	{"to GID zero", "ip_baddst", v1(dest("::")), nil},
}

// udpCases are about UDP.
var udpCases = []roceCase{
	{"UDP cut off", "udp_len", sum(patch(v4()[:at4UDP+7], at4Len, 0, 27)), nil},
	{"another destination port", "not_roce", sign(patch(v4(), at4UDP+inUDPDst, 0, 53)), nil},
	{"the RoCE port as source only", "not_roce", sign(patch(v4(), at4UDP, 0x12, 0xb7, 0, 53)), nil},
	{"from port 0", "", v4(func(p *roce.Packet) { p.SrcPort = 0 }), nil},
	{"from port 69", "", v4(func(p *roce.Packet) { p.SrcPort = 69 }), nil},
	{"from port 4791", "", v4(func(p *roce.Packet) { p.SrcPort = 4791 }), nil},
	{"UDP length 7", "udp_len", sign(patch(v4(), at4UDP+inUDPLen, 0, 7)), nil},
	{"UDP length below BTH and ICRC", "udp_len", sign(patch(v4(), at4UDP+inUDPLen, 0, minUDP-4)), nil},
	{"UDP and IPv4 end in the BTH", "udp_len", short(v4(), 0x11, -4), nil},
	{"UDP and IPv6 end in the BTH", "udp_len", short(v6(), 0x11, -4), nil},
	{"a GRH that ends in the BTH", "grh_len", short(v1(), 0x11, -4), nil},
	{"UDP length not a multiple of 4", "udp_len", sign(patch(v4(), at4UDP+inUDPLen, 0, 38)), nil},
	{"UDP longer than IPv4", "udp_len", sign(patch(v4(), at4UDP+inUDPLen, 0, 44)), nil},
	{"UDP shorter than IPv4", "ip_len", sign(patch(v4(), at4UDP+inUDPLen, 0, 36)), nil},
	{"UDP longer than IPv6", "udp_len", sign(patch(v6(), at6UDP+inUDPLen, 0, 44)), nil},
	{"UDP shorter than IPv6", "ip_len", sign(patch(v6(), at6UDP+inUDPLen, 0, 36)), nil},
	{"no ICRC", "icrc", sum(patch(patch(v4(payload(0))[:at4UDP+28], at4Len, 0, 48), at4UDP+inUDPLen, 0, 28)), nil},
	{"UDP checksum right", "", v4(checksummed), nil},
	{"UDP checksum right, IPv6", "", v6(checksummed), nil},
	{"UDP checksum unfinished", "", unfinished(v4(checksummed)), nil},
	{"UDP checksum unfinished, IPv6", "", unfinished(v6(checksummed)), nil},
	{"UDP checksum wrong", "udp_csum", wrongUDPSum(v4(checksummed), at4UDP), nil},
	{"UDP checksum wrong, IPv6", "udp_csum", wrongUDPSum(v6(checksummed), at6UDP), nil},
}

func checksummed(p *roce.Packet) { p.UDPChecksum = true }

// unfinished is a datagram as Linux hands it to a device: with the sum of the pseudo header.
func unfinished(b []byte) []byte {
	b = slices.Clone(b)
	f, fault := frame.Open(b)
	if fault != "" {
		panic(fault)
	}
	binary.BigEndian.PutUint16(f.Payload[inUDPSum:], 0)
	whole := frame.PseudoChecksum(f.Src(), f.Dst(), frame.ProtoUDP, f.Payload)
	data := frame.Checksum(f.Payload)
	sum := uint32(^whole) + uint32(data) // what the whole has and the data has not
	binary.BigEndian.PutUint16(f.Payload[inUDPSum:], uint16(sum+sum>>16))
	return b
}

func wrongUDPSum(f []byte, udp int) []byte { return patch(f, udp+inUDPSum+1, f[udp+inUDPSum+1]+1) }

// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package dpdk

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// The ethertypes of the probes.
const (
	typeIPv4   = 0x0800
	typeARP    = 0x0806
	typeVLAN   = 0x8100
	typeIPv6   = 0x86dd
	typeRoCEv1 = 0x8915
	typeTest   = 0x88b5
)

// The probes' names.
const (
	roceV4       = "RoCE v2 over IPv4"
	roceV4Group  = "RoCE v2 to an IPv4 group"
	roceV4VLAN   = "RoCE v2 over IPv4 in a VLAN"
	roceV6       = "RoCE v2 over IPv6"
	roceV6Group  = "RoCE v2 to an IPv6 group"
	roceV1       = "RoCE v1"
	arp          = "ARP"
	igmpReport   = "an IGMP report"
	otherV4Group = "other UDP to the IPv4 group"
	otherV6Group = "other UDP to the IPv6 group"
)

const (
	groupIPv4 = "239.1.2.3"
	groupIPv6 = "ff0e::1"
)

var groupMAC = [6]byte{0x01, 0, 0x5e, 1, 2, 3}

// probe is a frame that can be told from all others by its end.
type probe struct {
	name  string
	frame []byte
}

// markLen is the length of a probe's end, which is its name.
const markLen = 40

func (p probe) mark() []byte {
	mark := make([]byte, markLen)
	copy(mark, p.name)
	return mark
}

// probes are one frame of each kind that rules tell apart, and what is next to them. to is the port's address.
func probes(to [6]byte) []probe {
	const host4, host6 = "10.9.0.254", "fd09::fe"
	const igmp, tcp, udp, icmpv6 = 2, 6, 17, 58
	group6 := [6]byte{0x33, 0x33, 0, 0, 0, 1}
	roce, other := ports(0xc000, 4791), ports(0xc000, 5000)
	tagged := slices.Concat([]byte{0, 100, typeIPv4 >> 8, typeIPv4 & 0xff}, ipv4(host4, udp, roce))
	broadcast := [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	all := []probe{
		{roceV4, ethernet(to, typeIPv4, ipv4(host4, udp, roce))},
		{roceV4Group, ethernet(groupMAC, typeIPv4, ipv4(groupIPv4, udp, roce))},
		{roceV4VLAN, ethernet(to, typeVLAN, tagged)},
		{roceV6, ethernet(to, typeIPv6, ipv6(host6, udp, roce))},
		{roceV6Group, ethernet(group6, typeIPv6, ipv6(groupIPv6, udp, roce))},
		{roceV1, ethernet(to, typeRoCEv1, make([]byte, 60))},
		{arp, ethernet(broadcast, typeARP, []byte{0, 1, 8, 0, 6, 4, 0, 1, 18: 10, 9, 0, 9, 24: 10, 9, 0, 254, 45: 0})},
		{igmpReport, ethernet(groupMAC, typeIPv4, ipv4(groupIPv4, igmp, []byte{0x16, 0, 0, 0, 239, 1, 2, 3}))},
		{otherV4Group, ethernet(groupMAC, typeIPv4, ipv4(groupIPv4, udp, other))},
		{otherV6Group, ethernet(group6, typeIPv6, ipv6(groupIPv6, udp, other))},
		{"other UDP over IPv4", ethernet(to, typeIPv4, ipv4(host4, udp, other))},
		{"other UDP over IPv6", ethernet(to, typeIPv6, ipv6(host6, udp, other))},
		{"UDP from port 4791", ethernet(to, typeIPv4, ipv4(host4, udp, ports(4791, 5000)))},
		{"TCP to port 4791", ethernet(to, typeIPv4, ipv4(host4, tcp, slices.Concat(roce, make([]byte, 12))))},
		{"a neighbour solicitation", ethernet(to, typeIPv6, ipv6(host6, icmpv6, []byte{135, 0, 0, 0, 0, 0, 0, 0}))},
		{"an MLD query", ethernet(group6, typeIPv6, ipv6("ff02::1", 0, []byte{icmpv6, 0, 5, 2, 0, 0, 1, 0, 130, 0, 0, 0}))},
		{"an unknown ethertype", ethernet(broadcast, typeTest, make([]byte, 46))},
	}
	for i, p := range all {
		all[i].frame = append(p.frame, p.mark()...)
	}
	return all
}

func ethernet(to [6]byte, ethertype uint16, payload []byte) []byte {
	frame := append(to[:], 0x02, 0, 0, 0, 0, 9)
	return append(binary.BigEndian.AppendUint16(frame, ethertype), payload...)
}

// ipv4 and ipv6 are packets but for the mark, and have no checksums: no classifier looks at them.
func ipv4(to string, protocol byte, payload []byte) []byte {
	h := []byte{0x45, 0, 0, byte(20 + len(payload) + markLen), 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 9, 0, 9}
	return slices.Concat(h, netip.MustParseAddr(to).AsSlice(), payload)
}

func ipv6(to string, next byte, payload []byte) []byte {
	h := []byte{0x60, 0, 0, 0, 0, byte(len(payload) + markLen), next, 64}
	return slices.Concat(h, netip.MustParseAddr("fd09::9").AsSlice(), netip.MustParseAddr(to).AsSlice(), payload)
}

// ports is a UDP header, or the beginning of a TCP header.
func ports(from, to uint16) []byte {
	h := binary.BigEndian.AppendUint16(nil, from)
	return append(binary.BigEndian.AppendUint16(h, to), 0, 8+markLen, 0, 0)
}

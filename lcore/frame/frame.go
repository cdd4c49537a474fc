// SPDX-License-Identifier: Apache-2.0

// Package frame parses and builds frames of the bridge's Ethernet side, up to where InfiniBand's own headers begin, and
// the protocols that management uses there: ARP, ND, IGMP and MLD.
//
//	Ethernet 14 [| 802.1Q tag 4] | IPv4 20.. or IPv6 40 | UDP 8  | BTH ... ICRC     RoCEv2, see package ib
//	                             |                      | ICMPv6 | NS, NA           IPv6 neighbours
//	                             | IPv4 + Router Alert  | IGMP                      IPv4 groups
//	                             | IPv6 + hop-by-hop    | ICMPv6 | MLD              IPv6 groups
//	                             | ARP 28                                           IPv4 neighbours
//
// Three layers, each usable alone:
//
//   - A view (Ethernet, VLAN, IPv4, ...) is made by its As function, which looks only at what the getters
//     need in order not to panic. Put writes a header from its Fields, every byte of it.
//   - Open, Frame.UDP, ParseARP, ParseND, ParseIGMP and ParseMLD validate received bytes, which may be hostile. A Fault
//     is the reason for which they reject.
//   - The Append functions make whole frames, tagged if the port is, and padded to the Ethernet minimum.
//
// Numbers are in host order, lengths in bytes. Views alias the frame they were taken from and are valid as long as it
// is; what the Parse functions return is copied. There is no state: all may be called concurrently on different frames.
package frame

// EtherTypes (IEEE 802 numbers).
const (
	TypeIPv4   uint16 = 0x0800
	TypeARP    uint16 = 0x0806
	TypeRARP   uint16 = 0x8035
	TypeVLAN   uint16 = 0x8100 // customer tag of IEEE 802.1Q
	TypeIPv6   uint16 = 0x86dd
	TypeSTag   uint16 = 0x88a8 // service tag of IEEE 802.1ad, which the bridge does not accept
	TypeRoCEv1 uint16 = 0x8915
)

// Protocol numbers of IPv4 and next headers of IPv6 (IANA).
const (
	ProtoHopByHop uint8 = 0
	ProtoIGMP     uint8 = 2
	ProtoUDP      uint8 = 17
	ProtoICMP     uint8 = 1
	ProtoICMPv6   uint8 = 58
)

// PortRoCEv2 is the UDP destination port of RoCEv2 (Annex A17).
const PortRoCEv2 uint16 = 4791

// MinLen is the shortest Ethernet frame without its FCS: 64 - 4 bytes (IEEE 802.3 §4.2.3.3).
const MinLen = 60

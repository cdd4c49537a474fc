// SPDX-License-Identifier: Apache-2.0

package ipoib

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"causeway/lcore/frame"
)

// Neighbour discovery (RFC 4861) on interfaces whose link-layer addresses have any length.
const (
	ipv6Header     = 40
	ndFixed        = 24 // of a message: type, code, checksum, flags, target
	ndHopLimit     = 255
	ndSolicitation = 135
	ndAdvertised   = 136

	optionSource = 1 // link-layer addresses
	optionTarget = 2
	optionUnit   = 8 // bytes
	optionHeader = 2

	flagSolicited = 0x40000000
	flagOverride  = 0x20000000 // the bridge that has a host is the only one that speaks for it
)

var allNodes = netip.MustParseAddr("ff02::1")

// padOf returns the bytes between an option's header and a link-layer address: before IPoIB's two are reserved (RFC 4391 §9.4).
func padOf(hardware int) int { return -(optionHeader + hardware) & (optionUnit - 1) }

// parseSolicitation reads the IPv6 packet of a neighbour solicitation; false: it is none, or does not say from which
// link-layer address it comes. Addresses of that are the packet's.
func parseSolicitation(b []byte, hardware int) (q question, ok bool) {
	if len(b) < ipv6Header+ndFixed || b[0]>>4 != 6 || b[6] != unix.IPPROTO_ICMPV6 || b[7] != ndHopLimit {
		return q, false
	}
	n := int(binary.BigEndian.Uint16(b[4:]))
	if n < ndFixed || len(b) < ipv6Header+n {
		return q, false
	}
	src, dst, m := netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:])), b[ipv6Header:ipv6Header+n]
	q.of, q.by = netip.AddrFrom16([16]byte(m[8:])), src
	if m[0] != ndSolicitation || m[1] != 0 || q.of.IsMulticast() || frame.PseudoChecksum(src, dst, unix.IPPROTO_ICMPV6, m) != 0 {
		return q, false
	}
	for o := m[ndFixed:]; len(o) >= optionUnit; {
		size := int(o[1]) * optionUnit
		if size == 0 || size > len(o) {
			return q, false
		}
		if at := optionHeader + padOf(hardware); o[0] == optionSource && size == at+hardware {
			q.from = o[at:size]
		}
		o = o[size:]
	}
	return q, q.from != nil
}

// appendAdvertisement appends the IPv6 packet of a neighbour advertisement: at has an address, and tells to, which has asked or
// is all nodes.
func appendAdvertisement(b []byte, of, to netip.Addr, at net.HardwareAddr) []byte {
	option := optionHeader + padOf(len(at)) + len(at)
	flags := uint32(flagOverride)
	if !to.IsMulticast() {
		flags |= flagSolicited
	}
	m := binary.BigEndian.AppendUint32([]byte{ndAdvertised, 0, 0, 0}, flags)
	m = append(append(m, of.AsSlice()...), optionTarget, byte(option/optionUnit))
	m = append(append(m, make([]byte, padOf(len(at)))...), at...)
	binary.BigEndian.PutUint16(m[2:], frame.PseudoChecksum(of, to, unix.IPPROTO_ICMPV6, m))
	b = append(b, 6<<4, 0, 0, 0, 0, byte(len(m)), unix.IPPROTO_ICMPV6, ndHopLimit)
	return append(append(append(b, of.AsSlice()...), to.AsSlice()...), m...)
}

// solicitedNode returns the group to which nodes send solicitations for an address (RFC 4291 §2.7.1).
func solicitedNode(ip netip.Addr) netip.Addr {
	a, g := ip.As16(), [16]byte{0: 0xff, 1: 2, 11: 1, 12: 0xff}
	copy(g[13:], a[13:])
	return netip.AddrFrom16(g)
}

// groupLink returns the link-layer address of an IPv6 group on an interface: on IPoIB it has the broadcast address's scope and
// partition, and IPv6's signature (RFC 4391 §4); on Ethernet see RFC 2464 §7.
func groupLink(g netip.Addr, broadcast net.HardwareAddr) net.HardwareAddr {
	a := g.As16()
	if len(broadcast) != addressLen {
		return append(net.HardwareAddr{0x33, 0x33}, a[12:]...)
	}
	const signature, id = 6, 10
	link := slices.Clone(broadcast)
	link[signature], link[signature+1] = 0x60, 0x1b
	copy(link[id:], a[len(a)-(addressLen-id):])
	return link
}

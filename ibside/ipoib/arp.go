// SPDX-License-Identifier: Apache-2.0

package ipoib

import (
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// An arp is an ARP packet for IPv4 (RFC 826), whose link-layer addresses have the interface's length: 20 bytes on IPoIB
// (RFC 4391 §9.1).
type arp struct {
	op       uint16
	sha, tha net.HardwareAddr
	spa, tpa netip.Addr
}

const (
	arpRequest = 1
	arpReply   = 2

	arpFixed = 8
	ipv4Len  = 4
)

// parseARP takes a packet apart; false: it is none, or one of other addresses. Its link-layer addresses are the packet's.
func parseARP(b []byte, hardware int) (a arp, ok bool) {
	if len(b) < arpFixed+2*hardware+2*ipv4Len || int(b[4]) != hardware || b[5] != ipv4Len || binary.BigEndian.Uint16(b[2:]) != unix.ETH_P_IP {
		return a, false
	}
	a.op = binary.BigEndian.Uint16(b[6:])
	next := func(n int) (x []byte) {
		x, b = b[:n], b[n:]
		return x
	}
	next(arpFixed)
	a.sha, a.spa = next(hardware), netip.AddrFrom4([4]byte(next(ipv4Len)))
	a.tha, a.tpa = next(hardware), netip.AddrFrom4([4]byte(next(ipv4Len)))
	return a, true
}

// parseRequest reads a request as parseARP does.
func parseRequest(b []byte, hardware int) (question, bool) {
	a, ok := parseARP(b, hardware)
	return question{a.tpa, a.spa, a.sha}, ok && a.op == arpRequest
}

// appendTo appends the packet. kind is the interface's (ARPHRD).
func (a *arp) appendTo(b []byte, kind uint16) []byte {
	b = binary.BigEndian.AppendUint16(b, kind)
	b = binary.BigEndian.AppendUint16(b, unix.ETH_P_IP)
	b = append(b, byte(len(a.sha)), ipv4Len)
	b = binary.BigEndian.AppendUint16(b, a.op)
	for _, x := range [][]byte{a.sha, a.spa.AsSlice(), a.tha, a.tpa.AsSlice()} {
		b = append(b, x...)
	}
	return b
}

// appendLink appends the header that an interface's packet socket wants before a packet: on IPoIB the receiver's address, which
// the kernel takes off again, and the encapsulation (RFC 4391 §6), otherwise Ethernet's.
func appendLink(b []byte, kind, protocol uint16, to, from net.HardwareAddr) []byte {
	b = append(b, to...)
	if kind == unix.ARPHRD_INFINIBAND {
		return append(binary.BigEndian.AppendUint16(b, protocol), 0, 0)
	}
	return binary.BigEndian.AppendUint16(append(b, from...), protocol)
}

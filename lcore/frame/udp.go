// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"net/netip"
)

// UDPLen is the length of a UDP header.
const UDPLen = 8

const (
	udpSrc  = 0
	udpDst  = 2
	udpLen  = 4
	udpCsum = 6
)

// UDP is a view of a UDP header (RFC 768), in wire order.
// It aliases the packet it was taken from and lives as long as its caller owns that packet.
type UDP []byte

// AsUDP returns the first UDPLen bytes of b as a UDP header.
// It reports false when b is too short; it never panics.
func AsUDP(b []byte) (UDP, bool) {
	if len(b) < UDPLen {
		return nil, false
	}
	return UDP(b[:UDPLen:UDPLen]), true
}

// SrcPort returns the source port. RoCEv2 senders put entropy there, any value is good.
func (h UDP) SrcPort() uint16 { return binary.BigEndian.Uint16(h[udpSrc:]) }

// DstPort returns the destination port, PortRoCEv2 for RoCEv2.
func (h UDP) DstPort() uint16 { return binary.BigEndian.Uint16(h[udpDst:]) }

// Len returns the length of header and payload.
func (h UDP) Len() int { return int(binary.BigEndian.Uint16(h[udpLen:])) }

// Checksum returns the checksum as it was sent; 0 means that there is none.
func (h UDP) Checksum() uint16 { return binary.BigEndian.Uint16(h[udpCsum:]) }

// Fields returns everything the header says.
func (h UDP) Fields() UDPFields {
	return UDPFields{SrcPort: h.SrcPort(), DstPort: h.DstPort(), Len: h.Len(), Checksum: h.Checksum()}
}

// UDPFields are the fields of a UDP header.
type UDPFields struct {
	SrcPort, DstPort uint16
	Len              int    // with the header, up to 65535
	Checksum         uint16 // 0 is none, as RoCEv2 senders do it
}

// PutUDP writes f to the first UDPLen bytes of b. It panics when b is shorter.
// The checksum is written as it is given: SetUDPChecksum makes a right one.
func PutUDP(b []byte, f UDPFields) UDP {
	h := UDP(b[:UDPLen:UDPLen])
	binary.BigEndian.PutUint16(h[udpSrc:], f.SrcPort)
	binary.BigEndian.PutUint16(h[udpDst:], f.DstPort)
	binary.BigEndian.PutUint16(h[udpLen:], uint16(f.Len))
	binary.BigEndian.PutUint16(h[udpCsum:], f.Checksum)
	return h
}

// SetUDPChecksum writes the right checksum into the datagram b, header and payload, between the two addresses.
// One that adds up to 0 is sent as 0xffff, because 0 means none (RFC 768). It panics when b has no whole header.
func SetUDPChecksum(b []byte, src, dst netip.Addr) {
	binary.BigEndian.PutUint16(b[udpCsum:UDPLen], 0)
	c := PseudoChecksum(src, dst, ProtoUDP, b)
	if c == 0 {
		c = 0xffff
	}
	binary.BigEndian.PutUint16(b[udpCsum:UDPLen], c)
}

// UDPChecksumOK reports whether the datagram b, header and payload, has no checksum or a right one. That there
// is none is good for IPv6 too: RoCEv2 has the ICRC (as RFC 6935 allows to tunnels). A cut header is not good.
func UDPChecksumOK(b []byte, src, dst netip.Addr) bool {
	h, ok := AsUDP(b)
	return ok && (h.Checksum() == 0 || PseudoChecksum(src, dst, ProtoUDP, b) == 0 || UDPChecksumUnfinished(b, src, dst))
}

// UDPChecksumUnfinished reports whether the checksum of a datagram is the sum of its pseudo header alone. So Linux leaves it for
// a device to finish, and so it stays where there is none: from one interface of a machine to another.
func UDPChecksumUnfinished(b []byte, src, dst netip.Addr) bool {
	h, ok := AsUDP(b)
	return ok && h.Checksum() == ^fold(pseudo(src, dst, ProtoUDP, len(b)))
}

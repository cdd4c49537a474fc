// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"net/netip"
)

// IPv6Len is the length of an IPv6 header without extension headers.
const IPv6Len = 40

const (
	ip6Word0 = 0
	ip6Len   = 4
	ip6Next  = 6
	ip6Hops  = 7
	ip6Src   = 8
	ip6Dst   = 24
)

// IPv6 is a view of the fixed IPv6 header (RFC 8200 §3), in wire order.
// It aliases the packet it was taken from and lives as long as its caller owns that packet.
type IPv6 []byte

// AsIPv6 returns the first IPv6Len bytes of b as an IPv6 header.
// It reports false when b is shorter or when the version is not 6; it never panics.
func AsIPv6(b []byte) (IPv6, bool) {
	if len(b) < IPv6Len || b[ip6Word0]>>4 != 6 {
		return nil, false
	}
	return IPv6(b[:IPv6Len:IPv6Len]), true
}

// TrafficClass returns DSCP and ECN as one byte.
func (h IPv6) TrafficClass() uint8 { return uint8(binary.BigEndian.Uint16(h[ip6Word0:]) >> 4) }

// FlowLabel returns the 20-bit flow label.
func (h IPv6) FlowLabel() uint32 { return binary.BigEndian.Uint32(h[ip6Word0:]) & 0xfffff }

// PayloadLen returns the length of all that follows the fixed header.
func (h IPv6) PayloadLen() int { return int(binary.BigEndian.Uint16(h[ip6Len:])) }

// NextHeader returns what follows, an extension header or the payload.
func (h IPv6) NextHeader() uint8 { return h[ip6Next] }

// HopLimit returns the hop limit.
func (h IPv6) HopLimit() uint8 { return h[ip6Hops] }

// Src returns the source address.
func (h IPv6) Src() netip.Addr { return netip.AddrFrom16([16]byte(h[ip6Src : ip6Src+16])) }

// Dst returns the destination address.
func (h IPv6) Dst() netip.Addr { return netip.AddrFrom16([16]byte(h[ip6Dst : ip6Dst+16])) }

// Fields returns all fields.
func (h IPv6) Fields() IPv6Fields {
	return IPv6Fields{
		TrafficClass: h.TrafficClass(), FlowLabel: h.FlowLabel(), PayloadLen: h.PayloadLen(),
		NextHeader: h.NextHeader(), HopLimit: h.HopLimit(), Src: h.Src(), Dst: h.Dst(),
	}
}

// IPv6Fields are the fields of an IPv6 header. An address of IPv4 is written mapped, the zero Addr as ::, a zone not.
type IPv6Fields struct {
	TrafficClass uint8
	FlowLabel    uint32 // 20 bits
	PayloadLen   int    // without the header, up to 65535
	NextHeader   uint8
	HopLimit     uint8
	Src, Dst     netip.Addr
}

// PutIPv6 writes f to the first IPv6Len bytes of b. It panics when b is shorter.
func PutIPv6(b []byte, f IPv6Fields) IPv6 {
	h := IPv6(b[:IPv6Len:IPv6Len])
	binary.BigEndian.PutUint32(h[ip6Word0:], 6<<28|uint32(f.TrafficClass)<<20|f.FlowLabel&0xfffff)
	binary.BigEndian.PutUint16(h[ip6Len:], uint16(f.PayloadLen))
	h[ip6Next], h[ip6Hops] = f.NextHeader, f.HopLimit
	src, dst := as16(f.Src), as16(f.Dst)
	copy(h[ip6Src:], src[:])
	copy(h[ip6Dst:], dst[:])
	return h
}

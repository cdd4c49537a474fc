// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"net/netip"
)

// IPv4Len is the length of an IPv4 header without options, IPv4MaxLen with the most.
const (
	IPv4Len    = 20
	IPv4MaxLen = 60
)

// Bits of IPv4.Flags, of which the highest is reserved.
const (
	IPv4MoreFragments uint8 = 1
	IPv4DontFragment  uint8 = 2
)

const (
	ip4VerIHL = 0
	ip4TOS    = 1
	ip4Len    = 2
	ip4ID     = 4
	ip4Frag   = 6
	ip4TTL    = 8
	ip4Proto  = 9
	ip4Csum   = 10
	ip4Src    = 12
	ip4Dst    = 16
)

// IPv4 is a view of an IPv4 header with its options (RFC 791 §3.1), in wire order.
// It aliases the packet it was taken from and lives as long as its caller owns that packet.
type IPv4 []byte

// AsIPv4 returns the header at the start of b, options included. It reports false when the version is not 4, when
// the header length is below 20 bytes or when b is shorter than that length; it never panics.
// It checks neither the checksum nor the total length: Open does.
func AsIPv4(b []byte) (IPv4, bool) {
	if len(b) < IPv4Len || b[ip4VerIHL]>>4 != 4 {
		return nil, false
	}
	n := int(b[ip4VerIHL]&15) * 4
	if n < IPv4Len || n > len(b) {
		return nil, false
	}
	return IPv4(b[:n:n]), true
}

// HeaderLen returns the length of the header with its options.
func (h IPv4) HeaderLen() int { return len(h) }

// TOS returns DSCP and ECN as one byte (RFC 2474, RFC 3168).
func (h IPv4) TOS() uint8 { return h[ip4TOS] }

// TotalLen returns the length of header and payload.
func (h IPv4) TotalLen() int { return int(binary.BigEndian.Uint16(h[ip4Len:])) }

// ID returns the identification. The ICRC covers it.
func (h IPv4) ID() uint16 { return binary.BigEndian.Uint16(h[ip4ID:]) }

// Flags returns the three flag bits, of which IPv4DontFragment and IPv4MoreFragments have a meaning.
func (h IPv4) Flags() uint8 { return h[ip4Frag] >> 5 }

// FragmentOffset returns where the payload belongs in the datagram, a multiple of 8.
func (h IPv4) FragmentOffset() int { return int(binary.BigEndian.Uint16(h[ip4Frag:])&0x1fff) * 8 }

// IsFragment reports whether the packet is a part of a datagram, be it the first or the last.
func (h IPv4) IsFragment() bool { return h.Flags()&IPv4MoreFragments != 0 || h.FragmentOffset() != 0 }

// TTL returns the time to live.
func (h IPv4) TTL() uint8 { return h[ip4TTL] }

// Protocol returns what the payload is.
func (h IPv4) Protocol() uint8 { return h[ip4Proto] }

// Checksum returns the header checksum as it was sent.
func (h IPv4) Checksum() uint16 { return binary.BigEndian.Uint16(h[ip4Csum:]) }

// ChecksumOK reports whether the header checksum is right.
func (h IPv4) ChecksumOK() bool { return Checksum(h) == 0 }

// Src returns the source address.
func (h IPv4) Src() netip.Addr { return netip.AddrFrom4([4]byte(h[ip4Src : ip4Src+4])) }

// Dst returns the destination address.
func (h IPv4) Dst() netip.Addr { return netip.AddrFrom4([4]byte(h[ip4Dst : ip4Dst+4])) }

// Options returns the options with their padding, a multiple of 4 bytes. It aliases h.
func (h IPv4) Options() []byte { return h[IPv4Len:] }

// Fields returns all fields but the checksum. Options alias h and are nil when there are none.
func (h IPv4) Fields() IPv4Fields {
	f := IPv4Fields{
		TOS: h.TOS(), TotalLen: h.TotalLen(), ID: h.ID(), Flags: h.Flags(), FragmentOffset: h.FragmentOffset(),
		TTL: h.TTL(), Protocol: h.Protocol(), Src: h.Src(), Dst: h.Dst(),
	}
	if len(h) > IPv4Len {
		f.Options = h.Options()
	}
	return f
}

// IPv4Fields are the fields of an IPv4 header; version, header length and checksum follow from them.
// An address of IPv6 is written as 0.0.0.0 unless it maps one of IPv4.
type IPv4Fields struct {
	TOS            uint8
	TotalLen       int // with the header, up to 65535
	ID             uint16
	Flags          uint8 // three bits
	FragmentOffset int   // a multiple of 8, up to 65528
	TTL            uint8
	Protocol       uint8
	Src, Dst       netip.Addr
	Options        []byte // up to 40 bytes, sent with zeros up to a multiple of 4
}

// HeaderLen returns the length of the header that PutIPv4 writes.
func (f IPv4Fields) HeaderLen() int { return IPv4Len + (len(f.Options)+3)&^3 }

// PutIPv4 writes f with its checksum to the first f.HeaderLen bytes of b.
// It panics when b is shorter or when there are more than 40 bytes of options.
func PutIPv4(b []byte, f IPv4Fields) IPv4 {
	n := f.HeaderLen()
	if n > IPv4MaxLen {
		panic("frame: put IPv4: more than 40 bytes of options")
	}
	h := IPv4(b[:n:n])
	h[ip4VerIHL] = 4<<4 | uint8(n/4)
	h[ip4TOS] = f.TOS
	binary.BigEndian.PutUint16(h[ip4Len:], uint16(f.TotalLen))
	binary.BigEndian.PutUint16(h[ip4ID:], f.ID)
	binary.BigEndian.PutUint16(h[ip4Frag:], uint16(f.Flags&7)<<13|uint16(f.FragmentOffset/8)&0x1fff)
	h[ip4TTL], h[ip4Proto] = f.TTL, f.Protocol
	binary.BigEndian.PutUint16(h[ip4Csum:], 0)
	src, dst := as4(f.Src), as4(f.Dst)
	copy(h[ip4Src:], src[:])
	copy(h[ip4Dst:], dst[:])
	clear(h[IPv4Len+copy(h[IPv4Len:], f.Options):])
	binary.BigEndian.PutUint16(h[ip4Csum:], Checksum(h))
	return h
}

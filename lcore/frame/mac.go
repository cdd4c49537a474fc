// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/hex"
	"fmt"
	"net/netip"
)

// MACLen is the length of an Ethernet address.
const MACLen = 6

// MAC is an Ethernet address in the order it is sent.
type MAC [MACLen]byte

// Broadcast is the address of every station.
var Broadcast = MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// ParseMAC reads six pairs of hex digits, all separated by ":" or all by "-".
func ParseMAC(s string) (MAC, error) {
	const want = 3*MACLen - 1
	var m MAC
	bad := fmt.Errorf("frame: parse MAC address %q: write it as 02:00:00:00:00:01", s)
	if len(s) != want || (s[2] != ':' && s[2] != '-') {
		return MAC{}, bad
	}
	for i := range m {
		if _, err := hex.Decode(m[i:i+1], []byte(s[3*i:3*i+2])); err != nil {
			return MAC{}, bad
		}
		if i > 0 && s[3*i-1] != s[2] {
			return MAC{}, bad
		}
	}
	return m, nil
}

// String returns m as lower case hex digits separated by colons, which ParseMAC accepts.
func (m MAC) String() string {
	const digits = "0123456789abcdef"
	var s [3*MACLen - 1]byte
	for i, c := range m {
		if i > 0 {
			s[3*i-1] = ':'
		}
		s[3*i], s[3*i+1] = digits[c>>4], digits[c&15]
	}
	return string(s[:])
}

// IsMulticast reports whether m is a group address; Broadcast is one.
func (m MAC) IsMulticast() bool { return m[0]&1 != 0 }

// IsZero reports whether m is 00:00:00:00:00:00, which no station has.
func (m MAC) IsZero() bool { return m == MAC{} }

// IsStation reports whether m can be the address of one station, and so the source of a frame.
func (m MAC) IsStation() bool { return !m.IsMulticast() && !m.IsZero() }

// LinkLocal returns the IPv6 link-local address with the interface identifier made of m, which is also the
// default GID of a RoCE port (RFC 4291 §2.5.6 and appendix A).
func (m MAC) LinkLocal() netip.Addr {
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
}

// GroupMAC returns the Ethernet address that a multicast group's frames are sent to: 01:00:5e and the low 23 bits
// for IPv4 (RFC 1112 §6.4), 33:33 and the low 32 bits for IPv6 (RFC 2464 §7). 32 groups of IPv4 share one
// address. IPv4 mapped into IPv6, as in a GID, counts as IPv4. An address that is not a
// group's gives the zero MAC.
func GroupMAC(group netip.Addr) MAC {
	group = group.Unmap()
	switch {
	case !group.IsMulticast():
		return MAC{}
	case group.Is4():
		a := group.As4()
		return MAC{0x01, 0x00, 0x5e, a[1] & 0x7f, a[2], a[3]}
	default:
		a := group.As16()
		return MAC{0x33, 0x33, a[12], a[13], a[14], a[15]}
	}
}

// SolicitedNode returns the group in which a host with addr receives solicitations: ff02::1:ff00:0/104 and the
// low 24 bits of addr (RFC 4291 §2.7.1).
func SolicitedNode(addr netip.Addr) netip.Addr {
	a := as16(addr)
	return netip.AddrFrom16([16]byte{0xff, 0x02, 11: 0x01, 0xff, a[13], a[14], a[15]})
}

// as4 returns the bytes of an IPv4 address, also of one mapped into IPv6, and zeros for anything else.
func as4(a netip.Addr) [4]byte {
	if a = a.Unmap(); a.Is4() {
		return a.As4()
	}
	return [4]byte{}
}

// as16 returns the bytes of an IPv6 address without its zone, and zeros for the zero Addr.
func as16(a netip.Addr) [16]byte {
	if !a.IsValid() {
		return [16]byte{}
	}
	return a.As16()
}

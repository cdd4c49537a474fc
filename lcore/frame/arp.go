// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"net/netip"
)

// ARPLen is the length of an ARP packet for Ethernet and IPv4.
const ARPLen = 28

// Operations of ARP.
const (
	ARPRequest uint16 = 1
	ARPReply   uint16 = 2
)

const (
	arpHType = 0
	arpPType = 2
	arpHLen  = 4
	arpPLen  = 5
	arpOp    = 6
	arpSHA   = 8
	arpSPA   = 14
	arpTHA   = 18
	arpTPA   = 24

	arpEthernet = 1 // hardware type (IANA)
)

// ARP is a view of an ARP packet for Ethernet and IPv4 (RFC 826), in wire order.
// It aliases the frame it was taken from and lives as long as its caller owns that frame.
type ARP []byte

// AsARP returns the first ARPLen bytes of b as an ARP packet. It reports false when b is shorter or when the
// packet is for another hardware or protocol, so that its fields lie elsewhere; it never panics.
func AsARP(b []byte) (ARP, bool) {
	if len(b) < ARPLen || !arpIsEthernetIPv4(b) {
		return nil, false
	}
	return ARP(b[:ARPLen:ARPLen]), true
}

// arpIsEthernetIPv4 reports whether types and lengths in b, of at least ARPLen bytes, are Ethernet's and IPv4's.
func arpIsEthernetIPv4(b []byte) bool {
	return binary.BigEndian.Uint16(b[arpHType:]) == arpEthernet && binary.BigEndian.Uint16(b[arpPType:]) == TypeIPv4 &&
		b[arpHLen] == MACLen && b[arpPLen] == 4
}

// Op returns the operation.
func (h ARP) Op() uint16 { return binary.BigEndian.Uint16(h[arpOp:]) }

// SHA returns the sender's hardware address.
func (h ARP) SHA() MAC { return MAC(h[arpSHA : arpSHA+MACLen]) }

// SPA returns the sender's protocol address; 0.0.0.0 in a probe (RFC 5227 §2.1.1).
func (h ARP) SPA() netip.Addr { return netip.AddrFrom4([4]byte(h[arpSPA : arpSPA+4])) }

// THA returns the target's hardware address, which is undefined in a request.
func (h ARP) THA() MAC { return MAC(h[arpTHA : arpTHA+MACLen]) }

// TPA returns the target's protocol address.
func (h ARP) TPA() netip.Addr { return netip.AddrFrom4([4]byte(h[arpTPA : arpTPA+4])) }

// Fields returns all fields.
func (h ARP) Fields() ARPFields {
	return ARPFields{Op: h.Op(), SHA: h.SHA(), SPA: h.SPA(), THA: h.THA(), TPA: h.TPA()}
}

// ARPFields are the fields of an ARP packet for Ethernet and IPv4, named as in RFC 826:
// hardware and protocol address of sender and target.
type ARPFields struct {
	Op  uint16
	SHA MAC
	SPA netip.Addr
	THA MAC
	TPA netip.Addr
}

// IsProbe reports whether the packet is a probe for a duplicate address, from a sender without one. It must not be
// answered for a host that is not known to exist: the sender would give up its address.
func (f ARPFields) IsProbe() bool { return f.Op == ARPRequest && f.SPA.IsUnspecified() }

// IsGratuitous reports whether the sender announces its own address.
func (f ARPFields) IsGratuitous() bool { return f.SPA == f.TPA }

// PutARP writes f to the first ARPLen bytes of b. It panics when b is shorter.
func PutARP(b []byte, f ARPFields) ARP {
	h := ARP(b[:ARPLen:ARPLen])
	binary.BigEndian.PutUint16(h[arpHType:], arpEthernet)
	binary.BigEndian.PutUint16(h[arpPType:], TypeIPv4)
	h[arpHLen], h[arpPLen] = MACLen, 4
	binary.BigEndian.PutUint16(h[arpOp:], f.Op)
	spa, tpa := as4(f.SPA), as4(f.TPA)
	copy(h[arpSHA:], f.SHA[:])
	copy(h[arpSPA:], spa[:])
	copy(h[arpTHA:], f.THA[:])
	copy(h[arpTPA:], tpa[:])
	return h
}

// ParseARP validates an ARP packet in a frame from src; b may include the frame's padding. The sender's hardware
// address must be src and that of one station, so that a neighbour table cannot be given other stations' addresses.
func ParseARP(src MAC, b []byte) (ARPFields, Fault) {
	if len(b) < ARPLen {
		return ARPFields{}, ARPShort
	}
	h, ok := AsARP(b)
	if !ok {
		return ARPFields{}, ARPKind
	}
	f := h.Fields()
	switch {
	case f.Op != ARPRequest && f.Op != ARPReply:
		return ARPFields{}, ARPOp
	case f.SHA != src || !f.SHA.IsStation():
		return ARPFields{}, ARPSenderMAC
	case f.SPA.IsUnspecified() && f.Op == ARPRequest: // a probe
	case !isHost(f.SPA):
		return ARPFields{}, ARPSenderIP
	}
	return f, ""
}

// isHost reports whether a can be a host's address: not a group's, unspecified, loopback, of IPv4's reserved block with
// the limited broadcast (RFC 6890), or IPv4-mapped.
func isHost(a netip.Addr) bool {
	if !a.IsValid() || a.IsMulticast() || a.IsUnspecified() || a.IsLoopback() || a.Is4In6() {
		return false
	}
	return !a.Is4() || a.As4()[0] < 240
}

// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"net/netip"
)

// NDLen is the length of a neighbour solicitation or advertisement without options, NDOptionLen that of a
// link-layer address option on Ethernet.
const (
	NDLen       = 24
	NDOptionLen = 8
)

// Types of ICMPv6 messages: neighbour solicitation and advertisement (RFC 4861 §4).
const (
	NDSolicitation  uint8 = 135
	NDAdvertisement uint8 = 136
)

const (
	icmpType = 0
	icmpCode = 1
	icmpCsum = 2
	icmpLen  = 4

	ndFlags   = 4
	ndTarget  = 8
	ndOptions = 24

	ndRouter    = 0x80
	ndSolicited = 0x40
	ndOverride  = 0x20

	ndSourceLL = 1 // option types (RFC 4861 §4.6.1)
	ndTargetLL = 2

	ndHops = 255 // only a neighbour's message arrives with it (RFC 4861 §3.1)
)

// ND is a view of a neighbour solicitation or advertisement, its ICMPv6 header and options included (RFC 4861
// §4.3, §4.4), in wire order. It aliases the packet it was taken from and lives as long as its caller owns it.
type ND []byte

// AsND returns b, all that follows the IPv6 header, as a neighbour message. It reports false when b is too short
// or of another type; it never panics.
func AsND(b []byte) (ND, bool) {
	if len(b) < NDLen || (b[icmpType] != NDSolicitation && b[icmpType] != NDAdvertisement) {
		return nil, false
	}
	return ND(b[:len(b):len(b)]), true
}

// Type returns NDSolicitation or NDAdvertisement.
func (h ND) Type() uint8 { return h[icmpType] }

// Code returns the ICMPv6 code, 0 in every good message.
func (h ND) Code() uint8 { return h[icmpCode] }

// Router reports whether the sender of an advertisement is a router.
func (h ND) Router() bool { return h[ndFlags]&ndRouter != 0 }

// Solicited reports whether an advertisement answers a solicitation.
func (h ND) Solicited() bool { return h[ndFlags]&ndSolicited != 0 }

// Override reports whether an advertisement replaces what is known.
func (h ND) Override() bool { return h[ndFlags]&ndOverride != 0 }

// Target returns the target address.
func (h ND) Target() netip.Addr { return netip.AddrFrom16([16]byte(h[ndTarget : ndTarget+16])) }

// LinkLayer returns the sender's MAC address of a solicitation or the target's of an advertisement, or the zero
// MAC when the message has none.
func (h ND) LinkLayer() MAC {
	mac, _ := h.linkLayer()
	return mac
}

// linkLayer walks the options; the first one of the right type counts. The fault is NDOption when one of them,
// not only the one looked for, has length 0 or extends beyond the message (RFC 4861 §4.6).
func (h ND) linkLayer() (mac MAC, fault Fault) {
	want := uint8(ndSourceLL)
	if h.Type() == NDAdvertisement {
		want = ndTargetLL
	}
	found := false
	for o := h[ndOptions:]; len(o) > 0; {
		if len(o) < 2 || o[1] == 0 || int(o[1])*8 > len(o) {
			return mac, NDOption
		}
		n := int(o[1]) * 8
		if o[0] == want && !found {
			if n != NDOptionLen {
				return mac, NDOption
			}
			mac, found = MAC(o[2:2+MACLen]), true
		}
		o = o[n:]
	}
	return mac, ""
}

// Fields returns all fields and the link-layer address; other options are ignored.
func (h ND) Fields() NDFields {
	f := NDFields{Type: h.Type(), Target: h.Target(), LinkLayer: h.LinkLayer()}
	if f.Type == NDAdvertisement { // the same bits are reserved in a solicitation
		f.Router, f.Solicited, f.Override = h.Router(), h.Solicited(), h.Override()
	}
	return f
}

// NDFields are the fields of a neighbour solicitation or advertisement.
type NDFields struct {
	Type                        uint8 // NDSolicitation or NDAdvertisement
	Router, Solicited, Override bool  // only in an advertisement
	Target                      netip.Addr
	LinkLayer                   MAC // zero: no option
}

// Len returns the length of the message that PutND writes.
func (f NDFields) Len() int {
	if f.LinkLayer.IsZero() {
		return NDLen
	}
	return NDLen + NDOptionLen
}

// PutND writes f to the first f.Len bytes of b, with its checksum between the two addresses.
// It panics when b is shorter.
func PutND(b []byte, src, dst netip.Addr, f NDFields) ND {
	h := ND(b[:f.Len():f.Len()])
	clear(h)
	h[icmpType] = f.Type
	option := uint8(ndSourceLL)
	if f.Type == NDAdvertisement {
		option = ndTargetLL
		h[ndFlags] = bit(f.Router, ndRouter) | bit(f.Solicited, ndSolicited) | bit(f.Override, ndOverride)
	}
	target := as16(f.Target)
	copy(h[ndTarget:], target[:])
	if o := h[ndOptions:]; len(o) > 0 {
		o[0], o[1] = option, NDOptionLen/8
		copy(o[2:], f.LinkLayer[:])
	}
	binary.BigEndian.PutUint16(h[icmpCsum:], PseudoChecksum(src, dst, ProtoICMPv6, h))
	return h
}

// bit returns mask when set, else 0.
func bit(set bool, mask uint8) uint8 {
	if set {
		return mask
	}
	return 0
}

// ParseND validates a neighbour solicitation or advertisement by the rules of RFC 4861 §7.1. It was received in a frame
// from src with the header ip; b is all of ip's payload. As with ARP, a link-layer address must also be src. Other
// ICMPv6 is NDType.
func ParseND(src MAC, ip IPv6, b []byte) (NDFields, Fault) {
	if len(b) < icmpLen {
		return NDFields{}, NDShort
	}
	if b[icmpType] != NDSolicitation && b[icmpType] != NDAdvertisement {
		return NDFields{}, NDType
	}
	h, ok := AsND(b)
	switch {
	case !ok:
		return NDFields{}, NDShort
	case ip.HopLimit() != ndHops:
		return NDFields{}, NDHops
	case PseudoChecksum(ip.Src(), ip.Dst(), ProtoICMPv6, b) != 0:
		return NDFields{}, NDCsum
	case h.Code() != 0:
		return NDFields{}, NDCode
	case !isHost(h.Target()):
		return NDFields{}, NDTarget
	}
	mac, fault := h.linkLayer()
	if fault == "" && !mac.IsZero() && (mac != src || !mac.IsStation()) {
		fault = NDOptionLL
	}
	if fault == "" {
		fault = ndAddresses(ip, h, mac)
	}
	if fault != "" {
		return NDFields{}, fault
	}
	return h.Fields(), ""
}

// ndAddresses checks that source and destination fit the message: duplicate address detection sends from :: to the
// solicited-node group without a link-layer address, and an advertisement to a group is not Solicited.
func ndAddresses(ip IPv6, h ND, mac MAC) Fault {
	src, dst := ip.Src(), ip.Dst()
	switch {
	case h.Type() == NDSolicitation && src.IsUnspecified():
		if !mac.IsZero() {
			return NDOptionLL
		}
		if dst != SolicitedNode(h.Target()) {
			return NDDest
		}
	case !isHost(src):
		return NDSource
	case h.Type() == NDAdvertisement && dst.IsMulticast() && h.Solicited():
		return NDDest
	}
	return ""
}

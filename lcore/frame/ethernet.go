// SPDX-License-Identifier: Apache-2.0

package frame

import "encoding/binary"

// EthernetLen is the length of an Ethernet II header, VLANLen that of what an 802.1Q tag adds to it.
const (
	EthernetLen = 14
	VLANLen     = 4
)

const (
	ethDst  = 0
	ethSrc  = 6
	ethType = 12
)

// Ethernet is a view of an Ethernet II header (IEEE 802.3 §3.2), in wire order.
// It aliases the frame it was taken from and lives as long as its caller owns that frame.
type Ethernet []byte

// AsEthernet returns the first EthernetLen bytes of b as an Ethernet header.
// It reports false when b is too short; it never panics.
func AsEthernet(b []byte) (Ethernet, bool) {
	if len(b) < EthernetLen {
		return nil, false
	}
	return Ethernet(b[:EthernetLen:EthernetLen]), true
}

// Dst returns the destination address.
func (h Ethernet) Dst() MAC { return MAC(h[ethDst : ethDst+MACLen]) }

// Src returns the source address.
func (h Ethernet) Src() MAC { return MAC(h[ethSrc : ethSrc+MACLen]) }

// Type returns the EtherType; with TypeVLAN a VLAN follows, whose Type is the payload's.
func (h Ethernet) Type() uint16 { return binary.BigEndian.Uint16(h[ethType:]) }

// Fields returns all fields.
func (h Ethernet) Fields() EthernetFields {
	return EthernetFields{Dst: h.Dst(), Src: h.Src(), Type: h.Type()}
}

// EthernetFields are the fields of an Ethernet II header.
type EthernetFields struct {
	Dst, Src MAC
	Type     uint16
}

// PutEthernet writes f to the first EthernetLen bytes of b. It panics when b is shorter.
func PutEthernet(b []byte, f EthernetFields) Ethernet {
	h := Ethernet(b[:EthernetLen:EthernetLen])
	copy(h[ethDst:], f.Dst[:])
	copy(h[ethSrc:], f.Src[:])
	binary.BigEndian.PutUint16(h[ethType:], f.Type)
	return h
}

const (
	vlanTCI  = 0
	vlanType = 2
)

// VLAN is a view of what follows the EtherType TypeVLAN: the tag control information and the EtherType of what
// is tagged (IEEE 802.1Q §9.6), in wire order. The TPID before it is the Type of the Ethernet header.
// It aliases the frame it was taken from.
type VLAN []byte

// AsVLAN returns the first VLANLen bytes of b, the bytes after an Ethernet header, as a tag.
// It reports false when b is too short; it never panics.
func AsVLAN(b []byte) (VLAN, bool) {
	if len(b) < VLANLen {
		return nil, false
	}
	return VLAN(b[:VLANLen:VLANLen]), true
}

// PCP returns the priority, 0 to 7.
func (h VLAN) PCP() uint8 { return h[vlanTCI] >> 5 }

// DEI reports whether the frame may be dropped first.
func (h VLAN) DEI() bool { return h[vlanTCI]&0x10 != 0 }

// VID returns the VLAN, 0 to 4095; 0 is a priority tag, which is of no VLAN.
func (h VLAN) VID() uint16 { return binary.BigEndian.Uint16(h[vlanTCI:]) & 0xfff }

// Type returns the EtherType of what is tagged.
func (h VLAN) Type() uint16 { return binary.BigEndian.Uint16(h[vlanType:]) }

// Fields returns all fields.
func (h VLAN) Fields() VLANFields {
	return VLANFields{PCP: h.PCP(), DEI: h.DEI(), VID: h.VID(), Type: h.Type()}
}

// VLANFields are the fields of an 802.1Q tag. Bits of PCP above 7 and of VID above 4095 are not sent.
type VLANFields struct {
	PCP  uint8
	DEI  bool
	VID  uint16
	Type uint16
}

// PutVLAN writes f to the first VLANLen bytes of b. It panics when b is shorter.
func PutVLAN(b []byte, f VLANFields) VLAN {
	h := VLAN(b[:VLANLen:VLANLen])
	tci := uint16(f.PCP&7)<<13 | f.VID&0xfff
	if f.DEI {
		tci |= 0x1000
	}
	binary.BigEndian.PutUint16(h[vlanTCI:], tci)
	binary.BigEndian.PutUint16(h[vlanType:], f.Type)
	return h
}

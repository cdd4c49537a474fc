// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
)

// Lengths of what IPoIB puts into a datagram.
const (
	IPoIBHdrLen      = 4
	IPoIBAddrLen     = 20
	IPoIBARPLen      = 8 + 2*IPoIBAddrLen + 2*4
	IPoIBNDOptionLen = 24
)

// Ethertypes in an IPoIBHeader.
const (
	EtherTypeIPv4 = 0x0800
	EtherTypeARP  = 0x0806
	EtherTypeRARP = 0x8035
	EtherTypeIPv6 = 0x86dd
)

// IPoIBHeader is a view of the encapsulation header of IP over InfiniBand (RFC 4391 §6), in wire order: an ethertype and
// 16 reserved bits before each packet. It aliases its packet.
type IPoIBHeader []byte

// AsIPoIBHeader returns the first IPoIBHdrLen bytes of b; false when b is too short.
func AsIPoIBHeader(b []byte) (IPoIBHeader, bool) {
	if len(b) < IPoIBHdrLen {
		return nil, false
	}
	return IPoIBHeader(b[:IPoIBHdrLen:IPoIBHdrLen]), true
}

// EtherType returns what follows.
func (h IPoIBHeader) EtherType() uint16 { return binary.BigEndian.Uint16(h) }

// PutIPoIBHeader writes the header into the first IPoIBHdrLen bytes of b and returns the view.
func PutIPoIBHeader(b []byte, etherType uint16) IPoIBHeader {
	h := IPoIBHeader(b[:IPoIBHdrLen:IPoIBHdrLen])
	binary.BigEndian.PutUint32(h, uint32(etherType)<<16)
	return h
}

// Flags of an IPoIBAddr: the owner can also do connected mode (RFC 4755).
const (
	IPoIBFlagRC = 0x80
	IPoIBFlagUC = 0x40
)

// IPoIBAddr is the hardware address of an IPoIB interface (RFC 4391 §9), in wire order: flags 8, QPN 24, GID 128.
type IPoIBAddr [IPoIBAddrLen]byte

// NewIPoIBAddr joins the parts of an address.
func NewIPoIBAddr(flags uint8, qpn QPN, gid GID) IPoIBAddr {
	var a IPoIBAddr
	binary.BigEndian.PutUint32(a[:], uint32(flags)<<24|uint32(qpn)&mask24)
	copy(a[4:], gid[:])
	return a
}

// Flags returns the first byte; bits other than the two known ones are to be ignored.
func (a IPoIBAddr) Flags() uint8 { return a[0] }

// QPN returns the queue pair that takes IPoIB datagrams.
func (a IPoIBAddr) QPN() QPN { return QPN(binary.BigEndian.Uint32(a[:]) & mask24) }

// GID returns the port's GID, from which a path query gives the LID.
func (a IPoIBAddr) GID() GID { return GID(a[4:]) }

// String writes a as ip(8) does, 20 bytes with colons.
func (a IPoIBAddr) String() string { return strings.ReplaceAll(fmt.Sprintf("% x", a[:]), " ", ":") }

// ARP operations (RFC 826).
const (
	ARPRequest = 1
	ARPReply   = 2
)

// arpHTypeIB is the hardware type of InfiniBand (RFC 4391 §9).
const arpHTypeIB = 32

const (
	arpHType = 0
	arpPType = 2
	arpHLen  = 4
	arpPLen  = 5
	arpOp    = 6
	arpSHA   = 8
	arpSPA   = arpSHA + IPoIBAddrLen
	arpTHA   = arpSPA + 4
	arpTPA   = arpTHA + IPoIBAddrLen
)

// IPoIBARP is a view of an ARP packet on InfiniBand (RFC 826, RFC 4391 §9), in wire order, after the IPoIBHeader.
// It aliases its packet.
type IPoIBARP []byte

// AsIPoIBARP returns the first IPoIBARPLen bytes of b; false when b is too short, or when its types and lengths are not
// those of IPv4 on InfiniBand, because then the addresses stand elsewhere.
func AsIPoIBARP(b []byte) (IPoIBARP, bool) {
	if len(b) < IPoIBARPLen {
		return nil, false
	}
	h := IPoIBARP(b[:IPoIBARPLen:IPoIBARPLen])
	if binary.BigEndian.Uint16(h[arpHType:]) != arpHTypeIB || binary.BigEndian.Uint16(h[arpPType:]) != EtherTypeIPv4 ||
		h[arpHLen] != IPoIBAddrLen || h[arpPLen] != 4 {
		return nil, false
	}
	return h, true
}

// Op returns ARPRequest, ARPReply or something to be ignored.
func (h IPoIBARP) Op() uint16 { return binary.BigEndian.Uint16(h[arpOp:]) }

// SHA returns the sender's hardware address.
func (h IPoIBARP) SHA() IPoIBAddr { return IPoIBAddr(h[arpSHA:arpSPA]) }

// SPA returns the sender's IPv4 address.
func (h IPoIBARP) SPA() netip.Addr { return netip.AddrFrom4([4]byte(h[arpSPA:arpTHA])) }

// THA returns the target's hardware address, zero in a request.
func (h IPoIBARP) THA() IPoIBAddr { return IPoIBAddr(h[arpTHA:arpTPA]) }

// TPA returns the target's IPv4 address.
func (h IPoIBARP) TPA() netip.Addr { return netip.AddrFrom4([4]byte(h[arpTPA:])) }

// IPoIBARPFields is an IPoIBARP in host order. SPA and TPA are IPv4.
type IPoIBARPFields struct {
	Op       uint16
	SHA, THA IPoIBAddr
	SPA, TPA netip.Addr
}

// Fields returns all that PutIPoIBARP writes.
func (h IPoIBARP) Fields() IPoIBARPFields {
	return IPoIBARPFields{Op: h.Op(), SHA: h.SHA(), SPA: h.SPA(), THA: h.THA(), TPA: h.TPA()}
}

// PutIPoIBARP writes f into the first IPoIBARPLen bytes of b and returns the view. An address that is not IPv4 is
// written as 0.0.0.0.
func PutIPoIBARP(b []byte, f IPoIBARPFields) IPoIBARP {
	h := IPoIBARP(b[:IPoIBARPLen:IPoIBARPLen])
	binary.BigEndian.PutUint16(h[arpHType:], arpHTypeIB)
	binary.BigEndian.PutUint16(h[arpPType:], EtherTypeIPv4)
	h[arpHLen] = IPoIBAddrLen
	h[arpPLen] = 4
	binary.BigEndian.PutUint16(h[arpOp:], f.Op)
	copy(h[arpSHA:], f.SHA[:])
	putIPv4(h[arpSPA:], f.SPA)
	copy(h[arpTHA:], f.THA[:])
	putIPv4(h[arpTPA:], f.TPA)
	return h
}

func putIPv4(b []byte, a netip.Addr) {
	var v4 [4]byte
	if a = a.Unmap(); a.Is4() {
		v4 = a.As4()
	}
	copy(b, v4[:])
}

// Types of an IPoIBNDOption (RFC 4861 §4.6.1).
const (
	NDOptionSource = 1
	NDOptionTarget = 2
)

// IPoIBNDOption is a view of the link-layer address option of neighbour discovery on InfiniBand (RFC 4391 §9), in
// wire order: type, a length of 3 units of 8 bytes, 16 reserved bits, address. It aliases its packet.
type IPoIBNDOption []byte

// AsIPoIBNDOption returns the first IPoIBNDOptionLen bytes of b; false when b is too short or is another option.
func AsIPoIBNDOption(b []byte) (IPoIBNDOption, bool) {
	if len(b) < IPoIBNDOptionLen || b[0] != NDOptionSource && b[0] != NDOptionTarget || b[1] != IPoIBNDOptionLen/8 {
		return nil, false
	}
	return IPoIBNDOption(b[:IPoIBNDOptionLen:IPoIBNDOptionLen]), true
}

// Type returns NDOptionSource or NDOptionTarget.
func (h IPoIBNDOption) Type() uint8 { return h[0] }

// Addr returns the hardware address.
func (h IPoIBNDOption) Addr() IPoIBAddr { return IPoIBAddr(h[4:]) }

// PutIPoIBNDOption writes the option into the first IPoIBNDOptionLen bytes of b and returns the view.
func PutIPoIBNDOption(b []byte, typ uint8, addr IPoIBAddr) IPoIBNDOption {
	h := IPoIBNDOption(b[:IPoIBNDOptionLen:IPoIBNDOptionLen])
	copy(h, []byte{typ, IPoIBNDOptionLen / 8, 0, 0})
	copy(h[4:], addr[:])
	return h
}

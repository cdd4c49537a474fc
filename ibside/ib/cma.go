// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// PortSpace says how rdma_cm numbers its services (rdma_cma.h enum rdma_port_space). The low byte of UDP and TCP is the
// IP protocol.
type PortSpace uint16

// The port spaces.
const (
	PortSpaceIPoIB PortSpace = 0x0002
	PortSpaceTCP   PortSpace = 0x0106
	PortSpaceUDP   PortSpace = 0x0111
	PortSpaceIB    PortSpace = 0x013f
)

// ServiceID names a service of the connection manager. Those for IP are 0x000000000P..PQQQQ: port space and port
// (IBTA vol 1 Annex A11).
type ServiceID uint64

// ServiceIDFromPort returns the service ID of a port.
func ServiceIDFromPort(s PortSpace, port uint16) ServiceID { return ServiceID(s)<<16 | ServiceID(port) }

// IsIP reports whether s is that of a TCP or UDP port; only then do PortSpace and Port mean something.
func (s ServiceID) IsIP() bool {
	return s>>32 == 0 && (s.PortSpace() == PortSpaceTCP || s.PortSpace() == PortSpaceUDP)
}

// PortSpace returns the port space of s.
func (s ServiceID) PortSpace() PortSpace { return PortSpace(s >> 16) }

// Port returns the port of s.
func (s ServiceID) Port() uint16 { return uint16(s) }

func (s ServiceID) String() string { return fmt.Sprintf("0x%016x", uint64(s)) }

// CMAHdrLen is the length of a CMAHeader.
const CMAHdrLen = 36

const (
	cmaVersion = 0 // major 4, minor 4
	cmaIPVer   = 1 // IP version 4, reserved 4
	cmaSrcPort = 2
	cmaSrc     = 4 // IPv4 in the last four bytes of sixteen
	cmaDst     = 20
)

// CMAHeader is a view of the header with which rdma_cm begins the private data of a request (IBTA vol 1 Annex A11,
// Linux drivers/infiniband/core/cma.c struct cma_hdr), in wire order: the IP addresses of requester and service. It
// aliases its packet.
type CMAHeader []byte

// AsCMAHeader returns the first CMAHdrLen bytes of b, the private data; false when b is too short.
func AsCMAHeader(b []byte) (CMAHeader, bool) {
	if len(b) < CMAHdrLen {
		return nil, false
	}
	return CMAHeader(b[:CMAHdrLen:CMAHdrLen]), true
}

// Version returns the version, major in the upper four bits; 0 is the only one there is.
func (h CMAHeader) Version() uint8 { return h[cmaVersion] }

// IPVersion returns 4 or 6, or another number from a bad peer.
func (h CMAHeader) IPVersion() uint8 { return h[cmaIPVer] >> 4 }

// SrcPort returns the requester's port.
func (h CMAHeader) SrcPort() uint16 { return binary.BigEndian.Uint16(h[cmaSrcPort:]) }

// Src returns the requester's address; the zero Addr when IPVersion is neither 4 nor 6.
func (h CMAHeader) Src() netip.Addr { return h.addr(cmaSrc) }

// Dst returns the address of the service; the zero Addr when IPVersion is neither 4 nor 6.
func (h CMAHeader) Dst() netip.Addr { return h.addr(cmaDst) }

func (h CMAHeader) addr(off int) netip.Addr {
	switch h.IPVersion() {
	case 4:
		return netip.AddrFrom4([4]byte(h[off+12 : off+16]))
	case 6:
		return netip.AddrFrom16([16]byte(h[off : off+16]))
	}
	return netip.Addr{}
}

// IsSane reports whether h has a known version and two host addresses (Linux rejects others in validate_ipv4_net_dev).
func (h CMAHeader) IsSane() bool { return h.Version() == 0 && isHost(h.Src()) && isHost(h.Dst()) }

func isHost(a netip.Addr) bool {
	u := a.Unmap()
	return a.IsValid() && u == a && !a.IsUnspecified() && !a.IsLoopback() && !a.IsMulticast() &&
		a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// CMAFields is a CMAHeader in host order. Version is always written 0. Src and Dst are of one family.
type CMAFields struct {
	SrcPort  uint16
	Src, Dst netip.Addr
}

// Fields returns all that PutCMAHeader writes.
func (h CMAHeader) Fields() CMAFields {
	return CMAFields{SrcPort: h.SrcPort(), Src: h.Src(), Dst: h.Dst()}
}

// PutCMAHeader writes f into the first CMAHdrLen bytes of b and returns the view. The IP version is that of Src, and
// 0 for the zero Addr.
func PutCMAHeader(b []byte, f CMAFields) CMAHeader {
	h := CMAHeader(b[:CMAHdrLen:CMAHdrLen])
	clear(h)
	switch {
	case f.Src.Is4():
		h[cmaIPVer] = 4 << 4
	case f.Src.Is6():
		h[cmaIPVer] = 6 << 4
	}
	binary.BigEndian.PutUint16(h[cmaSrcPort:], f.SrcPort)
	putCMAAddr(h[cmaSrc:cmaDst], f.Src)
	putCMAAddr(h[cmaDst:], f.Dst)
	return h
}

func putCMAAddr(b []byte, a netip.Addr) {
	switch {
	case a.Is4():
		v4 := a.As4()
		copy(b[12:], v4[:])
	case a.IsValid():
		v6 := a.As16()
		copy(b, v6[:])
	}
}

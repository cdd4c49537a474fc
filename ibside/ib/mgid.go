// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"encoding/binary"
	"net/netip"
)

// ScopeLinkLocal is the scope IPoIB and rdma_cm use unless the IPoIB broadcast group says otherwise.
const ScopeLinkLocal = 2

// Signatures: which protocol and which IP version a group belongs to (RFC 4391 §4; rdma_cm changes the low byte).
const (
	signatureIPv4    = 0x4000
	signatureIPv6    = 0x6000
	signatureIPoIB   = 0x1b
	signatureRDMACM  = 0x01
	signatureSAGiven = 0xa01b // a group whose MGID the SA chose
)

// MGIDRDMACM returns the MGID that rdma_cm gives an IP group of port space RDMA_PS_UDP on InfiniBand:
// ff1S:4001:PPPP::xxxx:xxxx with the low 28 bits of an IPv4 group, ff1S:6001:PPPP:... with the low 80 of an
// IPv6 one. An IPv6 group of the form ff1x:a01b:... is itself an MGID and is returned as it is. pkey and scope
// are those of the IPoIB broadcast group; the full-member bit is always set. It returns the zero GID when group
// is not multicast (Linux drivers/infiniband/core/cma.c, cma_set_mgid).
func MGIDRDMACM(group netip.Addr, pkey PKey, scope uint8) GID {
	group = group.Unmap()
	if g := GIDFromAddr(group); g[0] == 0xff && g[1]&0xf0 == 0x10 && binary.BigEndian.Uint16(g[2:]) == signatureSAGiven {
		return g
	}
	return signedMGID(group, signatureRDMACM, pkey, scope)
}

// MGIDIPoIB returns the MGID that IPoIB gives an IP group (RFC 4391 §4): as MGIDRDMACM, but with 401b or 601b.
// 255.255.255.255 gives the broadcast group.
func MGIDIPoIB(group netip.Addr, pkey PKey, scope uint8) GID {
	group = group.Unmap()
	if group == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		g := mgidHead(signatureIPv4|signatureIPoIB, pkey, scope)
		copy(g[12:], []byte{255, 255, 255, 255})
		return g
	}
	return signedMGID(group, signatureIPoIB, pkey, scope)
}

func signedMGID(group netip.Addr, signature uint16, pkey PKey, scope uint8) GID {
	switch {
	case !group.IsMulticast():
		return GID{}
	case group.Is4():
		g, a := mgidHead(signatureIPv4|signature, pkey, scope), group.As4()
		copy(g[12:], a[:])
		g[12] &= 0x0f
		return g
	default:
		g, a := mgidHead(signatureIPv6|signature, pkey, scope), group.As16()
		copy(g[6:], a[6:])
		return g
	}
}

// mgidHead returns ffTS:signature:P_Key:: with T saying transient.
func mgidHead(signature uint16, pkey PKey, scope uint8) GID {
	g := GID{0xff, 0x10 | scope&0x0f}
	binary.BigEndian.PutUint16(g[2:], signature)
	binary.BigEndian.PutUint16(g[4:], uint16(pkey|0x8000))
	return g
}

// MGIDRoCE returns the MGID of an IP group on RoCEv2: the group itself, IPv4 in the mapped form. It returns the
// zero GID when group is not multicast. (Linux before commit be1d325a3358 sent what MGIDRoCEv1 returns.)
func MGIDRoCE(group netip.Addr) GID {
	group = group.Unmap()
	if !group.IsMulticast() {
		return GID{}
	}
	return GIDFromAddr(group)
}

// MGIDRoCEv1 returns the MGID of an IP group on RoCEv1: ff0e::ffff:a.b.c.d, or the IPv6 group itself. It returns
// the zero GID when group is not multicast.
func MGIDRoCEv1(group netip.Addr) GID {
	g := MGIDRoCE(group)
	if g.IsIPv4Mapped() {
		g[0], g[1] = 0xff, 0x0e
	}
	return g
}

// MulticastMAC returns the Ethernet address a RoCE group is sent to: 01:00:5e and the low 23 bits of an IPv4-mapped
// group, 33:33 and the low 32 bits of any other (RFC 1112 §6.4, RFC 2464 §7). Several groups share one address.
func MulticastMAC(g GID) [6]byte {
	if g.IsIPv4Mapped() {
		return [6]byte{0x01, 0x00, 0x5e, g[13] & 0x7f, g[14], g[15]}
	}
	return [6]byte{0x33, 0x33, g[12], g[13], g[14], g[15]}
}

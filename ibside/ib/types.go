// SPDX-License-Identifier: Apache-2.0

// Package ib has the types of InfiniBand and the headers of its datagrams: a parser, a writer and the two CRCs, in pure
// Go, for management code and simulators, and as the reference in tests of the C datapath.
//
// A datagram on an InfiniBand link, first byte on the left; GRH and ImmDt are optional:
//
//	LRH 8 | GRH 40 | BTH 12 | DETH 8 | ImmDt 4 | payload | pad 0..3 | ICRC 4 | VCRC 2
//
// A header is a view: a byte slice made only by its checking constructor (AsLRH, AsGRH, ...), so its getters cannot
// panic. A view aliases its packet. PutX writes every byte of a header, reserved bits zero, and needs len(b) >= XLen.
// Numbers are in host order everywhere except inside a view.
//
// Nothing here has state; all functions may be called from any goroutine.
package ib

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Well-known numbers of the transport.
const (
	QP0         QPN = 0        // subnet management interface; never bridged
	QP1         QPN = 1        // general services interface: CM and SA
	QPMulticast QPN = 0xffffff // the destination QP of every multicast packet

	QKeyGSI     QKey = 0x80010000 // fixed for QP1
	QKeyRDMAUDP QKey = 0x01234567 // that of RDMA_PS_UDP in rdma_cm (rdma_cma.h RDMA_UDP_QKEY)
	QKeyIPoIB   QKey = 0x00000b1b // that of IP groups in OpenSM

	PKeyDefault PKey = 0xffff // full member of the default partition
)

// LID ranges (IBTA vol 1 §4.1.3).
const (
	LIDFirst      LID = 0x0001
	LIDLast       LID = 0xbfff
	MLIDFirst     LID = 0xc000
	MLIDLast      LID = 0xfffe
	LIDPermissive LID = 0xffff
)

// GID is a global identifier, 16 bytes in wire order. On InfiniBand it is a subnet prefix and a GUID, or
// a multicast GID; on RoCEv2 it is the IP address, IPv4 in the IPv4-mapped form.
type GID [16]byte

// ParseGID parses a GID written as an IPv6 address, e.g. "fe80::2:c903:0:1" or "::ffff:10.10.0.1".
func ParseGID(s string) (GID, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is6() || a.Zone() != "" {
		return GID{}, fmt.Errorf("ib: gid %q is not an IPv6 address without zone", s)
	}
	return a.As16(), nil
}

// GIDFromAddr returns the RoCEv2 GID of an IP address; IPv4 becomes ::ffff:a.b.c.d. The zero Addr gives
// the zero GID. A zone is dropped.
func GIDFromAddr(a netip.Addr) GID {
	if !a.IsValid() {
		return GID{}
	}
	return a.As16()
}

// GIDFromGUID joins a 64-bit subnet prefix and a port GUID.
func GIDFromGUID(prefix uint64, guid GUID) GID {
	var g GID
	binary.BigEndian.PutUint64(g[:8], prefix)
	binary.BigEndian.PutUint64(g[8:], uint64(guid))
	return g
}

// String writes g as an IPv6 address.
func (g GID) String() string { return netip.AddrFrom16(g).String() }

// Addr returns g as an IP address; an IPv4-mapped g becomes an IPv4 address.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// IsZero reports whether g is the reserved all-zero GID, which also marks an empty GID table entry.
func (g GID) IsZero() bool { return g == GID{} }

// IsIPv4Mapped reports whether g is ::ffff:a.b.c.d.
func (g GID) IsIPv4Mapped() bool { return netip.AddrFrom16(g).Is4In6() }

// IsMulticast reports whether g names a group on either side of the bridge: ff00::/8, or an IPv4-mapped
// address in 224/4, which is how RoCEv2 writes IPv4 groups.
func (g GID) IsMulticast() bool {
	return g[0] == 0xff || g.IsIPv4Mapped() && g[12]&0xf0 == 0xe0
}

// IsIBMulticast reports whether g names a group on InfiniBand, where only ff00::/8 does (IBTA vol 1 §4.1.1).
func (g GID) IsIBMulticast() bool { return g[0] == 0xff }

// Prefix returns the upper 64 bits, the subnet prefix of a unicast GID.
func (g GID) Prefix() uint64 { return binary.BigEndian.Uint64(g[:8]) }

// GUID returns the lower 64 bits, the port GUID of a unicast InfiniBand GID.
func (g GID) GUID() GUID { return GUID(binary.BigEndian.Uint64(g[8:])) }

// GUID is an EUI-64 that names a port or a node.
type GUID uint64

func (g GUID) String() string { return fmt.Sprintf("0x%016x", uint64(g)) }

// LID is a local identifier: the address of a port, or of a group, within one subnet.
type LID uint16

// IsUnicast reports whether l can be the address of one port.
func (l LID) IsUnicast() bool { return l >= LIDFirst && l <= LIDLast }

// IsMulticast reports whether l is a multicast LID. The permissive LID is not.
func (l LID) IsMulticast() bool { return l >= MLIDFirst && l <= MLIDLast }

// MaxLMC is the largest LID mask count: a port has up to 128 LIDs.
const MaxLMC = 7

// Base returns the first of the LIDs of a port that has 1<<lmc of them, l among them.
func (l LID) Base(lmc uint8) LID { return l &^ (1<<lmc - 1) }

func (l LID) String() string { return fmt.Sprintf("0x%04x", uint16(l)) }

// QPN is a queue pair number, 24 bits.
type QPN uint32

func (q QPN) String() string { return fmt.Sprintf("0x%06x", uint32(q)) }

// A NodeKey is what a packet has of a node. One of the fields is set.
type NodeKey struct {
	GID GID        // the source of a message with a GRH
	LID LID        // the source of one without
	IP  netip.Addr // the destination of a RoCE host's
}

// QKey protects a UD queue pair, which silently drops messages with another Q_Key.
type QKey uint32

// IsControlled reports whether the top bit is set. An HCA replaces a controlled
// Q_Key in a send by that of the queue pair (IBTA vol 1 §10.2.4).
func (k QKey) IsControlled() bool { return k&0x80000000 != 0 }

func (k QKey) String() string { return fmt.Sprintf("0x%08x", uint32(k)) }

// PKey is a partition key: 15 bits of partition, and bit 15 for full membership.
type PKey uint16

// Valid reports whether k names a partition; 0x0000 and 0x8000 do not.
func (k PKey) Valid() bool { return k&0x7fff != 0 }

// IsFull reports whether k is a full member's key.
func (k PKey) IsFull() bool { return k&0x8000 != 0 }

// Matches reports whether holders of k and o may communicate: the same valid partition, and not both limited
// (IBTA vol 1 §10.9.3).
func (k PKey) Matches(o PKey) bool {
	return k.Valid() && k&0x7fff == o&0x7fff && (k.IsFull() || o.IsFull())
}

func (k PKey) String() string { return fmt.Sprintf("0x%04x", uint16(k)) }

// SL is a service level, 4 bits.
type SL uint8

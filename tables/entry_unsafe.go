// SPDX-License-Identifier: Apache-2.0

package tables

/*
#include "shards.h"
#include "tables_write.h"
*/
import "C"

import (
	"cmp"
	"net/netip"
	"unsafe"

	"causeway/ibside/ib"
)

// entry is one of the structs of entries.h. It is words so that Go aligns it for all of them.
type entry = [C.TABLE_ENTRY / 8]C.uint64_t

// as lends e as the C struct E, which entries.h asserts to have its size.
func as[E any](e *entry) *E { return (*E)(unsafe.Pointer(e)) }

func cBytes(a [16]byte) [16]C.uint8_t  { return *(*[16]C.uint8_t)(unsafe.Pointer(&a)) }
func goBytes(a [16]C.uint8_t) [16]byte { return *(*[16]byte)(unsafe.Pointer(&a)) }

// cAddr returns 16 bytes in wire order, IPv4 as IPv4-mapped; the zero Addr gives zero bytes.
func cAddr(ip netip.Addr) (a [16]C.uint8_t) {
	if ip.IsValid() {
		a = cBytes(ip.As16())
	}
	return a
}

// goAddr undoes cAddr.
func goAddr(a [16]C.uint8_t) netip.Addr {
	if a == [16]C.uint8_t{} {
		return netip.Addr{}
	}
	return netip.AddrFrom16(goBytes(a)).Unmap()
}

func addrKey(ip netip.Addr, number uint64) C.struct_table_key {
	return C.struct_table_key{addr: cAddr(ip), number: C.uint64_t(number)}
}

// key is that of an address of a segment's.
func (s segment) key(ip netip.Addr, number uint64) C.struct_table_key {
	return addrKey(ip, number|uint64(s)<<C.SEGMENT_SHIFT)
}

func (s segment) groupKey(a GroupAddr) C.struct_table_key { return s.key(a.IP, uint64(a.UDPPort)) }

func gidKey(gid ib.GID) C.struct_table_key { return C.struct_table_key{addr: cBytes(gid)} }

func numberKey(n uint64) C.struct_table_key { return C.struct_table_key{number: C.uint64_t(n)} }

// keyOnly returns an entry of which only the key matters.
func keyOnly(k C.struct_table_key) (e entry) {
	*as[C.struct_table_key](&e) = k
	return e
}

// flag returns bit if on.
func flag(on bool, bit C.uint8_t) C.uint8_t {
	if on {
		return bit
	}
	return 0
}

func hostEntry(s segment, h *Host, id uint32) (e entry) {
	*as[C.struct_host_entry](&e) = C.struct_host_entry{
		key:       s.key(h.IP, 0),
		l2:        C.uint64_t(h.place().l2),
		id:        C.uint32_t(id),
		version:   C.uint8_t(h.Version),
		is_static: flag(h.Static, 1),
		is_routed: flag(h.Routed, 1),

		is_confirmed: flag(h.Confirmed, 1),
	}
	return e
}

func proxyQPEntry(in segment, s *ProxyQP, src uint64, id uint32) (e entry) {
	*as[C.struct_proxy_qp_entry](&e) = C.struct_proxy_qp_entry{
		key:    in.proxyQPKey(s.HostQP),
		id:     C.uint32_t(id),
		qp:     C.uint32_t(s.QP),
		qpn:    C.uint32_t(s.QPN),
		worker: C.uint16_t(s.Worker),
		source: C.uint8_t(s.Source),
		used:   1,
		src:    C.uint64_t(src),

		partition: C.uint8_t(s.Partition),
	}
	return e
}

func rocePeer(ip netip.Addr, l2 uint64, qpn uint32, qkey ib.QKey) C.struct_roce_peer {
	return C.struct_roce_peer{ip: cAddr(ip), l2: C.uint64_t(l2), qpn: C.uint32_t(qpn), qkey: C.uint32_t(qkey)}
}

func proxyQPNEntry(in segment, s *ProxyQP, l2 uint64) (e entry) {
	*as[C.struct_proxy_qpn_entry](&e) = C.struct_proxy_qpn_entry{
		key:     numberKey(uint64(s.QPN)),
		peer:    rocePeer(s.Host, l2, uint32(s.HostQPN), s.QKey),
		shard:   C.uint8_t(C.host_shard(C.uint64_t(l2))),
		version: C.uint8_t(s.Version),

		partition: C.uint8_t(s.Partition),
		segment:   C.uint8_t(in),
	}
	return e
}

func nodeFlags(n *Node) C.uint8_t {
	return flag(n.Bridge, C.NODE_BRIDGE) | flag(n.GRH, C.NODE_GRH) | flag(n.Partition == PartitionHeard, C.NODE_HEARD)
}

func nodeEntry(ip netip.Addr, n *Node, id uint32) (e entry) {
	*as[C.struct_node_entry](&e) = C.struct_node_entry{
		key:       addrKey(ip, 0),
		gid:       cBytes(n.GID),
		id:        C.uint32_t(id),
		lid:       C.uint16_t(n.LID),
		mtu:       C.uint16_t(cmp.Or(n.MTU, maxPayload)),
		sl:        C.uint8_t(n.SL),
		flags:     nodeFlags(n),
		rate:      C.uint8_t(n.Rate),
		hop_limit: C.uint8_t(n.HopLimit),
		partition: C.uint8_t(n.Partition),
	}
	return e
}

func sourceEntry(k C.struct_table_key, n *Node, id uint32) (e entry) {
	*as[C.struct_source_entry](&e) = C.struct_source_entry{
		key:   k,
		ip4:   cAddr(n.IP4),
		ip6:   cAddr(n.IP6),
		id:    C.uint32_t(id),
		flags: nodeFlags(n),

		partition: C.uint8_t(n.Partition),
	}
	return e
}

func ownEntry(k C.struct_table_key) (e entry) {
	*as[C.struct_source_entry](&e) = C.struct_source_entry{key: k, flags: C.NODE_OWN, partition: C.PARTITION_HEARD}
	return e
}

func bridgeEntry(k C.struct_table_key) (e entry) {
	*as[C.struct_source_entry](&e) = C.struct_source_entry{key: k, flags: C.NODE_BRIDGE, partition: C.PARTITION_HEARD}
	return e
}

func groupFlags(g *Group) C.uint8_t {
	return flag(g.ToIB, C.GROUP_TO_IB) | flag(g.ToRoCE, C.GROUP_TO_ROCE) | flag(g.RewriteImm, C.GROUP_REWRITE_IMM) |
		flag(g.Policed, C.GROUP_POLICED) | flag(g.PGM, C.GROUP_PGM)
}

func groupEntry(s segment, g *Group, id uint32) (e entry) {
	*as[C.struct_group_entry](&e) = C.struct_group_entry{
		key:       s.groupKey(g.Addr()),
		mgid:      cBytes(g.MGID),
		id:        C.uint32_t(id),
		qkey:      C.uint32_t(g.QKey),
		roce_qkey: C.uint32_t(g.RoCEQKey),
		mlid:      C.uint16_t(g.MLID),
		mtu:       C.uint16_t(g.MTUToIB),
		sl:        C.uint8_t(g.SL),
		hop_limit: C.uint8_t(g.HopLimit),
		flags:     groupFlags(g) | flag(g.Segments != 0, C.GROUP_SHARED),
		rate:      C.uint8_t(g.Rate),
		partition: C.uint8_t(g.Partition),
	}
	return e
}

// groupPeer is what messages to a group are sent to.
func groupPeer(g *Group) C.struct_roce_peer {
	l2, mgid := l2Word(g.mac(), g.VLAN), cBytes(g.MGID)
	number := uint32(C.group_shard(&mgid[0]))<<C.PLAIN_PORT_BITS | uint32(g.UDPPort)
	qkey := g.RoCEQKey
	if g.Version == PlainUDP {
		qkey = ib.QKey(g.TTL)
	}
	return rocePeer(g.IP, l2, number, qkey)
}

func mgidEntry(s segment, g *Group, id uint32) (e entry) {
	in := C.uint32_t(s)
	if g.Segments != 0 {
		in = C.uint32_t(g.Segments)
	}
	*as[C.struct_mgid_entry](&e) = C.struct_mgid_entry{
		key:     gidKey(g.MGID),
		peer:    groupPeer(g),
		id:      C.uint32_t(id) | in<<C.GROUP_ID_BITS,
		mtu:     C.uint16_t(g.MTUToRoCE),
		version: C.uint8_t(g.Version) | flag(g.Segments != 0, C.SHARED),
		flags:   groupFlags(g) | C.uint8_t(g.Partition)<<C.GROUP_PARTITION_SHIFT,
	}
	return e
}

// Pointer returns the struct tables of tables.h, for a worker. It is valid until Close.
func (t *Tables) Pointer() unsafe.Pointer { return unsafe.Pointer(t.c) }

// Pointer returns the struct tables of the view, for a worker. It is valid until Close.
func (v *View) Pointer() unsafe.Pointer { return unsafe.Pointer(v.c) }

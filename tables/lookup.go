// SPDX-License-Identifier: Apache-2.0

package tables

/*
#include "tables_write.h"
*/
import "C"

import (
	"net/netip"

	"causeway/ibside/ib"
)

// The Lookups read a table the way a worker does, where the Finds read the Go maps. Fields that a table does not have
// are zero in the result. They may be called by the writer, or by the holder of a Reader.

func look(table *C.struct_table, k C.struct_table_key) (e entry, ok bool) {
	ok = C.tables_copy(table, &k, &e[0]) != 0
	return e, ok
}

// Lookup reads the table hosts.
func (t *Hosts) Lookup(ip netip.Addr) (h Host, id uint32, ok bool) {
	e, ok := look(&t.c.hosts, t.segment.key(ip, 0))
	if !ok {
		return Host{}, 0, false
	}
	c := as[C.struct_host_entry](&e)
	h = Host{IP: goAddr(c.key.addr), VLAN: vlanOf(c.l2), MAC: macOf(c.l2), Version: uint8(c.version), Static: c.is_static != 0,
		Routed: c.is_routed != 0, Confirmed: c.is_confirmed != 0}
	return h, uint32(c.id), true
}

func vlanOf(l2 C.uint64_t) uint16 { return uint16(l2 >> C.L2_MAC_BITS) }

func macOf(l2 C.uint64_t) (mac [6]byte) {
	for i := range mac {
		mac[i] = byte(l2 >> (8 * i))
	}
	return mac
}

// Lookup reads the table proxy_qps: all but QKey and Version.
func (t *ProxyQPs) Lookup(of HostQP) (s ProxyQP, id uint32, ok bool) {
	e, ok := look(&t.c.proxy_qps, t.segment.proxyQPKey(of))
	if !ok {
		return ProxyQP{}, 0, false
	}
	c := as[C.struct_proxy_qp_entry](&e)
	of = HostQP{goAddr(c.key.addr), ib.QPN(c.key.number & (1<<C.PARTITION_SHIFT - 1)), uint8(c.partition)}
	s = ProxyQP{HostQP: of, QP: uint32(c.qp), QPN: ib.QPN(c.qpn), Worker: int(c.worker),
		Source: uint8(c.source)}
	return s, uint32(c.id), true
}

// LookupQPN reads the table proxy_qpns: all but QP, Worker and Source, and the host's MAC and VLAN.
func (t *ProxyQPs) LookupQPN(qpn ib.QPN) (s ProxyQP, h Host, ok bool) {
	e, ok := look(&t.c.proxy_qpns, numberKey(uint64(qpn)))
	if !ok || segment(as[C.struct_proxy_qpn_entry](&e).segment) != t.segment {
		return ProxyQP{}, Host{}, false
	}
	c := as[C.struct_proxy_qpn_entry](&e)
	p := &c.peer
	ip := goAddr(p.ip)
	s = ProxyQP{HostQP: HostQP{ip, ib.QPN(p.qpn), uint8(c.partition)}, QPN: ib.QPN(c.key.number), QKey: ib.QKey(p.qkey), Version: uint8(c.version)}
	return s, Host{IP: ip, MAC: macOf(p.l2), VLAN: vlanOf(p.l2)}, true
}

// MarkUsed marks a proxy QP as a worker does that sends from it.
func (t *ProxyQPs) MarkUsed(of HostQP) {
	out, none := t.segment.proxyQPKey(of), numberKey(0)
	C.tables_mark_used(t.c, &out, &none)
}

// MarkUsedQP marks a proxy QP as a worker does that receives by it.
func (t *ProxyQPs) MarkUsedQP(qpn ib.QPN) {
	none, in := numberKey(0), numberKey(uint64(qpn))
	C.tables_mark_used(t.c, &none, &in)
}

// Lookup reads the table nodes: all but the node's other IP address, LMC and LIDs. Partition is the one that it is in.
func (t *Nodes) Lookup(ip netip.Addr) (n Node, id uint32, ok bool) {
	e, ok := look(&t.c.nodes, addrKey(ip, 0))
	if !ok {
		return Node{}, 0, false
	}
	c := as[C.struct_node_entry](&e)
	n = Node{GID: goBytes(c.gid), LID: ib.LID(c.lid), SL: ib.SL(c.sl), MTU: int(c.mtu), Rate: ib.Rate(c.rate),
		HopLimit: uint8(c.hop_limit), GRH: c.flags&C.NODE_GRH != 0, Bridge: c.flags&C.NODE_BRIDGE != 0, Partition: uint8(c.partition)}
	if n.Partition == PartitionHeard {
		n.Partition = uint8(C.tables_heard_in(t.c, c.id))
	}
	if a := goAddr(c.key.addr); a.Is4() {
		n.IP4 = a
	} else {
		n.IP6 = a
	}
	return n, uint32(c.id), true
}

// LookupSource reads the table sources by GID: IP4, IP6, GID, GRH and Bridge.
func (t *Nodes) LookupSource(gid ib.GID) (n Node, id uint32, ok bool) {
	n, id, ok = t.lookupSource(gidKey(gid))
	if ok {
		n.GID = gid
	}
	return n, id, ok
}

// LookupSourceLID reads the table sources by LID: IP4, IP6, LID, GRH and Bridge.
func (t *Nodes) LookupSourceLID(lid ib.LID) (n Node, id uint32, ok bool) {
	n, id, ok = t.lookupSource(numberKey(uint64(lid)))
	if ok {
		n.LID = lid
	}
	return n, id, ok
}

func (t *Nodes) lookupSource(k C.struct_table_key) (n Node, id uint32, ok bool) {
	e, ok := look(&t.c.sources, k)
	if !ok {
		return Node{}, 0, false
	}
	c := as[C.struct_source_entry](&e)
	n = Node{IP4: goAddr(c.ip4), IP6: goAddr(c.ip6), GRH: c.flags&C.NODE_GRH != 0, Bridge: c.flags&C.NODE_BRIDGE != 0}
	return n, uint32(c.id), c.flags&C.NODE_OWN == 0
}

// Lookup reads the table groups: what matters towards IB.
func (t *Groups) Lookup(a GroupAddr) (g Group, id uint32, ok bool) {
	e, ok := look(&t.c.groups, t.segment.groupKey(a))
	if !ok {
		return Group{}, 0, false
	}
	c := as[C.struct_group_entry](&e)
	g = Group{IP: goAddr(c.key.addr), UDPPort: uint16(c.key.number), MGID: goBytes(c.mgid), MLID: ib.LID(c.mlid), SL: ib.SL(c.sl),
		HopLimit: uint8(c.hop_limit), Rate: ib.Rate(c.rate), QKey: ib.QKey(c.qkey), RoCEQKey: ib.QKey(c.roce_qkey), MTUToIB: int(c.mtu),
		Partition: uint8(c.partition)}
	g.setFlags(c.flags)
	return g, uint32(c.id), true
}

// LookupMGID reads the table mgids: what matters towards RoCE.
func (t *Groups) LookupMGID(mgid ib.GID) (g Group, id uint32, ok bool) {
	e, ok := look(&t.c.mgids, gidKey(mgid))
	c := as[C.struct_mgid_entry](&e)
	in, several := uint8(c.id>>C.GROUP_ID_BITS), c.version&C.SHARED != 0
	if !ok || several != (t.segment == shared) || !several && segment(in) != t.segment {
		return Group{}, 0, false
	}
	p := &c.peer
	g = Group{IP: goAddr(p.ip), MGID: mgid, UDPPort: uint16(C.table_plain_port(p)), MTUToRoCE: int(c.mtu), VLAN: vlanOf(p.l2), Version: uint8(c.version &^ C.SHARED),
		Partition: uint8(c.flags >> C.GROUP_PARTITION_SHIFT)}
	if several {
		g.Segments = in
	}
	if g.Version == PlainUDP {
		g.TTL = uint8(p.qkey)
	} else {
		g.RoCEQKey = ib.QKey(p.qkey)
	}
	g.setFlags(c.flags)
	return g, uint32(c.id & (1<<C.GROUP_ID_BITS - 1)), true
}

func (g *Group) setFlags(f C.uint8_t) {
	g.ToIB, g.ToRoCE, g.RewriteImm = f&C.GROUP_TO_IB != 0, f&C.GROUP_TO_ROCE != 0, f&C.GROUP_REWRITE_IMM != 0
	g.Policed, g.PGM = f&C.GROUP_POLICED != 0, f&C.GROUP_PGM != 0
}

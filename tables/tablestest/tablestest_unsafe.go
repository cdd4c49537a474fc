// SPDX-License-Identifier: Apache-2.0

// Package tablestest gives tables' tests what needs C, which a _test.go file cannot have. It does not import tables,
// whose tests import it; a program that has tables has the C that it calls.
package tablestest

/*
#cgo pkg-config: libdpdk
#cgo CFLAGS: -O2 -Wall -Wextra
#cgo CFLAGS: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
#cgo portable CFLAGS: -DCAUSEWAY_PORTABLE
#include <rte_rcu_qsbr.h>

#include "../tables_write.h"

static uint64_t hash_of_host(const struct tables *t, const uint8_t *ip)
{
	struct table_key k = {0};
	memcpy(k.addr, ip, sizeof k.addr);
	return table_hash(&t->hosts, &k);
}

static uint64_t src_of_proxy_qp(const struct tables *t, const uint8_t *ip, uint64_t number)
{
	struct table_key k = {.number = number};
	const struct proxy_qp_entry *e;
	memcpy(k.addr, ip, sizeof k.addr);
	e = table_find(&t->proxy_qps, table_hash(&t->proxy_qps, &k), &k);
	return e ? e->src : 0;
}

static void quiescent(const struct tables *t, unsigned reader) { rte_rcu_qsbr_quiescent(t->rcu, reader); }
*/
import "C"

import (
	"net/netip"
	"unsafe"
)

// HashOfHost returns the hash of a host in a struct tables: what an attacker would compute who knew the seed.
func HashOfHost(tables unsafe.Pointer, ip netip.Addr) uint64 {
	addr := ip.As16()
	return uint64(C.hash_of_host((*C.struct_tables)(tables), (*C.uint8_t)(&addr[0])))
}

// SrcOfProxyQP returns the MAC address that the frames of a proxy QP in a struct tables must come from, in the order of
// a frame; zero: any. number is that of its key.
func SrcOfProxyQP(tables unsafe.Pointer, host netip.Addr, number uint64) (mac [6]byte) {
	addr := host.As16()
	src := uint64(C.src_of_proxy_qp((*C.struct_tables)(tables), (*C.uint8_t)(&addr[0]), C.uint64_t(number)))
	for i := range mac {
		mac[i] = byte(src >> (8 * i))
	}
	return mac
}

// Quiescent says that a reader holds nothing that it found before, as a worker does.
func Quiescent(tables unsafe.Pointer, reader int) {
	C.quiescent((*C.struct_tables)(tables), C.uint(reader))
}

// Stats counts one table.
type Stats struct {
	Entries int
	Retired int // entries that wait for readers
	Free    int
	Slots   int // all three together
	Buckets int
	Arrays  int    // bucket arrays that wait for readers
	At      [9]int // entries that live so many steps from their home bucket
}

// StatsOf returns the counts of each table of a struct tables. It walks them all.
func StatsOf(tables unsafe.Pointer) map[string]Stats {
	t, m := (*C.struct_tables)(tables), map[string]Stats{}
	for name, table := range map[string]*C.struct_table{
		"hosts": &t.hosts, "proxy_qps": &t.proxy_qps, "nodes": &t.nodes, "groups": &t.groups, "proxy_qpns": &t.proxy_qpns,
		"sources": &t.sources, "mgids": &t.mgids,
	} {
		c := C.table_stats(table)
		s := Stats{Entries: int(c.entries), Retired: int(c.retired), Free: int(c.free), Slots: int(c.slots), Buckets: int(c.buckets), Arrays: int(c.arrays)}
		for i := range s.At {
			s.At[i] = int(c.at[i])
		}
		m[name] = s
	}
	return m
}

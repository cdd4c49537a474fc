// SPDX-License-Identifier: Apache-2.0

package tables

/*
#include "tables_write.h"
*/
import "C"

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

// Bytes is the memory that all tables take when they are full, and that is reserved for them. What management keeps in Go
// comes on top.
func (t *Tables) Bytes() int {
	sum := 0
	for _, table := range t.tables() {
		sum += int(C.table_bytes(table))
	}
	return sum
}

func (t *Tables) tables() map[string]*C.struct_table {
	return map[string]*C.struct_table{
		"hosts": &t.c.hosts, "proxy_qps": &t.c.proxy_qps, "nodes": &t.c.nodes, "groups": &t.c.groups, "proxy_qpns": &t.c.proxy_qpns,
		"sources": &t.c.sources, "mgids": &t.c.mgids,
	}
}

// Stats returns the counts of each table. It walks them all: for a console, not for a loop.
func (t *Tables) Stats() map[string]Stats {
	m := map[string]Stats{}
	for name, table := range t.tables() {
		c := C.table_stats(table)
		s := Stats{Entries: int(c.entries), Retired: int(c.retired), Free: int(c.free), Slots: int(c.slots), Buckets: int(c.buckets), Arrays: int(c.arrays)}
		for i := range s.At {
			s.At[i] = int(c.at[i])
		}
		m[name] = s
	}
	return m
}

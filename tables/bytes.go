// SPDX-License-Identifier: Apache-2.0

package tables

/*
#include "tables_write.h"
*/
import "C"

// Bytes is the memory that all tables take when they are full, and that is reserved for them. What management keeps in
// Go comes on top.
func (t *Tables) Bytes() int {
	sum := 0
	for _, table := range []*C.struct_table{
		&t.c.hosts, &t.c.proxy_qps, &t.c.nodes, &t.c.groups, &t.c.proxy_qpns, &t.c.sources, &t.c.mgids,
	} {
		sum += int(C.table_bytes(table))
	}
	return sum
}

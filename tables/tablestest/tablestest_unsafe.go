// SPDX-License-Identifier: Apache-2.0

// Package tablestest gives tables' tests what needs C, which a _test.go file cannot have.
package tablestest

/*
#cgo pkg-config: libdpdk
#cgo CFLAGS: -O2 -Wall -Wextra -I${SRCDIR}/..
#include "tables.h"

static uint64_t hash_of_host(const struct tables *t, const uint8_t *ip)
{
	struct table_key k = {0};
	memcpy(k.addr, ip, sizeof k.addr);
	return table_hash(&t->hosts, &k);
}
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

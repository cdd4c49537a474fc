// SPDX-License-Identifier: Apache-2.0

package dpdk

// #include "dpdk.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// Mbuf is a packet buffer. Go does not look inside: it copies bytes in and out. An Mbuf has one owner, who frees it
// or hands it on; the zero Mbuf is none.
type Mbuf struct{ p *C.struct_rte_mbuf }

// Alloc takes an mbuf from the pool and copies payload into it, after the usual headroom.
func (m *Mempool) Alloc(payload []byte) (Mbuf, error) {
	if len(payload) > m.room-Headroom {
		return Mbuf{}, fmt.Errorf("dpdk: mempool %q: %d bytes do not fit in an mbuf that holds %d",
			m.name, len(payload), m.room-Headroom)
	}
	p := C.dpdk_mbuf_alloc(m.p, (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(payload))), C.uint(len(payload)))
	if p == nil {
		return Mbuf{}, fmt.Errorf("dpdk: mempool %q: all %d mbufs are in use", m.name, m.n)
	}
	return Mbuf{p}, nil
}

// Bytes copies the packet out, all its segments.
func (b Mbuf) Bytes() []byte {
	out := make([]byte, b.Len())
	if len(out) > 0 {
		C.dpdk_mbuf_copy(b.p, (*C.uint8_t)(unsafe.Pointer(&out[0])), C.uint(len(out)))
	}
	return out
}

// Len is the length of the packet.
func (b Mbuf) Len() int { return int(C.dpdk_mbuf_len(b.p)) }

// Free gives the mbuf back to its pool.
func (b Mbuf) Free() { C.dpdk_mbuf_free(b.p) }

// Pointer is the struct rte_mbuf, for the C of other packages.
func (b Mbuf) Pointer() unsafe.Pointer { return unsafe.Pointer(b.p) }

// Pointer is the struct rte_mempool, for the C of other packages.
func (m *Mempool) Pointer() unsafe.Pointer { return unsafe.Pointer(m.p) }

// Pointer is the struct rte_ring, for the C of other packages.
func (r *Ring) Pointer() unsafe.Pointer { return unsafe.Pointer(r.p) }

// mbufArray is a burst as C takes it: an Mbuf is nothing but its pointer.
func mbufArray(burst []Mbuf) **C.struct_rte_mbuf {
	return (**C.struct_rte_mbuf)(unsafe.Pointer(unsafe.SliceData(burst)))
}

// NodeOf returns the NUMA node of the page that C's memory at p is on; -1 where the kernel does not tell.
func NodeOf(p unsafe.Pointer) int { return int(C.dpdk_node_of(p)) }

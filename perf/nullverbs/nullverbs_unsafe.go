// SPDX-License-Identifier: Apache-2.0

// Package nullverbs is a verbs device without hardware, and a production worker's IB port (causeway/ibside/verbs) on
// it, to measure the cost of posting and polling, and to count doorbells.
package nullverbs

/*
#cgo pkg-config: libdpdk libibverbs
#cgo CFLAGS: -O2 -g -std=gnu11 -Wall -Wextra -Werror -I${SRCDIR}/../..
#cgo CFLAGS: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
#cgo LDFLAGS: -Wl,--wrap=ibv_close_device -Wl,--wrap=ibv_dealloc_pd -Wl,--wrap=ibv_reg_mr -Wl,--wrap=ibv_dereg_mr
#cgo LDFLAGS: -Wl,--wrap=ibv_create_cq -Wl,--wrap=ibv_destroy_cq -Wl,--wrap=ibv_create_srq -Wl,--wrap=ibv_destroy_srq
#cgo LDFLAGS: -Wl,--wrap=ibv_create_qp -Wl,--wrap=ibv_modify_qp -Wl,--wrap=ibv_destroy_qp
#cgo LDFLAGS: -Wl,--wrap=ibv_create_ah -Wl,--wrap=ibv_destroy_ah
#cgo LDFLAGS: -Wl,--wrap=ibv_create_comp_channel
#include "nullverbs.h"
*/
import "C"

import (
	"cmp"
	"fmt"
	"syscall"
	"unsafe"

	"causeway/dpdk"
	_ "causeway/ibside/verbs" // its C
)

// Sizes of a Port. Zero is the default of ibside/verbs, but one queue pair and one peer.
type Sizes struct {
	QPs      int
	Peers    int // with address handles from the beginning
	Depth    int // sends in flight of one queue pair, a power of two (128)
	Receives int // posted buffers (1024)
}

// A Port is one worker's IB port on its own device. It must not be used by two threads at a time.
type Port struct{ c *C.struct_nullverbs }

// New makes a device and a worker on it. The pool must outlive the Port.
func New(pool *dpdk.Mempool, s Sizes) (*Port, error) {
	sizes := C.struct_nullverbs_sizes{
		qps: C.uint(cmp.Or(s.QPs, 1)), peers: C.uint(cmp.Or(s.Peers, 1)), depth: C.uint(cmp.Or(s.Depth, 128)), sends: 8192,
		receives: C.uint(cmp.Or(s.Receives, 1024)),
	}
	p := &Port{}
	if errno := C.nullverbs_new((*C.struct_rte_mempool)(pool.Pointer()), &sizes, &p.c); errno != 0 {
		return nil, fmt.Errorf("nullverbs: make a device with %d queue pairs: %w", sizes.qps, syscall.Errno(errno))
	}
	return p, nil
}

// Pointer returns the struct nullverbs (nullverbs.h), which is valid until Close.
func (p *Port) Pointer() unsafe.Pointer { return unsafe.Pointer(p.c) }

// Close takes the worker and the device down.
func (p *Port) Close() error {
	if errno := C.nullverbs_free(p.c); errno != 0 {
		return fmt.Errorf("nullverbs: close: %w", syscall.Errno(errno))
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package dpdk

// #include "dpdk.h"
import "C"

import (
	"errors"
	"fmt"
	"syscall"
)

// Ring is a bounded lock-free queue of mbufs with one consumer.
type Ring struct {
	p    *C.struct_rte_ring
	name string
}

// NewRing makes a ring that holds exactly size mbufs. Without multiProducer, one thread at a time may enqueue.
func NewRing(name string, size int, multiProducer bool) (*Ring, error) {
	if _, err := theEAL(fmt.Sprintf("ring %q", name)); err != nil {
		return nil, err
	}
	if size < 1 || size > 1<<20 {
		return nil, fmt.Errorf("dpdk: ring %q: size %d: use 1 to %d", name, size, 1<<20)
	}
	r := &Ring{name: name}
	clearLog()
	err := withCString(name, func(c *C.char) C.int {
		return C.dpdk_ring_create(c, C.uint(size), C.bool(multiProducer), &r.p)
	})
	switch {
	case errors.Is(err, syscall.EEXIST):
		return nil, fmt.Errorf("dpdk: ring %q: there is one of that name; choose another", name)
	case errors.Is(err, syscall.ENOMEM):
		return nil, fmt.Errorf("dpdk: ring %q of %d: the EAL's memory is used up; raise [workers] memory_mib: %w", name, size, err)
	case err != nil:
		return nil, fmt.Errorf("dpdk: ring %q: %w", name, why(err))
	}
	return r, nil
}

// Enqueue puts the first mbufs of burst into the ring, as many as fit, and answers how many. Those are the
// ring's; the others stay the caller's.
func (r *Ring) Enqueue(burst []Mbuf) int {
	return int(C.dpdk_ring_enqueue(r.p, mbufArray(burst), C.uint(len(burst))))
}

// Dequeue takes up to len(burst) mbufs out of the ring and answers how many. They are the caller's.
func (r *Ring) Dequeue(burst []Mbuf) int {
	return int(C.dpdk_ring_dequeue(r.p, mbufArray(burst), C.uint(len(burst))))
}

// Len is the number of mbufs in the ring.
func (r *Ring) Len() int { return int(C.dpdk_ring_count(r.p)) }

// Free frees the mbufs left in the ring, and the ring.
func (r *Ring) Free() {
	if r.p == nil {
		return
	}
	r.drain()
	C.dpdk_ring_free(r.p)
	r.p = nil
}

func (r *Ring) drain() {
	var burst [32]Mbuf
	for n := r.Dequeue(burst[:]); n > 0; n = r.Dequeue(burst[:]) {
		for _, m := range burst[:n] {
			m.Free()
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

// Package nullverbs is a verbs device without hardware, and a production worker's IB door (causeway/ibside/verbs) on it:
// to measure what posting and polling cost, and to count doorbells.
package nullverbs

/*
#cgo pkg-config: libdpdk libibverbs
#cgo CFLAGS: -O2 -g -std=gnu11 -Wall -Wextra -Werror -I${SRCDIR}/../..
#cgo LDFLAGS: -Wl,--wrap=ibv_close_device -Wl,--wrap=ibv_dealloc_pd -Wl,--wrap=ibv_reg_mr -Wl,--wrap=ibv_dereg_mr
#cgo LDFLAGS: -Wl,--wrap=ibv_create_cq -Wl,--wrap=ibv_destroy_cq -Wl,--wrap=ibv_create_srq -Wl,--wrap=ibv_destroy_srq
#cgo LDFLAGS: -Wl,--wrap=ibv_create_qp -Wl,--wrap=ibv_modify_qp -Wl,--wrap=ibv_destroy_qp
#cgo LDFLAGS: -Wl,--wrap=ibv_create_ah -Wl,--wrap=ibv_destroy_ah
#include <rte_mbuf.h>
#include "nullverbs.h"

enum { PAYLOAD_BYTE = 0x5a };

// Posts one message of len bytes from each of these queue pairs, in one call: imm counts them. Returns how many were taken.
static unsigned post_order(struct nullverbs *n, struct rte_mempool *pool, const unsigned *qps, unsigned count, uint16_t len)
{
	struct ib_send s[64];
	struct ib_door *d = nullverbs_door(n);

	for (unsigned i = 0; i < count; i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
		if (!m)
			return 0;
		memset(rte_pktmbuf_append(m, len), PAYLOAD_BYTE, len);
		s[i] = (struct ib_send){.mbuf = m, .ah = nullverbs_peer(0), .qp = nullverbs_handle(n, qps[i]), .dest_qpn = 0x48,
			.imm = i, .flags = IB_SEND_IMM | IB_SEND_GRH};
	}
	return d->post(d->self, s, count);
}

static void free_completed(struct nullverbs *n) { nullverbs_door(n)->free(nullverbs_door(n)->self); }

// Polls for up to count messages, looks at them, and gives their mbufs back.
static unsigned poll_all(struct nullverbs *n, unsigned count, uint32_t *qpns, uint32_t *lens)
{
	struct ib_recv r[64];
	unsigned got = nullverbs_door(n)->poll(nullverbs_door(n)->self, r, count);

	for (unsigned i = 0; i < got; i++) {
		qpns[i] = r[i].qpn;
		lens[i] = r[i].mbuf->pkt_len;
		rte_pktmbuf_free(r[i].mbuf);
	}
	return got;
}
*/
import "C"

import (
	"fmt"
	"syscall"
	"unsafe"

	"causeway/dpdk"
	_ "causeway/ibside/verbs" // its C
)

// Sizes of a Door. Zero means the default of ibside/verbs, but one queue pair and one peer.
type Sizes struct {
	QPs      int
	Peers    int // whose address handles are there from the beginning
	Depth    int // sends under way of one queue pair, a power of two (128)
	Sends    int // sends under way of all (8192)
	Receives int // buffers posted (1024)
}

// A Door is one worker's, on a device of its own. Its methods are for one goroutine at a time, and not for when C uses
// the Pointer.
type Door struct {
	c    *C.struct_nullverbs
	pool *C.struct_rte_mempool
}

// New makes a device and a worker on it. The pool is closed after the Door.
func New(pool *dpdk.Mempool, s Sizes) (*Door, error) {
	or := func(n, otherwise int) C.uint {
		if n == 0 {
			n = otherwise
		}
		return C.uint(n)
	}
	sizes := C.struct_nullverbs_sizes{
		qps: or(s.QPs, 1), peers: or(s.Peers, 1), depth: or(s.Depth, 128), sends: or(s.Sends, 8192), receives: or(s.Receives, 1024),
	}
	d := &Door{pool: (*C.struct_rte_mempool)(pool.Pointer())}
	if errno := C.nullverbs_new(d.pool, &sizes, &d.c); errno != 0 {
		return nil, fmt.Errorf("nullverbs: make a device with %d queue pairs: %w", sizes.qps, syscall.Errno(errno))
	}
	return d, nil
}

// Pointer returns the struct nullverbs (nullverbs.h). It is valid until Close.
func (d *Door) Pointer() unsafe.Pointer { return unsafe.Pointer(d.c) }

// Close takes the worker and the device down.
func (d *Door) Close() error {
	if errno := C.nullverbs_free(d.c); errno != 0 {
		return fmt.Errorf("nullverbs: close: %w", syscall.Errno(errno))
	}
	return nil
}

// QPN returns the number of a queue pair, counted from 0.
func (d *Door) QPN(qp int) uint32 { return uint32(C.nullverbs_qpn(d.c, C.uint(qp))) }

// SendBells returns how often the device was told of sends.
func (d *Door) SendBells() uint64 { return uint64(C.nullverbs_send_bells(d.c)) }

// ReceiveBells returns how often the device was told of receive buffers.
func (d *Door) ReceiveBells() uint64 { return uint64(C.nullverbs_recv_bells(d.c)) }

// Drops returns how many messages the worker's door has dropped.
func (d *Door) Drops() uint64 { return uint64(C.nullverbs_drops(d.c)) }

// payloadByte is what payloads of Post are made of.
const payloadByte = C.PAYLOAD_BYTE

// maxOrder is the longest burst of Post and Poll.
const maxOrder = 64

// Post posts one message from each of these queue pairs, in one call of the door; the immediate is its place in the call.
func (d *Door) Post(qps []int, size int) int {
	order := make([]C.uint, 0, maxOrder)
	for _, q := range qps[:min(len(qps), maxOrder)] {
		order = append(order, C.uint(q))
	}
	return int(C.post_order(d.c, d.pool, unsafe.SliceData(order), C.uint(len(order)), C.uint16_t(size)))
}

// Sent is one send as the device read it.
type Sent struct {
	QPN, DestQPN, Imm uint32
	Len               int
	Sum               int // of the bytes, if they were inline
	Inline, Signaled  bool
}

// CarryOut has the device carry out what it was told of, and the worker take the completions. It returns the sends in
// their order on each queue pair.
func (d *Door) CarryOut() []Sent {
	var notes [maxOrder]C.struct_nullverbs_sent
	C.nullverbs_note(d.c, &notes[0], maxOrder)
	n := int(C.nullverbs_carry_out(d.c))
	C.nullverbs_note(d.c, nil, 0)
	C.free_completed(d.c)
	var out []Sent
	for _, s := range notes[:min(n, maxOrder)] {
		out = append(out, Sent{
			QPN: uint32(s.qpn), DestQPN: uint32(s.dest_qpn), Imm: uint32(s.imm), Len: int(s.len), Sum: int(s.sum),
			Inline: s.lkey == 0, Signaled: s.signaled != 0,
		})
	}
	return out
}

// Deliver has the device receive n messages of a size, for the first qps queue pairs in turn, and returns how many it could.
func (d *Door) Deliver(n, size, qps int) int {
	return int(C.nullverbs_deliver(d.c, C.uint(n), C.uint32_t(size), C.uint(qps)))
}

// Received is one message as the worker got it.
type Received struct {
	QPN uint32
	Len int // with the 40-byte area
}

// Poll has the worker poll once, for n messages at most, and then give new buffers to the device.
func (d *Door) Poll(n int) []Received {
	var qpns, lens [maxOrder]C.uint32_t
	got := int(C.poll_all(d.c, C.uint(min(n, maxOrder)), &qpns[0], &lens[0]))
	C.free_completed(d.c)
	var out []Received
	for i := range got {
		out = append(out, Received{uint32(qpns[i]), int(lens[i])})
	}
	return out
}

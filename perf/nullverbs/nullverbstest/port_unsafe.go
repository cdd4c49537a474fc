// SPDX-License-Identifier: Apache-2.0

// Package nullverbstest drives a nullverbs.Port from both ends, for its tests.
package nullverbstest

/*
#cgo pkg-config: libdpdk libibverbs
#cgo CFLAGS: -O2 -g -std=gnu11 -Wall -Wextra -Werror -I${SRCDIR}/../../..
#cgo CFLAGS: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
#include <rte_mbuf.h>
#include "perf/nullverbs/nullverbs.h"

enum { PAYLOAD_BYTE = 0x5a };

// Posts one message of len bytes from each of these queue pairs, in one call; imm is its index. Returns how many were
// taken.
static unsigned post_order(struct nullverbs *n, struct rte_mempool *pool, const unsigned *qps, unsigned count, uint16_t len)
{
	struct ib_send s[64];
	struct ib_port *p = nullverbs_port(n);

	for (unsigned i = 0; i < count; i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
		if (!m)
			return 0;
		memset(rte_pktmbuf_append(m, len), PAYLOAD_BYTE, len);
		s[i] = (struct ib_send){.mbuf = m, .ah = nullverbs_peer(0), .qp = nullverbs_handle(n, qps[i]), .dest_qpn = 0x48,
			.imm = i, .flags = IB_SEND_IMM | IB_SEND_GRH};
	}
	return p->post(p->self, s, count);
}

static void free_completed(struct nullverbs *n) { nullverbs_port(n)->free(nullverbs_port(n)->self); }

// Polls for up to count messages, reads their QPNs and lengths, and frees their mbufs.
static unsigned poll_all(struct nullverbs *n, unsigned count, uint32_t *qpns, uint32_t *lens)
{
	struct ib_recv r[64];
	unsigned got = nullverbs_port(n)->poll(nullverbs_port(n)->self, r, count);

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
	"unsafe"

	"causeway/dpdk"
	"causeway/perf/nullverbs"
)

// Port is a nullverbs.Port with calls for both of its ends.
type Port struct {
	*nullverbs.Port
	c    *C.struct_nullverbs
	pool *C.struct_rte_mempool
}

// New makes a Port.
func New(pool *dpdk.Mempool, s nullverbs.Sizes) (*Port, error) {
	p, err := nullverbs.New(pool, s)
	if err != nil {
		return nil, err
	}
	return &Port{p, (*C.struct_nullverbs)(p.Pointer()), (*C.struct_rte_mempool)(pool.Pointer())}, nil
}

// QPN returns the number of a queue pair, counted from 0.
func (p *Port) QPN(qp int) uint32 { return uint32(C.nullverbs_qpn(p.c, C.uint(qp))) }

// SendDoorbells is how many doorbells the device has had for sends.
func (p *Port) SendDoorbells() uint64 { return uint64(C.nullverbs_send_bells(p.c)) }

// Drops is how many messages the worker's port has dropped.
func (p *Port) Drops() uint64 { return uint64(C.nullverbs_drops(p.c)) }

// PayloadByte is the value of all bytes of payloads of Post.
const PayloadByte = C.PAYLOAD_BYTE

// MaxBurst is the longest burst of Post and Poll.
const MaxBurst = 64

// Post posts one message from each of these queue pairs, in one call of the port; the immediate is its index.
func (p *Port) Post(qps []int, size int) int {
	order := make([]C.uint, 0, MaxBurst)
	for _, q := range qps[:min(len(qps), MaxBurst)] {
		order = append(order, C.uint(q))
	}
	return int(C.post_order(p.c, p.pool, unsafe.SliceData(order), C.uint(len(order)), C.uint16_t(size)))
}

// Sent is one send as the device read it.
type Sent struct {
	QPN, DestQPN, Imm uint32
	Len               int
	Sum               int // of the bytes of an inline payload
	Inline, Signaled  bool
}

// CarryOut makes the device carry out the posted sends, and the worker take the completions. It returns the sends, in
// order for each queue pair.
func (p *Port) CarryOut() []Sent {
	var notes [MaxBurst]C.struct_nullverbs_sent
	C.nullverbs_note(p.c, &notes[0], MaxBurst)
	n := int(C.nullverbs_carry_out(p.c))
	C.nullverbs_note(p.c, nil, 0)
	C.free_completed(p.c)
	var out []Sent
	for _, s := range notes[:min(n, MaxBurst)] {
		out = append(out, Sent{
			QPN: uint32(s.qpn), DestQPN: uint32(s.dest_qpn), Imm: uint32(s.imm), Len: int(s.len), Sum: int(s.sum),
			Inline: s.lkey == 0, Signaled: s.signaled != 0,
		})
	}
	return out
}

// Deliver makes the device receive n messages of a size, for the first qps queue pairs in turn, and returns how many it
// could receive.
func (p *Port) Deliver(n, size, qps int) int {
	return int(C.nullverbs_deliver(p.c, C.uint(n), C.uint32_t(size), C.uint(qps)))
}

// Received is one message as the worker received it.
type Received struct {
	QPN uint32
	Len int // with the 40-byte GRH area
}

// Poll makes the worker poll once, for n messages at most, and post new buffers.
func (p *Port) Poll(n int) []Received {
	var qpns, lens [MaxBurst]C.uint32_t
	got := int(C.poll_all(p.c, C.uint(min(n, MaxBurst)), &qpns[0], &lens[0]))
	C.free_completed(p.c)
	var out []Received
	for i := range got {
		out = append(out, Received{uint32(qpns[i]), int(lens[i])})
	}
	return out
}

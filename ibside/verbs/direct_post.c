/* SPDX-License-Identifier: Apache-2.0 */
/* Sends on mlx5 without its library: requests in 64-byte blocks, a doorbell record and one bell for each queue pair of
 * a burst. */
#include <endian.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_memcpy.h>
#include <rte_prefetch.h>

#include "direct.h"

enum { UNIT = 16 }; /* bytes in which a request's size is counted */

_Static_assert(sizeof(struct mlx5_wqe_ctrl_seg) + sizeof(struct mlx5_wqe_av) == DIRECT_BLOCK,
	       "the address ends a block");
_Static_assert(VERBS_MAX_SGE * sizeof(struct mlx5_wqe_data_seg) <= DIRECT_BLOCK, "a request's pointers are one block");

static inline uint8_t *block(const struct verbs_qp *q, uint16_t i)
{
	return direct_block(&q->sq, i);
}

static unsigned units(unsigned bytes)
{
	return (bytes + UNIT - 1) / UNIT;
}

/* Copies to a place in the ring, which goes on at its start, and returns where the next byte goes. */
static uint8_t *copy(const struct verbs_qp *q, uint8_t *to, const struct ibv_sge *s)
{
	uint8_t *end = q->sq.ring + (size_t)(q->sq.mask + 1) * DIRECT_BLOCK;
	const uint8_t *from = (const uint8_t *)(uintptr_t)s->addr;
	size_t room = (size_t)(end - to);

	if (likely(s->length <= room)) {
		rte_memcpy(to, from, s->length);
		return to + s->length;
	}
	memcpy(to, from, room);
	memcpy(q->sq.ring, from + room, s->length - room);
	return q->sq.ring + s->length - room;
}

/* These return how many units there are. An empty payload has none, inline or not: a pointer to 0 bytes would mean
 * 2^31. */
static unsigned put_inline(const struct verbs_qp *q, uint8_t *at, const struct ibv_sge *s, unsigned pieces)
{
	struct mlx5_wqe_inl_data_seg *d = (void *)at;
	uint8_t *to = at + sizeof(*d);
	uint32_t bytes = 0;

	for (unsigned i = 0; i < pieces; i++) {
		to = copy(q, to, &s[i]);
		bytes += s[i].length;
	}
	if (unlikely(bytes == 0))
		return 0;
	d->byte_count = htobe32(bytes | MLX5_INLINE_SEG);
	return units(sizeof(*d) + bytes);
}

static unsigned put_pointers(uint8_t *at, const struct ibv_sge *s, unsigned pieces)
{
	struct mlx5_wqe_data_seg *d = (void *)at;
	unsigned n = 0;

	for (unsigned i = 0; i < pieces; i++)
		if (likely(s[i].length))
			mlx5dv_set_data_seg(&d[n++], s[i].length, s[i].lkey, s[i].addr);
	return n * units(sizeof(*d));
}

static void put_address(struct mlx5_wqe_av *to, const struct outgoing *o)
{
	memcpy(to, o->address, sizeof(*to));
	to->key.qkey.qkey = htobe32(o->dest_qkey);
	to->dqp_dct = htobe32(o->dest_qpn | MLX5_EXTENDED_UD_AV);
}

static void put(struct verbs_qp *q, const struct outgoing *o, const struct ibv_sge *s)
{
	uint16_t at = q->sq.next;
	struct mlx5_wqe_ctrl_seg *c = (void *)block(q, at);
	uint8_t *data = block(q, (uint16_t)(at + 1));
	unsigned n = units(DIRECT_BLOCK) +
		     (o->inlined ? put_inline(q, data, s, o->pieces) : put_pointers(data, s, o->pieces));
	bool imm = o->flags & IB_SEND_IMM;

	put_address((void *)(c + 1), o);
	c->dci_stream_channel_id = 0;
	mlx5dv_set_ctrl_seg(c, at, imm ? MLX5_OPCODE_SEND_IMM : MLX5_OPCODE_SEND, 0, q->qpn,
			    (o->signaled ? MLX5_WQE_CTRL_CQ_UPDATE : 0) |
				    (o->flags & IB_SEND_SOLICITED ? MLX5_WQE_CTRL_SOLICITED : 0),
			    (uint8_t)n, 0, imm ? htobe32(o->imm) : 0);
	q->fifo[o->sequence & q->mask].block = at;
	q->sq.last = at;
	q->sq.next = (uint16_t)(at + (n * UNIT + DIRECT_BLOCK - 1) / DIRECT_BLOCK);
}

/* The last request's first bytes say up to where. */
static void ring_bell(struct direct_bell *b, const struct verbs_qp *q)
{
	const uint64_t *words = (const void *)block(q, q->sq.last);

	*(volatile uint64_t *)(b->reg + b->offset) = *words;
	direct_flush_bell(b->reg + b->offset);
	b->offset ^= b->half;
}

/* There is room for all: a queue pair has no more requests under way than it was made for. */
void direct_post(struct verbs_worker *w)
{
	for (unsigned i = 0; i < w->burst.n; i++) {
		const struct outgoing *o = &w->burst.out[i];
		put(o->q, o, w->burst.sge[i]);
	}
	direct_requests_before_records();
	for (unsigned i = 0; i < w->burst.lists; i++) {
		const struct verbs_qp *q = w->burst.list[i].q;
		*(volatile __be32 *)q->sq.record = htobe32(q->sq.next);
	}
	direct_records_before_bells();
	for (unsigned i = 0; i < w->burst.lists; i++)
		ring_bell(&w->direct->bell, w->burst.list[i].q);
}

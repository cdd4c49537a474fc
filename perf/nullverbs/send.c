/* SPDX-License-Identifier: Apache-2.0 */
/* Sends: the driver writes requests and rings, the device carries them out. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include <rte_atomic.h>
#include <rte_branch_prediction.h>
#include <rte_common.h>

#include "device.h"

static uint32_t total(const struct ibv_send_wr *wr)
{
	uint32_t n = 0;

	for (int i = 0; i < wr->num_sge; i++)
		n += wr->sg_list[i].length;
	return n;
}

/* The errno for a request that cannot be taken, or 0; n have been taken in this call. */
static int check(const struct null_qp *q, const struct ibv_send_wr *wr, uint32_t n)
{
	if (unlikely(wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM))
		return EINVAL;
	if (unlikely(q->head - q->tail + n >= q->most))
		return ENOMEM;
	if (unlikely(wr->num_sge > MAX_SGES))
		return ENOMEM;
	return unlikely((wr->send_flags & IBV_SEND_INLINE) && total(wr) > MAX_INLINE) ? ENOMEM : 0;
}

/* A length and the payload itself, which may wrap around the end of the ring. */
static unsigned put_inline(const struct null_qp *q, uint32_t block, const struct ibv_send_wr *wr)
{
	uint32_t *length = (uint32_t *)block_at(q, block), n = 0;
	uint8_t *to = (uint8_t *)(length + 1);

	for (int i = 0; i < wr->num_sge; i++) {
		const uint8_t *from = (const uint8_t *)(uintptr_t)wr->sg_list[i].addr;
		for (uint32_t left = wr->sg_list[i].length; left > 0;) {
			uint32_t part = RTE_MIN(left, (uint32_t)(q->end - to));
			memcpy(to, from, part);
			n += part;
			left -= part;
			from += part;
			to = to + part == q->end ? q->ring : to + part;
		}
	}
	*length = htobe32(INLINE_DATA | n);
	return RTE_ALIGN_CEIL((unsigned)sizeof(*length) + n, 16u);
}

static unsigned put_data(const struct null_qp *q, uint32_t block, const struct ibv_send_wr *wr)
{
	struct data_segment *d = (struct data_segment *)block_at(q, block);

	for (int i = 0; i < wr->num_sge; i++) {
		d[i].length = htobe32(wr->sg_list[i].length);
		d[i].lkey = htobe32(wr->sg_list[i].lkey);
		d[i].addr = htobe64(wr->sg_list[i].addr);
	}
	return (unsigned)wr->num_sge * sizeof(*d);
}

static struct control_segment *write_request(struct null_qp *q, const struct ibv_send_wr *wr, uint32_t n)
{
	uint32_t at = q->next & q->mask;
	struct control_segment *c = (struct control_segment *)block_at(q, at);
	struct address_segment *a = (struct address_segment *)(c + 1);
	unsigned flags = (wr->send_flags & IBV_SEND_SIGNALED ? SIGNALED : 0) |
			 (wr->send_flags & IBV_SEND_SOLICITED ? SOLICITED : 0);
	bool imm = wr->opcode == IBV_WR_SEND_WITH_IMM;

	c->flags = htobe32(flags);
	c->imm = imm ? wr->imm_data : 0;
	*a = ((struct null_ah *)wr->wr.ud.ah)->address;
	a->dest_qpn = htobe32(wr->wr.ud.remote_qpn);
	a->qkey = htobe32(wr->wr.ud.remote_qkey);
	unsigned size = BLOCK + (wr->send_flags & IBV_SEND_INLINE ? put_inline : put_data)(q, at + 1, wr);
	c->index_opcode = htobe32((q->next & 0xffff) << 8 | (imm ? OP_SEND_IMM : OP_SEND));
	c->qpn_size = htobe32(q->qp.qp_num << 8 | size / 16);
	q->wr_id[at] = wr->wr_id;
	q->head_at[at] = q->head + n;
	q->next += (size + BLOCK - 1) / BLOCK;
	return c;
}

/* The record first, then the register, which is write-combining memory: its write must leave the CPU before the next.
 */
static void ring_bell(struct null_qp *q, const struct control_segment *last, uint32_t n)
{
	uint64_t word;

	q->head += n;
	memcpy(&word, last, sizeof(word));
	rte_io_wmb();
	*(uint32_t volatile *)q->record = htobe32(q->next & 0xffff);
	rte_wmb();
	q->dev->bell = word;
	rte_wmb();
	q->dev->rung++;
}

int null_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct null_qp *q = (struct null_qp *)qp;
	struct control_segment *last = NULL;
	uint32_t n = 0;
	int err = 0;

	pthread_spin_lock(&q->lock);
	for (; wr; wr = wr->next, n++) {
		err = check(q, wr, n);
		if (unlikely(err)) {
			*bad = wr;
			break;
		}
		last = write_request(q, wr, n);
	}
	if (likely(last))
		ring_bell(q, last, n);
	pthread_spin_unlock(&q->lock);
	return err;
}

/* The device's side. */

void null_complete(struct null_cq *c, const struct completion *what, unsigned kind)
{
	struct completion *e = &c->ring[c->written & c->mask];
	uint8_t owner = (c->written++ >> c->log) & 1;

	memcpy(e, what, offsetof(struct completion, kind_owner));
	rte_io_wmb();
	*(uint8_t volatile *)&e->kind_owner = (uint8_t)(kind << 4 | owner);
}

/* Reads inline data, which may wrap around the end of the ring. */
static uint32_t sum_inline(const struct null_qp *q, const uint8_t *from, uint32_t n)
{
	uint32_t sum = 0;

	for (; n > 0; n--) {
		sum += *from++;
		from = from == q->end ? q->ring : from;
	}
	return sum;
}

static void note(struct null_device *d, const struct null_qp *q, const struct control_segment *c)
{
	const struct address_segment *a = (const struct address_segment *)(c + 1);
	const struct data_segment *data = (const struct data_segment *)block_at(q, q->done + 1);
	uint32_t length = be32toh(data->length);

	d->notes_left--;
	*d->notes++ = (struct nullverbs_sent){
		.qpn = be32toh(c->qpn_size) >> 8,
		.dest_qpn = be32toh(a->dest_qpn),
		.imm = be32toh(c->imm),
		.lkey = length & INLINE_DATA ? 0 : be32toh(data->lkey),
		.len = length & ~INLINE_DATA,
		.signaled = be32toh(c->flags) & SIGNALED,
		.sum = length & INLINE_DATA ? sum_inline(q, (const uint8_t *)&data->lkey, length & ~INLINE_DATA) : 0,
	};
}

/* Carries out the requests up to the doorbell record. */
static unsigned carry_out(struct null_device *d, struct null_qp *q)
{
	uint32_t till = be32toh(*(uint32_t volatile *)q->record);
	struct completion what = {.qpn = htobe32(q->qp.qp_num)};
	unsigned n = 0;

	for (; (q->done & 0xffff) != till; n++) {
		const struct control_segment *c = (const struct control_segment *)block_at(q, q->done);
		uint32_t blocks = ((be32toh(c->qpn_size) & 0x3f) * 16 + BLOCK - 1) / BLOCK;
		if (unlikely(d->notes_left))
			note(d, q, c);
		what.index = htobe16((uint16_t)q->done);
		if (be32toh(c->flags) & SIGNALED)
			null_complete((struct null_cq *)q->qp.send_cq, &what, DONE_SEND);
		q->done += blocks;
	}
	return n;
}

unsigned null_carry_out(struct null_device *d)
{
	unsigned n = 0;

	for (unsigned i = 0; i < d->qps; i++)
		if (d->qp[i])
			n += carry_out(d, d->qp[i]);
	return n;
}

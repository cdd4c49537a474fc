/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that arrive, and the buffers that they fill. A shared queue is a list: each place begins with the number of
 * the next one. A queue pair's own queue is used in order. A place's pieces end with the last, or with a key that says
 * so.
 */
#include <endian.h>
#include <string.h>

#include "device.h"

enum { END_OF_PIECES = MLX5_INVALID_LKEY };

static uint32_t waiting(const struct mem_rq *r)
{
	return (uint16_t)(be32toh(__atomic_load_n(r->record, __ATOMIC_ACQUIRE)) - r->taken);
}

static uint8_t *place(const struct mem_rq *r, uint16_t at)
{
	return r->buf + (size_t)(at & (r->places - 1)) * r->stride;
}

static const struct mlx5_wqe_data_seg *pieces(const struct mem_rq *r, uint16_t at)
{
	return (const void *)(place(r, at) + (r->shared ? sizeof(struct mlx5_wqe_srq_next_seg) : 0));
}

static bool in_place(const struct mem_rq *r, uint16_t at, const struct mlx5_wqe_data_seg *d)
{
	return (const uint8_t *)(d + 1) <= place(r, at) + r->stride && d->lkey != htobe32(END_OF_PIECES);
}

/* Takes the next buffer, and returns its place. */
static uint16_t take(struct mem_rq *r)
{
	uint16_t at = r->at;

	if (r->shared)
		r->at = be16toh(((const struct mlx5_wqe_srq_next_seg *)place(r, at))->next_wqe_index);
	else
		r->at++;
	r->taken++;
	return at;
}

/* Writes bytes first to last of the 40 and the payload; what the message does not have stays. */
static void fill(uint8_t *to, const struct mlx5mem_arrival *a, uint32_t first, uint32_t n)
{
	uint32_t head = first < GRH_BYTES ? GRH_BYTES - first : 0;

	head = head < n ? head : n;
	if (head && a->grh)
		memcpy(to, a->grh + first, head);
	if (n > head && a->data)
		memcpy(to + head, (const uint8_t *)a->data + first + head - GRH_BYTES, n - head);
}

/* Writes the message to the pieces of a place. 0, or the syndrome. */
static uint8_t scatter(const struct mem_qp *q, uint16_t at, const struct mlx5mem_arrival *a)
{
	const struct mem_rq *r = q->rq;
	uint32_t done = 0, all = GRH_BYTES + a->len;

	for (const struct mlx5_wqe_data_seg *d = pieces(r, at); done < all && in_place(r, at, d); d++) {
		uint32_t n = be32toh(d->byte_count);
		uint64_t addr = be64toh(d->addr);
		if (n == 0) {
			mem_fault("receive queue of queue pair %#x, place %u: a piece of 0 bytes means 2^31", q->qpn,
				  at);
			return MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
		}
		n = n < all - done ? n : all - done;
		if (!mem_may(be32toh(d->lkey), r->pd, addr, n, true, "receive queue of queue pair", q->qpn))
			return MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
		fill((uint8_t *)(uintptr_t)addr, a, done, n);
		done += n;
	}
	return done < all ? MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR : 0;
}

static bool receives(const struct mem_qp *q)
{
	return q->state == IBV_QPS_RTR || q->state == IBV_QPS_RTS || q->state == IBV_QPS_SQD || q->state == IBV_QPS_SQE;
}

static void complete(struct mem_qp *q, uint16_t at, const struct mlx5mem_arrival *a)
{
	struct mlx5_cqe64 *e = mem_cqe_begin(q->recv_cq, q, at, 0);

	if (!e)
		return;
	e->ml_path = a->path_bits & 0x7f;
	e->slid = htobe16(a->slid);
	e->flags_rqpn = htobe32((a->grh ? 1u << 28 : 0) | (a->sl & 0xfu) << 24 | (a->src_qpn & 0xffffff));
	e->imm_inval_pkey = a->has_imm ? a->imm : htobe32(q->pkey_index);
	e->byte_cnt = htobe32(GRH_BYTES + a->len);
	mem_cqe_end(q->recv_cq, e, a->has_imm ? MLX5_CQE_RESP_SEND_IMM : MLX5_CQE_RESP_SEND, a->solicited);
	mem.count.received++;
}

static unsigned arrive(const struct mlx5mem_arrival *a)
{
	struct mem_qp *q = mem_qp_of(a->qpn);

	if (!q || !receives(q) || a->qkey != q->qkey || waiting(q->rq) == 0) {
		mem.count.dropped++;
		return 0;
	}
	if (q->rq->shared && q->rq->at >= q->rq->places) {
		mem_fault("shared receive queue: its next place is %u of %u", q->rq->at, q->rq->places);
		return 0;
	}
	uint16_t at = take(q->rq);
	uint8_t syndrome = mem_take_failure(&mem.receive_failure, q->qpn);
	syndrome = syndrome ? syndrome : scatter(q, at, a);
	if (syndrome) {
		mem_cqe_error(q->recv_cq, q, at, MLX5_CQE_RESP_ERR, 0, syndrome);
		q->state = IBV_QPS_ERR;
		return 0;
	}
	complete(q, at, a);
	return 1;
}

unsigned mlx5mem_deliver(const struct mlx5mem_arrival *a)
{
	mem_lock();
	unsigned n = arrive(a);
	mem_unlock();
	return n;
}

void mem_flush_receives(struct mem_qp *q)
{
	while (!q->rq->shared && waiting(q->rq) > 0)
		mem_cqe_error(q->recv_cq, q, take(q->rq), MLX5_CQE_RESP_ERR, 0, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
}

unsigned mlx5mem_buffers(uint32_t qpn)
{
	mem_lock();
	const struct mem_qp *q = mem_qp_of(qpn);
	unsigned n = q ? waiting(q->rq) : 0;
	mem_unlock();
	return n;
}

uint8_t *mlx5mem_next_buffer(uint32_t qpn, uint32_t *len)
{
	uint8_t *out = NULL;

	mem_lock();
	const struct mem_qp *q = mem_qp_of(qpn);
	if (q && waiting(q->rq) > 0) {
		const struct mlx5_wqe_data_seg *d = pieces(q->rq, q->rq->at);
		*len = be32toh(d->byte_count);
		out = (uint8_t *)(uintptr_t)be64toh(d->addr);
	}
	mem_unlock();
	return out;
}

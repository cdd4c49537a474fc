/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device of mock.c to a worker that uses its queues directly: rings and records of mlx5's form, which the device
 * reads when a bell has been flushed. It ends the program at the first breach: a record before its requests, a bell
 * before its record, two bells without a flush between them, a bell that is not the last request's.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#include "mock.h"
#include "order.h"

enum { HALF = 256 };

static uint8_t doorbell[2 * HALF] __attribute__((aligned(64)));
static struct mlx5_wqe_av vector = {.rlid = 7};
static struct mock_qp *qp_at[MOCK_QPS];
static struct mock_srq *srq; /* the last one made */
static bool records_open;    /* they may be ahead of the device */

void rings_add(struct mock_qp *q)
{
	qp_at[q->qp.qp_num - MOCK_FIRST_QPN] = q;
}

void rings_remove(struct mock_qp *q)
{
	qp_at[q->qp.qp_num - MOCK_FIRST_QPN] = NULL;
}

bool mlx5dv_is_supported(struct ibv_device *d)
{
	(void)d;
	return true;
}

static void take_cq(struct mock_cq *c, struct mlx5dv_cq *to)
{
	for (unsigned i = 0; i < MOCK_RING; i++)
		c->ring[i].op_own = MLX5_CQE_INVALID << 4;
	c->direct = true;
	*to = (struct mlx5dv_cq){.buf = c->ring, .dbrec = c->record, .cqe_cnt = MOCK_RING, .cqe_size = mock.cqe_size};
}

static void take_srq(struct mock_srq *s, struct mlx5dv_srq *to)
{
	for (unsigned i = 0; i + 1 < MOCK_RING; i++)
		s->place[i].nseg.next_wqe_index = htobe16((uint16_t)(i + 1));
	s->direct = true;
	srq = s;
	*to = (struct mlx5dv_srq){
		.buf = s->place, .dbrec = s->record, .stride = sizeof(s->place[0]), .tail = MOCK_RING - 1};
}

int mlx5dv_init_obj(struct mlx5dv_obj *o, uint64_t kind)
{
	if (kind == MLX5DV_OBJ_CQ)
		take_cq((struct mock_cq *)o->cq.in, o->cq.out);
	else if (kind == MLX5DV_OBJ_SRQ)
		take_srq((struct mock_srq *)o->srq.in, o->srq.out);
	else if (kind == MLX5DV_OBJ_AH)
		o->ah.out->av = &vector;
	else if (kind == MLX5DV_OBJ_QP) {
		struct mock_qp *q = (struct mock_qp *)o->qp.in;
		*o->qp.out = (struct mlx5dv_qp){.dbrec = q->record,
						.sq = {.buf = q->block, .wqe_cnt = MOCK_RING, .stride = MOCK_BLOCK},
						.bf = {.reg = doorbell, .size = HALF}};
	}
	return 0;
}

/* ── Sends ── */

/* No record may be ahead of the device before the requests are written. */
void rings_requests_written(void)
{
	for (unsigned i = 0; i < MOCK_QPS; i++)
		if (qp_at[i] && (uint16_t)be32toh(qp_at[i]->record[MLX5_SND_DBR]) != qp_at[i]->next)
			abort();
	records_open = true;
}

static bool is_silent(void)
{
	for (unsigned i = 0; i < sizeof(doorbell); i++)
		if (doorbell[i])
			return false;
	return true;
}

void rings_records_written(void)
{
	if (!records_open || !is_silent())
		abort();
	records_open = false;
}

/* Notes the request at q->next as post_send does, and returns how many blocks it has. */
static unsigned note(struct mock_qp *q)
{
	const struct mlx5_wqe_ctrl_seg *c = (const void *)q->block[q->next % MOCK_RING];
	const struct mlx5_wqe_av *av = (const void *)(c + 1);
	uint32_t first = be32toh(c->opmod_idx_opcode), second = be32toh(c->qpn_ds), units = second & 0x3f;
	unsigned i = (mock.send_first + mock.send_n++) % MOCK_QUEUE;

	if ((uint16_t)(first >> 8) != q->next || second >> 8 != q->qp.qp_num || units < 4 || c->dci_stream_channel_id ||
	    c->signature || !(av->dqp_dct & htobe32(MLX5_EXTENDED_UD_AV)) || av->rlid != vector.rlid)
		abort();
	mock.sends[i] = (struct ibv_send_wr){.wr_id = q->next};
	mock.send_qp[i] = &q->qp;
	if (c->fm_ce_se & MLX5_WQE_CTRL_CQ_UPDATE)
		mock.sends[i].send_flags |= IBV_SEND_SIGNALED;
	return (units + 3) / 4;
}

void rings_bell(const void *at)
{
	uint32_t word[2];

	memcpy(word, at, sizeof(word));
	memset(doorbell + ((const uint8_t *)at - doorbell), 0, sizeof(word));
	uint32_t i = (be32toh(word[1]) >> 8) - MOCK_FIRST_QPN;
	if (records_open || !is_silent() || i >= MOCK_QPS || !qp_at[i])
		abort();
	struct mock_qp *q = qp_at[i];
	uint16_t until = (uint16_t)be32toh(q->record[MLX5_SND_DBR]), last = q->next;
	while (q->next != until) {
		last = q->next;
		q->next = (uint16_t)(q->next + note(q));
	}
	if (memcmp(word, q->block[last % MOCK_RING], sizeof(word)) != 0)
		abort();
}

/* ── Completions ── */

static uint8_t kind_of(const struct ibv_wc *wc, bool receive)
{
	if (wc->status != IBV_WC_SUCCESS)
		return MLX5_CQE_REQ_ERR;
	return receive ? MLX5_CQE_RESP_SEND : MLX5_CQE_REQ;
}

void rings_complete(struct mock_cq *c, const struct ibv_wc *wc, bool receive)
{
	struct mlx5_cqe64 *e = &c->ring[c->written % MOCK_RING];

	if (((c->written - be32toh(c->record[0])) & 0xffffff) >= MOCK_RING)
		abort();
	e->sop_drop_qpn = htobe32(wc->qp_num);
	e->wqe_counter = htobe16((uint16_t)wc->wr_id);
	e->byte_cnt = htobe32(wc->byte_len);
	if (wc->status != IBV_WC_SUCCESS)
		((struct mlx5_err_cqe *)e)->syndrome = MLX5_CQE_SYNDROME_WR_FLUSH_ERR;
	__atomic_store_n(&e->op_own, (uint8_t)(kind_of(wc, receive) << 4 | (c->written / MOCK_RING & 1)),
			 __ATOMIC_RELEASE);
	c->written++;
}

void rings_buffers_written(void)
{
	srq->seen = (uint16_t)be32toh(srq->record[0]);
	srq->ordered = true;
}

unsigned rings_posted(struct mock_srq *s)
{
	uint16_t posted = (uint16_t)be32toh(s->record[0]);

	if (posted != s->seen && !s->ordered)
		abort();
	s->ordered = false;
	s->seen = posted;
	return (uint16_t)(posted - s->taken);
}

/* The place of the oldest buffer. */
uint16_t rings_take_buffer(struct mock_srq *s)
{
	uint16_t at = s->at;

	if (rings_posted(s) == 0)
		abort();
	s->at = be16toh(s->place[at].nseg.next_wqe_index);
	s->taken++;
	return at;
}

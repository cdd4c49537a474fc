/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's side of completions. */
#include <endian.h>

#include <rte_atomic.h>
#include <rte_branch_prediction.h>

#include "device.h"

/* The next completion, or NULL. A load fence makes sure that it is read after its owner bit, as in providers. */
static const struct completion *next(struct null_cq *c)
{
	const struct completion *e = &c->ring[c->next & c->mask];
	uint8_t k = *(const uint8_t volatile *)&e->kind_owner;

	if (k >> 4 == DONE_NOTHING || (k & 1) != ((c->next >> c->log) & 1))
		return NULL;
	c->next++;
	rte_rmb();
	return e;
}

static void end_send(struct null_cq *c, uint32_t qpn, const struct completion *e, struct ibv_wc *wc)
{
	struct null_device *d = device_of(c->cq.context);

	if (unlikely(!c->qp || c->qp->qp.qp_num != qpn))
		c->qp = d->qp[qpn - FIRST_QPN];
	uint32_t at = be16toh(e->index) & c->qp->mask;
	wc->wr_id = c->qp->wr_id[at];
	wc->opcode = IBV_WC_SEND;
	wc->wc_flags = 0;
	wc->byte_len = 0;
	c->qp->tail = c->qp->head_at[at] + 1;
}

/* The request goes to the end of the list. */
static void end_receive(struct null_cq *c, const struct completion *e, struct ibv_wc *wc)
{
	struct null_srq *s = device_of(c->cq.context)->srq;
	uint16_t at = be16toh(e->index);
	uint32_t from = be32toh(e->src_qp), path = be32toh(e->slid_path);

	pthread_spin_lock(&s->lock);
	wc->wr_id = s->wr_id[at];
	s->ring[s->tail].next = htobe16(at);
	s->tail = at;
	pthread_spin_unlock(&s->lock);
	wc->opcode = IBV_WC_RECV;
	wc->byte_len = be32toh(e->length);
	wc->imm_data = e->imm;
	wc->src_qp = from & 0xffffff;
	wc->sl = (from >> 24) & 0xf;
	wc->wc_flags = from >> 31 ? IBV_WC_GRH : 0;
	wc->slid = (uint16_t)(path >> 16);
	wc->pkey_index = (uint16_t)be32toh(e->imm); /* as mlx5's: verbs defines it for QP1 alone */
	wc->dlid_path_bits = 0;
}

int null_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct null_cq *c = (struct null_cq *)cq;
	const struct completion *e;
	int got = 0;

	pthread_spin_lock(&c->lock);
	for (; got < n && (e = next(c)); got++) {
		wc[got].status = IBV_WC_SUCCESS;
		wc[got].vendor_err = 0;
		wc[got].qp_num = be32toh(e->qpn);
		if (e->kind_owner >> 4 == DONE_SEND)
			end_send(c, wc[got].qp_num, e, &wc[got]);
		else
			end_receive(c, e, &wc[got]);
	}
	if (got > 0) {
		rte_io_wmb();
		*(uint32_t volatile *)c->record = htobe32(c->next & 0xffffff);
	}
	pthread_spin_unlock(&c->lock);
	return got;
}

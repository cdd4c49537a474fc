/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends, in message order:
 *
 *   check ▶ address handle ▶ (wait for it) ▶ queue ▶ one list per queue pair
 *
 * A message taken here is sent or dropped with a reason. Its mbuf stays in its queue pair's fifo until its
 * completion (poll.c): the completion of a signalled send completes all before it, too.
 */
#include <arpa/inet.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_mbuf.h>

#include "worker.h"

void verbs_drop_send(struct verbs_worker *w, enum send_drop why, struct rte_mbuf *m)
{
	w->counters.send_drops[why]++;
	rte_pktmbuf_free(m);
}

static int fill_sges(const struct verbs_device *d, struct rte_mbuf *m, struct ibv_sge *sge)
{
	int n = 0;

	for (; m; m = m->next, n++) {
		sge[n].addr = rte_pktmbuf_mtod(m, uintptr_t);
		sge[n].length = m->data_len;
		const struct verbs_mr *mr = verbs_mr_of(d, sge[n].addr);
		if (unlikely(!mr))
			return -1;
		sge[n].lkey = mr->lkey;
	}
	return n;
}

static enum send_drop check(const struct verbs_worker *w, const struct verbs_qp *q, const struct ib_send *s)
{
	uint64_t outstanding = w->taken - w->ended - __atomic_load_n(&w->cleared, __ATOMIC_RELAXED);

	if (unlikely(!q))
		return SEND_DROP_no_qp;
	if (unlikely(__atomic_load_n(&q->state, __ATOMIC_ACQUIRE) != QP_UP))
		return __atomic_load_n(&q->pkey_lost, __ATOMIC_RELAXED) ? SEND_DROP_pkey_lost : SEND_DROP_qp_down;
	if (unlikely(s->mbuf->pkt_len > __atomic_load_n(&w->dev->mtu, __ATOMIC_RELAXED)))
		return SEND_DROP_mtu;
	if (unlikely(s->mbuf->nb_segs > VERBS_MAX_SGE))
		return SEND_DROP_segments;
	uint32_t head = __atomic_load_n(&q->head, __ATOMIC_RELAXED);
	if (unlikely(head - __atomic_load_n(&q->tail, __ATOMIC_RELAXED) > q->mask))
		return SEND_DROP_qp_full;
	return unlikely(outstanding >= w->send_capacity) ? SEND_DROP_cq_full : SEND_DROPS;
}

static void fill_wr(struct ibv_send_wr *wr, struct ibv_ah *ah, const struct verbs_qp *q, const struct ib_send *s)
{
	wr->wr_id = (uint64_t)q->handle << 32 | __atomic_load_n(&q->head, __ATOMIC_RELAXED);
	wr->next = NULL;
	wr->opcode = s->flags & IB_SEND_IMM ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
	wr->imm_data = htonl(s->imm);
	wr->send_flags = s->flags & IB_SEND_SOLICITED ? IBV_SEND_SOLICITED : 0;
	if (s->mbuf->pkt_len <= q->max_inline)
		wr->send_flags |= IBV_SEND_INLINE;
	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = s->dest_qpn;
	wr->wr.ud.remote_qkey = s->dest_qkey;
}

/* Puts one send at the end of its queue pair's list. At least every half queue is signalled, and the last of
 * a list (post_lists): an idle proxy QP keeps no mbufs. */
static void queue(struct verbs_worker *w, struct verbs_qp *q, struct ah_entry *e, const struct ib_send *s)
{
	struct ibv_send_wr *wr = &w->burst.wr[w->burst.n];
	uint32_t head = __atomic_load_n(&q->head, __ATOMIC_RELAXED);

	wr->sg_list = w->burst.sge[w->burst.n];
	wr->num_sge = fill_sges(w->dev, s->mbuf, wr->sg_list);
	if (unlikely(wr->num_sge < 0)) {
		verbs_drop_send(w, SEND_DROP_not_registered, s->mbuf);
		return;
	}
	fill_wr(wr, e->ah, q, s);
	if (((head + 1) & (q->mask >> 1)) == 0)
		wr->send_flags |= IBV_SEND_SIGNALED;
	if (wr->send_flags & IBV_SEND_INLINE)
		w->counters.inlined++;
	if (q->batch != w->batch) {
		q->batch = w->batch;
		w->burst.qp[w->burst.lists] = q;
		w->burst.first[w->burst.lists++] = wr;
	} else {
		q->last->next = wr;
	}
	q->last = wr;
	q->fifo[head & q->mask] = (struct in_flight){s->mbuf, e};
	__atomic_store_n(&q->head, head + 1, __ATOMIC_RELAXED);
	w->burst.n++;
	w->taken++;
}

static void await_ah(struct verbs_worker *w, struct ah_entry *e, const struct ib_send *s)
{
	if (unlikely(w->pending_n >= w->pending_most || e->pending_sends >= w->pending_most / 2)) {
		verbs_drop_send(w, SEND_DROP_ah_pending, s->mbuf);
		return;
	}
	e->pending_sends++;
	w->pending[w->pending_n++] = (struct pending_send){*s, e};
}

static void take(struct verbs_worker *w, const struct ib_send *s)
{
	struct verbs_qp *q = verbs_qp_of(w, s->qp);
	enum send_drop why = check(w, q, s);

	if (unlikely(why != SEND_DROPS)) {
		verbs_drop_send(w, why, s->mbuf);
		return;
	}
	struct ah_entry *e = verbs_ah_find(w, q, &s->ah, s->flags & IB_SEND_GRH);
	if (unlikely(!e))
		verbs_drop_send(w, q->pending_ahs < VERBS_AHS_PENDING_PER_QP ? SEND_DROP_ah_full : SEND_DROP_ah_pending,
				s->mbuf);
	else if (likely(e->state == AH_READY))
		queue(w, q, e, s);
	else if (e->state == AH_PENDING)
		await_ah(w, e, s);
	else
		verbs_drop_send(w, SEND_DROP_ah_failed, s->mbuf);
}

/* The device accepted none from bad on: they are removed from the end of the fifo. The sends before it may lack a
 * signalled one, so the queue pair is reset in any case. */
static void post_failed(struct verbs_worker *w, struct verbs_qp *q, const struct ibv_send_wr *bad)
{
	uint32_t from = (uint32_t)bad->wr_id, head = __atomic_load_n(&q->head, __ATOMIC_RELAXED);

	for (uint32_t i = from; i != head; i++) {
		verbs_drop_send(w, SEND_DROP_post_failed, q->fifo[i & q->mask].mbuf);
		w->taken--;
	}
	__atomic_store_n(&q->head, from, __ATOMIC_RELAXED);
	mark_error(w, q);
}

static void post_lists(struct verbs_worker *w)
{
	for (unsigned i = 0; i < w->burst.lists; i++) {
		struct verbs_qp *q = w->burst.qp[i];
		struct ibv_send_wr *bad = NULL;
		q->last->send_flags |= IBV_SEND_SIGNALED;
		w->counters.lists++;
		if (unlikely(ibv_post_send(q->qp, w->burst.first[i], &bad)))
			post_failed(w, q, bad);
	}
}

static void begin(struct verbs_worker *w)
{
	w->batch++;
	w->burst.n = 0;
	w->burst.lists = 0;
}

unsigned verbs_post(void *self, const struct ib_send *sends, unsigned n)
{
	struct verbs_worker *w = self;

	enter(w);
	w->counters.posted += n;
	for (unsigned done = 0; done < n;) {
		begin(w);
		for (unsigned end = RTE_MIN(done + VERBS_BURST, n); done < end; done++)
			take(w, &sends[done]);
		post_lists(w);
	}
	leave(w);
	return n;
}

/* Messages whose address handle is still missing stay, in their order. Sending may reuse an entry for another
 * handle, or make messages wait again behind the others: so the counts of entries are recomputed. */
void verbs_post_pending(struct verbs_worker *w)
{
	unsigned n = w->pending_n, kept = 0;

	for (unsigned i = 0; i < n; i++)
		w->pending[i].entry->pending_sends = 0;
	for (unsigned i = 0; i < n;) {
		begin(w);
		for (unsigned end = RTE_MIN(i + VERBS_BURST, n); i < end; i++) {
			struct pending_send h = w->pending[i];
			if (h.entry->state == AH_PENDING) {
				h.entry->pending_sends++;
				w->pending[kept++] = h;
				continue;
			}
			take(w, &h.send);
		}
		post_lists(w);
	}
	for (; n < w->pending_n; n++)
		w->pending[kept++] = w->pending[n];
	w->pending_n = kept;
}

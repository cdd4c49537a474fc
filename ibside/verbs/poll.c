/* SPDX-License-Identifier: Apache-2.0 */
/* Completions: received messages, ended sends, and the receive buffers that follow. */
#include <arpa/inet.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_mbuf.h>

#include "worker.h"

/* On the error path only: a queue pair by its number. */
static void mark_qpn(struct verbs_worker *w, uint32_t qpn)
{
	for (unsigned i = 1; i < w->qps_n; i++) {
		struct verbs_qp *q = __atomic_load_n(&w->qps[i], __ATOMIC_ACQUIRE);
		if (q && q->qpn == qpn)
			mark_error(w, q);
	}
}

static struct rte_mbuf *take_slot(struct verbs_worker *w, unsigned slot)
{
	struct rte_mbuf *m = w->recv_mbuf[slot];

	w->recv_mbuf[slot] = NULL;
	w->recv_stack[w->recv_free++] = (uint16_t)slot;
	return m;
}

static bool deliver(struct verbs_worker *w, const struct ibv_wc *wc, struct ib_recv *r)
{
	struct rte_mbuf *m = take_slot(w, (unsigned)wc->wr_id);

	w->counters.received++;
	if (unlikely(wc->status != IBV_WC_SUCCESS)) {
		w->counters.recv_drops[RECV_DROP_wc_error]++;
		rte_pktmbuf_free(m);
		mark_qpn(w, wc->qp_num);
		return false;
	}
	w->counters.delivered++;
	m->data_len = (uint16_t)wc->byte_len;
	m->pkt_len = wc->byte_len;
	*r = (struct ib_recv){
		.mbuf = m,
		.qpn = wc->qp_num,
		.src_qpn = wc->src_qp,
		.slid = wc->slid,
		.sl = w->dev->ethernet ? 0 : wc->sl, /* Ethernet has none, and mlx5 puts the packet's type there */
	};
	if (wc->wc_flags & IBV_WC_GRH)
		r->flags |= IB_RECV_GRH;
	if (wc->wc_flags & IBV_WC_WITH_IMM) {
		r->flags |= IB_RECV_IMM;
		r->imm = ntohl(wc->imm_data);
	}
	return true;
}

/* Publishes how many completions the worker has taken from recv_cq (verbs_qp_drained). */
static void pass(struct verbs_worker *w, unsigned taken, bool empty)
{
	uint64_t passed = __atomic_load_n(&w->recv_passed, __ATOMIC_RELAXED);

	__atomic_store_n(&w->recv_passed, passed + taken + (empty ? recv_lap(w) : 0), __ATOMIC_RELEASE);
}

unsigned verbs_poll(void *self, struct ib_recv *recvs, unsigned n)
{
	struct verbs_worker *w = self;
	struct ibv_wc wc[VERBS_BURST];
	unsigned out = 0;

	enter(w);
	n = RTE_MIN(n, (unsigned)VERBS_BURST);
	int got = ibv_poll_cq(w->recv_cq, (int)n, wc);
	for (int i = 0; i < got; i++)
		out += deliver(w, &wc[i], &recvs[out]);
	if (likely(got >= 0))
		pass(w, (unsigned)got, (unsigned)got < n);
	leave(w);
	return out;
}

/* Removes completed sends from the fifo: all up to the one that the completion is for, whose status it has.
 * A completion from before a reset matches none in flight. */
static void end_sends(struct verbs_worker *w, struct verbs_qp *q, const struct ibv_wc *wc)
{
	uint32_t tail = __atomic_load_n(&q->tail, __ATOMIC_RELAXED);
	uint32_t n = (uint32_t)wc->wr_id + 1 - tail;

	if (unlikely(n == 0 || n > __atomic_load_n(&q->head, __ATOMIC_RELAXED) - tail))
		return;
	for (uint32_t i = 0; i < n; i++)
		rte_pktmbuf_free(q->fifo[(tail + i) & q->mask].mbuf);
	__atomic_store_n(&q->tail, tail + n, __ATOMIC_RELEASE);
	w->ended += n;
	if (likely(wc->status == IBV_WC_SUCCESS)) {
		w->counters.sent += n;
		return;
	}
	w->counters.sent += n - 1;
	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		w->counters.send_drops[SEND_DROP_wc_flushed]++;
		return;
	}
	w->counters.send_drops[SEND_DROP_wc_error]++;
	verbs_ah_retire(w, q->fifo[(tail + n - 1) & q->mask].ah); /* it may be the cause */
}

unsigned verbs_complete(struct verbs_worker *w)
{
	struct ibv_wc wc[VERBS_BURST];
	int got = ibv_poll_cq(w->send_cq, VERBS_BURST, wc);

	for (int i = 0; i < got; i++) {
		struct verbs_qp *q = verbs_qp_of(w, (uint32_t)(wc[i].wr_id >> 32));
		if (unlikely(!q))
			continue;
		if (unlikely(__atomic_load_n(&q->state, __ATOMIC_ACQUIRE) == QP_DOWN))
			continue;
		end_sends(w, q, &wc[i]);
		if (unlikely(wc[i].status != IBV_WC_SUCCESS))
			mark_error(w, q);
	}
	return got > 0 ? (unsigned)got : 0;
}

/* The 40-byte area begins at the mbuf's data offset, so the headroom before it is free for headers. An IPv4
 * header fills only the area's second half; the first is zeroed, so that it is not taken for an older one's. */
static void fill_recv(struct verbs_worker *w, struct rte_mbuf *m, struct ibv_recv_wr *wr, struct ibv_sge *sge)
{
	uint16_t slot = w->recv_stack[--w->recv_free];
	uintptr_t p = rte_pktmbuf_mtod(m, uintptr_t);

	memset((void *)p, 0, IB_GRH_LEN / 2);
	w->recv_mbuf[slot] = m;
	*sge = (struct ibv_sge){.addr = p, .length = IB_GRH_LEN + VERBS_PAYLOAD, .lkey = verbs_mr_of(w->dev, p)->lkey};
	if (sge->length > rte_pktmbuf_tailroom(m))
		sge->length = rte_pktmbuf_tailroom(m);
	*wr = (struct ibv_recv_wr){.wr_id = slot, .next = wr + 1, .sg_list = sge, .num_sge = 1};
}

/* Returns whether another list may follow. */
static bool post_receives(struct verbs_worker *w)
{
	struct rte_mbuf *m[VERBS_BURST];
	struct ibv_recv_wr wr[VERBS_BURST], *bad = NULL;
	struct ibv_sge sge[VERBS_BURST];
	unsigned n = RTE_MIN(w->recv_free, (unsigned)VERBS_BURST);

	if (rte_pktmbuf_alloc_bulk(w->dev->pool, m, n)) {
		w->counters.no_buffers++;
		return false;
	}
	for (unsigned i = 0; i < n; i++)
		fill_recv(w, m[i], &wr[i], &sge[i]);
	wr[n - 1].next = NULL;
	if (likely(ibv_post_srq_recv(w->srq, wr, &bad) == 0))
		return true;
	for (; bad; bad = bad->next)
		rte_pktmbuf_free(take_slot(w, (unsigned)bad->wr_id));
	return false;
}

/* Posts lists of at least half a burst, to save doorbells. */
void verbs_refill(struct verbs_worker *w)
{
	while (w->recv_free >= VERBS_BURST / 2 && post_receives(w))
		;
}

void verbs_free(void *self)
{
	struct verbs_worker *w = self;
	enum { ROUNDS = 4 };

	enter(w);
	for (int i = 0; i < ROUNDS && verbs_complete(w) == VERBS_BURST; i++)
		;
	if (unlikely(verbs_ah_answers(w)) && w->pending_n)
		verbs_post_pending(w);
	verbs_refill(w);
	leave(w);
}

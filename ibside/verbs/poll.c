/* SPDX-License-Identifier: Apache-2.0 */
/* Completions: received messages, ended sends, and the receive buffers that follow. */
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_mbuf.h>

#include "queues.h"

/* On the error path only: a queue pair by its number. */
void verbs_mark_qpn(struct verbs_worker *w, uint32_t qpn)
{
	for (unsigned i = 1; i < w->qps_n; i++) {
		struct verbs_qp *q = __atomic_load_n(&w->qps[i], __ATOMIC_ACQUIRE);
		if (q && q->qpn == qpn)
			mark_error(w, q);
	}
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
	unsigned out = 0;

	enter(w);
	n = RTE_MIN(n, (unsigned)VERBS_BURST);
	int got = w->queues->receive(w, recvs, n, &out);
	if (likely(got >= 0))
		pass(w, (unsigned)got, (unsigned)got < n);
	leave(w);
	return out;
}

void verbs_free_ended(struct ended_mbufs *e)
{
	rte_pktmbuf_free_bulk(e->mbuf, e->n);
	e->n = 0;
}

/* A completion from before a reset matches none in flight. */
void verbs_end_sends(struct verbs_worker *w, struct verbs_qp *q, uint32_t n, enum ibv_wc_status status,
		     struct ended_mbufs *ended)
{
	uint32_t tail = __atomic_load_n(&q->tail, __ATOMIC_RELAXED);

	if (unlikely(n == 0 || n > __atomic_load_n(&q->head, __ATOMIC_RELAXED) - tail))
		return;
	for (uint32_t i = 0; i < n; i++) {
		struct rte_mbuf *m = q->fifo[(tail + i) & q->mask].mbuf;
		if (!m)
			continue;
		ended->mbuf[ended->n++] = m;
		if (unlikely(ended->n == VERBS_BURST))
			verbs_free_ended(ended);
	}
	__atomic_store_n(&q->tail, tail + n, __ATOMIC_RELEASE);
	w->ended += n;
	if (likely(status == IBV_WC_SUCCESS)) {
		w->counters.sent += n;
		return;
	}
	w->counters.sent += n - 1;
	if (status == IBV_WC_WR_FLUSH_ERR) {
		w->counters.send_drops[SEND_DROP_wc_flushed]++;
		return;
	}
	w->counters.send_drops[SEND_DROP_wc_error]++;
	verbs_ah_retire(w, &w->ahs[q->fifo[(tail + n - 1) & q->mask].ah]); /* it may be the cause */
}

/* The 40-byte area begins at the mbuf's data offset, so the headroom before it is free for headers. Of the mbuf only
 * the first cache line is touched: the rest is as it was freed. On Ethernet an IPv4 header fills only the area's second
 * half; the first is zeroed, so that it is not taken for an older one's. */
static void make_ready(const struct verbs_worker *w, struct rte_mbuf *m)
{
	m->data_off = RTE_PKTMBUF_HEADROOM;
	m->port = RTE_MBUF_PORT_INVALID;
	m->ol_flags &= RTE_MBUF_F_EXTERNAL;
	m->packet_type = 0;
	m->vlan_tci = 0;
	if (w->dev->ethernet)
		memset(rte_pktmbuf_mtod(m, void *), 0, IB_GRH_LEN / 2);
}

/* Returns whether another list may follow. */
static bool post_receives(struct verbs_worker *w)
{
	struct rte_mbuf *m[VERBS_BURST];
	unsigned n = RTE_MIN(w->recv_free, (unsigned)VERBS_BURST);

	if (unlikely(rte_mempool_get_bulk(w->dev->pool, (void **)m, n))) {
		w->counters.no_buffers++;
		return false;
	}
	for (unsigned i = 0; i < n; i++)
		__builtin_prefetch(m[i], 1);
	for (unsigned i = 0; i < n; i++)
		make_ready(w, m[i]);
	return w->queues->refill(w, m, n);
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
	for (int i = 0; i < ROUNDS && w->queues->complete(w) == VERBS_BURST; i++)
		;
	if (unlikely(verbs_ah_answers(w)) && w->pending_n)
		verbs_post_pending(w);
	verbs_refill(w);
	leave(w);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends, in message order:
 *
 *   prefetch ▶ check ▶ address handle ▶ (wait for it) ▶ burst ▶ one list per queue pair ▶ inlined mbufs freed
 *
 * A message taken here is sent or dropped with a reason. Its place in its queue pair's fifo ends with its completion
 * (poll.c): the completion of a signalled send completes all before it, too. Its mbuf stays there, unless the payload
 * went inline.
 */
#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include "queues.h"

void verbs_drop_send(struct verbs_worker *w, enum send_drop why, struct rte_mbuf *m)
{
	w->counters.send_drops[why]++;
	rte_pktmbuf_free(m);
}

/* Returns how many pieces the payload has; negative: one is not registered. */
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

/* A queue pair's ring is walked round, so with many of them its next blocks are in no cache. */
static void prefetch_ring(const struct direct_sq *s)
{
	for (uint16_t i = 0; i < s->most; i++)
		__builtin_prefetch(direct_block(s, (uint16_t)(s->next + i)), 1);
	__builtin_prefetch(s->record, 1);
}

/* The queue pair's list of this burst. */
static struct outgoing_list *list_of(struct verbs_worker *w, struct verbs_qp *q)
{
	struct outgoing_list *l = &w->burst.list[q->list];

	if (q->list < w->burst.lists && l->q == q)
		return l;
	q->list = (uint16_t)w->burst.lists++;
	l = &w->burst.list[q->list];
	*l = (struct outgoing_list){.q = q, .first = w->burst.n};
	prefetch_ring(&q->sq);
	return l;
}

/* Puts one send at the end of its queue pair's list. At least every half queue is signalled, and the last of
 * a list (post_burst): an idle proxy QP keeps no mbufs. */
static void queue(struct verbs_worker *w, struct verbs_qp *q, struct ah_entry *e, const struct ib_send *s)
{
	uint32_t head = __atomic_load_n(&q->head, __ATOMIC_RELAXED);
	int pieces = fill_sges(w->dev, s->mbuf, w->burst.sge[w->burst.n]);

	if (unlikely(pieces < 0)) {
		verbs_drop_send(w, SEND_DROP_not_registered, s->mbuf);
		return;
	}
	struct outgoing_list *l = list_of(w, q);
	bool inlined = s->mbuf->pkt_len <= q->max_inline;
	l->last = w->burst.n;
	rte_prefetch0(e->address);
	w->burst.out[w->burst.n++] = (struct outgoing){
		.q = q,
		.address = e->address,
		.mbuf = s->mbuf,
		.sequence = head,
		.imm = s->imm,
		.dest_qpn = s->dest_qpn,
		.dest_qkey = s->dest_qkey,
		.flags = s->flags,
		.list = (uint8_t)q->list,
		.pieces = (uint8_t)pieces,
		.inlined = inlined,
		.signaled = ((head + 1) & (q->mask >> 1)) == 0,
	};
	q->fifo[head & q->mask] = (struct in_flight){inlined ? NULL : s->mbuf, (uint32_t)(e - w->ahs), 0};
	__atomic_store_n(&q->head, head + 1, __ATOMIC_RELAXED);
	w->taken++;
}

static void tell_pending(struct verbs_worker *w)
{
	__atomic_store_n(&w->pending_told, w->pending_n, __ATOMIC_RELEASE);
}

static void await_ah(struct verbs_worker *w, struct ah_entry *e, const struct ib_send *s)
{
	if (unlikely(w->pending_n >= w->pending_most || e->pending_sends >= w->pending_most / 2)) {
		verbs_drop_send(w, SEND_DROP_ah_pending, s->mbuf);
		return;
	}
	e->pending_sends++;
	w->pending[w->pending_n++] = (struct pending_send){*s, e};
	tell_pending(w);
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

/* The payload of these is in the work requests: nobody reads the mbufs any more. */
static void free_inlined(struct verbs_worker *w)
{
	struct rte_mbuf *m[VERBS_BURST];
	unsigned n = 0;

	for (unsigned i = 0; i < w->burst.n; i++)
		if (w->burst.out[i].inlined)
			m[n++] = w->burst.out[i].mbuf;
	w->counters.inlined += n;
	rte_pktmbuf_free_bulk(m, n);
}

static void post_burst(struct verbs_worker *w)
{
	for (unsigned i = 0; i < w->burst.lists; i++)
		w->burst.out[w->burst.list[i].last].signaled = true;
	w->counters.lists += w->burst.lists;
	w->queues->post(w);
	free_inlined(w);
}

static void begin(struct verbs_worker *w)
{
	w->burst.n = 0;
	w->burst.lists = 0;
}

/* With many queue pairs in use none of them is in a cache, nor is its place in the fifo for the next message. */
static void prefetch(const struct verbs_worker *w, const struct ib_send *sends, unsigned n)
{
	struct verbs_qp *q[VERBS_BURST];
	unsigned k = 0;

	for (unsigned i = 0; i < n; i++) {
		unsigned at = HANDLE_INDEX(sends[i].qp);
		if (unlikely(at >= w->qps_n))
			continue;
		q[k] = __atomic_load_n(&w->qps[at], __ATOMIC_RELAXED);
		rte_prefetch0(q[k]);
		k += !!q[k];
	}
	for (unsigned i = 0; i < k; i++)
		__builtin_prefetch(&q[i]->fifo[__atomic_load_n(&q[i]->head, __ATOMIC_RELAXED) & q[i]->mask], 1);
}

unsigned verbs_post(void *self, const struct ib_send *sends, unsigned n)
{
	struct verbs_worker *w = self;

	enter(w);
	w->counters.posted += n;
	for (unsigned done = 0; done < n;) {
		unsigned end = RTE_MIN(done + VERBS_BURST, n);
		prefetch(w, &sends[done], end - done);
		begin(w);
		for (; done < end; done++)
			take(w, &sends[done]);
		post_burst(w);
	}
	leave(w);
	return n;
}

/* Messages whose address handle is still missing stay, in their order; so do those that must ask again, because theirs
 * was retired at once. That may reuse their entry, so that the counts of entries are recomputed. A message that is
 * taken adds one at most: the list is written behind where it is read. */
void verbs_post_pending(struct verbs_worker *w)
{
	unsigned n = w->pending_n;

	for (unsigned i = 0; i < n; i++)
		w->pending[i].entry->pending_sends = 0;
	w->pending_n = 0;
	for (unsigned i = 0; i < n;) {
		begin(w);
		for (unsigned end = RTE_MIN(i + VERBS_BURST, n); i < end; i++) {
			struct pending_send h = w->pending[i];
			if (h.entry->state != AH_PENDING) {
				take(w, &h.send);
				continue;
			}
			h.entry->pending_sends++;
			w->pending[w->pending_n++] = h;
		}
		post_burst(w);
	}
	tell_pending(w);
}

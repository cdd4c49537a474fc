/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's queues by libibverbs: the innermost part of posting, polling and refilling. */
#include <arpa/inet.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include "queues.h"

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

static void fill_wr(struct ibv_send_wr *wr, const struct outgoing *o, struct ibv_sge *sge)
{
	wr->wr_id = (uint64_t)o->q->handle << 32 | o->sequence;
	wr->next = NULL;
	wr->sg_list = sge;
	wr->num_sge = o->pieces;
	wr->opcode = o->flags & IB_SEND_IMM ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
	wr->imm_data = htonl(o->imm);
	wr->send_flags = (o->flags & IB_SEND_SOLICITED ? IBV_SEND_SOLICITED : 0) | (o->inlined ? IBV_SEND_INLINE : 0) |
			 (o->signaled ? IBV_SEND_SIGNALED : 0);
	wr->wr.ud.ah = (struct ibv_ah *)(uintptr_t)o->address;
	wr->wr.ud.remote_qpn = o->dest_qpn;
	wr->wr.ud.remote_qkey = o->dest_qkey;
}

static void post(struct verbs_worker *w)
{
	struct ibv_send_wr wr[VERBS_BURST], *last[VERBS_BURST];

	for (unsigned i = 0; i < w->burst.n; i++) {
		const struct outgoing *o = &w->burst.out[i];
		fill_wr(&wr[i], o, w->burst.sge[i]);
		if (i != w->burst.list[o->list].first)
			last[o->list]->next = &wr[i];
		last[o->list] = &wr[i];
	}
	for (unsigned i = 0; i < w->burst.lists; i++) {
		const struct outgoing_list *l = &w->burst.list[i];
		struct ibv_send_wr *bad = NULL;
		if (unlikely(ibv_post_send(l->q->qp, &wr[l->first], &bad)))
			post_failed(w, l->q, bad);
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
		verbs_mark_qpn(w, wc->qp_num);
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

static int receive(struct verbs_worker *w, struct ib_recv *recvs, unsigned n, unsigned *out)
{
	struct ibv_wc wc[VERBS_BURST];
	int got = ibv_poll_cq(w->recv_cq, (int)n, wc);

	for (int i = 0; i < got; i++)
		__builtin_prefetch(w->recv_mbuf[wc[i].wr_id], 1);
	for (int i = 0; i < got; i++)
		*out += deliver(w, &wc[i], &recvs[*out]);
	return got;
}

static struct verbs_qp *sender_of(const struct verbs_worker *w, const struct ibv_wc *wc)
{
	return verbs_qp_of(w, (uint32_t)(wc->wr_id >> 32));
}

/* Each step loads what the next one needs: queue pairs, then their fifos' ends. */
static void prefetch(const struct verbs_worker *w, const struct ibv_wc *wc, int n)
{
	for (int i = 0; i < n; i++)
		rte_prefetch0(__atomic_load_n(&w->qps[HANDLE_INDEX(wc[i].wr_id >> 32)], __ATOMIC_RELAXED));
	for (int i = 0; i < n; i++) {
		const struct verbs_qp *q = sender_of(w, &wc[i]);
		if (likely(q))
			rte_prefetch0(&q->fifo[(uint32_t)wc[i].wr_id & q->mask]);
	}
}

/* A completion is for all sends up to the one that it names. */
static unsigned complete(struct verbs_worker *w)
{
	struct ibv_wc wc[VERBS_BURST];
	struct ended_mbufs ended = {.n = 0};
	int got = ibv_poll_cq(w->send_cq, VERBS_BURST, wc);

	prefetch(w, wc, got);
	for (int i = 0; i < got; i++) {
		struct verbs_qp *q = sender_of(w, &wc[i]);
		if (unlikely(!q))
			continue;
		if (unlikely(__atomic_load_n(&q->state, __ATOMIC_ACQUIRE) == QP_DOWN))
			continue;
		uint32_t tail = __atomic_load_n(&q->tail, __ATOMIC_RELAXED);
		verbs_end_sends(w, q, (uint32_t)wc[i].wr_id + 1 - tail, wc[i].status, &ended);
		if (unlikely(wc[i].status != IBV_WC_SUCCESS))
			mark_error(w, q);
	}
	verbs_free_ended(&ended);
	return got > 0 ? (unsigned)got : 0;
}

static void fill_recv(struct verbs_worker *w, struct rte_mbuf *m, struct ibv_recv_wr *wr, struct ibv_sge *sge)
{
	uint16_t slot = w->recv_stack[--w->recv_free];
	uintptr_t p = rte_pktmbuf_mtod(m, uintptr_t);

	w->recv_mbuf[slot] = m;
	*sge = (struct ibv_sge){.addr = p, .length = w->recv_room, .lkey = verbs_mr_of(w->dev, p)->lkey};
	*wr = (struct ibv_recv_wr){.wr_id = slot, .next = wr + 1, .sg_list = sge, .num_sge = 1};
}

static bool refill(struct verbs_worker *w, struct rte_mbuf **m, unsigned n)
{
	struct ibv_recv_wr wr[VERBS_BURST], *bad = NULL;
	struct ibv_sge sge[VERBS_BURST];

	for (unsigned i = 0; i < n; i++)
		fill_recv(w, m[i], &wr[i], &sge[i]);
	wr[n - 1].next = NULL;
	if (likely(ibv_post_srq_recv(w->srq, wr, &bad) == 0))
		return true;
	for (; bad; bad = bad->next)
		rte_pktmbuf_free(take_slot(w, (unsigned)bad->wr_id));
	return false;
}

/* An error is one of the device, which ends the port. */
static void arm(struct verbs_worker *w)
{
	ibv_req_notify_cq(w->recv_cq, 0);
	ibv_req_notify_cq(w->send_cq, 0);
}

/* The library counts events itself. */
static void told(struct verbs_worker *w, const struct ibv_cq *cq)
{
	(void)w;
	(void)cq;
}

const struct verbs_queues verbs_portable = {
	.post = post, .complete = complete, .receive = receive, .refill = refill, .arm = arm, .told = told};

/* SPDX-License-Identifier: Apache-2.0 */
/* Completions on mlx5 without its library, and the shared receive queue. */
#include <endian.h>

#include <rte_branch_prediction.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include "direct.h"

enum { KIND_SHIFT = 4 }; /* above the owner bit and three flags */

static inline uint8_t kind_of(const struct mlx5_cqe64 *c)
{
	return c->op_own >> KIND_SHIFT;
}

static inline const struct mlx5_cqe64 *entry(const struct direct_cq *c, uint32_t i)
{
	return &c->ring[i & (c->size - 1)];
}

/* Returns how many completions are there, at most n. All owner bytes are read before anything else is, so one barrier
 * is enough. */
static unsigned ready(const struct direct_cq *c, unsigned n)
{
	unsigned k = 0;

	for (; k < n; k++) {
		uint32_t i = c->next + k;
		uint8_t own = __atomic_load_n(&entry(c, i)->op_own, __ATOMIC_RELAXED);
		if (own >> KIND_SHIFT == MLX5_CQE_INVALID || (own & MLX5_CQE_OWNER_MASK) != !!(i & c->size))
			break;
	}
	direct_owner_before_rest();
	return k;
}

/* Gives n completions' places back to the device. */
static void give_back(struct direct_cq *c, unsigned n)
{
	c->next += n;
	__atomic_store_n(c->record, htobe32(c->next & 0xffffff), __ATOMIC_RELEASE);
}

static uint32_t qpn_of(const struct mlx5_cqe64 *c)
{
	return be32toh(c->sop_drop_qpn) & 0xffffff;
}

/* The port asks for no payload in completions, so one that says it has some is none of its own. */
static bool is_good(const struct mlx5_cqe64 *c)
{
	uint8_t kind = kind_of(c);

	return (kind == MLX5_CQE_RESP_SEND || kind == MLX5_CQE_RESP_SEND_IMM) &&
	       !(c->op_own & (MLX5_INLINE_SCATTER_32 | MLX5_INLINE_SCATTER_64));
}

/* Gives the message in m to the worker; false: the completion is an error's. */
static bool deliver(struct verbs_worker *w, const struct mlx5_cqe64 *c, struct rte_mbuf *m, struct ib_recv *r)
{
	enum { GRH_SHIFT = 28, GRH_MASK = 3, SL_SHIFT = 24, SL_MASK = 15 };
	uint32_t from = be32toh(c->flags_rqpn), len = be32toh(c->byte_cnt);

	if (unlikely(!is_good(c))) {
		w->counters.recv_drops[RECV_DROP_wc_error]++;
		rte_pktmbuf_free(m);
		verbs_mark_qpn(w, qpn_of(c));
		return false;
	}
	bool imm = kind_of(c) == MLX5_CQE_RESP_SEND_IMM;
	m->data_len = (uint16_t)len;
	m->pkt_len = len;
	*r = (struct ib_recv){
		.mbuf = m,
		.qpn = qpn_of(c),
		.src_qpn = from & 0xffffff,
		.imm = imm ? be32toh(c->imm_inval_pkey) : 0,
		.slid = be16toh(c->slid),
		.sl = from >> SL_SHIFT & SL_MASK,
		.flags = (uint8_t)((from >> GRH_SHIFT & GRH_MASK ? IB_RECV_GRH : 0) | (imm ? IB_RECV_IMM : 0)),
	};
	return true;
}

/* The place of each message is free again: the last of the list. What the burst changes is kept in registers meanwhile.
 */
static int receive(struct verbs_worker *w, struct ib_recv *recvs, unsigned n, unsigned *out)
{
	const struct direct_cq c = w->direct->recv;
	struct direct_srq *s = &w->direct->srq;
	unsigned got = ready(&c, n), good = 0;
	uint16_t tail = s->tail;

	for (unsigned i = 0; i < got; i++)
		__builtin_prefetch(w->recv_mbuf[be16toh(entry(&c, c.next + i)->wqe_counter)], 1);
	for (unsigned i = 0; i < got; i++) {
		const struct mlx5_cqe64 *e = entry(&c, c.next + i);
		struct rte_mbuf **place = &w->recv_mbuf[be16toh(e->wqe_counter)], *m = *place;
		*place = NULL;
		direct_place(s, tail)->next_wqe_index = e->wqe_counter;
		tail = be16toh(e->wqe_counter);
		good += deliver(w, e, m, &recvs[good]);
	}
	s->tail = tail;
	w->recv_free += got;
	w->counters.received += got;
	w->counters.delivered += good;
	*out = good;
	if (got)
		give_back(&w->direct->recv, got);
	return (int)got;
}

/* Fills free places, in the order in which the device takes them: mostly that of the ring. */
static bool refill(struct verbs_worker *w, struct rte_mbuf **m, unsigned n)
{
	struct direct_srq *s = &w->direct->srq;
	enum { AHEAD = 8 };

	for (unsigned i = 0; i < n; i++) {
		struct mlx5_wqe_srq_next_seg *place = direct_place(s, s->head);
		__builtin_prefetch(direct_place(s, (s->head + AHEAD) & (w->recv_mbufs - 1)), 1);
		uintptr_t p = rte_pktmbuf_mtod(m[i], uintptr_t);
		mlx5dv_set_data_seg((void *)(place + 1), w->recv_room, verbs_mr_of(w->dev, p)->lkey, p);
		w->recv_mbuf[s->head] = m[i];
		s->head = be16toh(place->next_wqe_index);
	}
	w->recv_free -= n;
	s->posted = (uint16_t)(s->posted + n);
	direct_buffers_before_record();
	*(volatile __be32 *)s->record = htobe32(s->posted);
	return true;
}

/* A queue pair by the number in a completion of its own; NULL: there is none any more. */
static struct verbs_qp *sender_of(struct verbs_direct *x, uint32_t qpn)
{
	struct verbs_qp *q = __atomic_load_n(direct_bucket(x, qpn), __ATOMIC_ACQUIRE);

	while (unlikely(q && q->qpn != qpn))
		q = __atomic_load_n(&q->next_in_bucket, __ATOMIC_ACQUIRE);
	return q;
}

/* How many sends a completion ends: all up to the one that began at its block. 0: it is none of those in flight. */
static uint32_t ended_by(const struct verbs_qp *q, const struct mlx5_cqe64 *c)
{
	uint32_t tail = __atomic_load_n(&q->tail, __ATOMIC_RELAXED), head = __atomic_load_n(&q->head, __ATOMIC_RELAXED);
	uint16_t block = be16toh(c->wqe_counter);

	for (uint32_t i = tail; i != head; i++)
		if (q->fifo[i & q->mask].block == block)
			return i - tail + 1;
	return 0;
}

static enum ibv_wc_status status_of(const struct mlx5_cqe64 *c)
{
	const struct mlx5_err_cqe *e = (const void *)c;

	if (likely(kind_of(c) == MLX5_CQE_REQ))
		return IBV_WC_SUCCESS;
	return e->syndrome == MLX5_CQE_SYNDROME_WR_FLUSH_ERR ? IBV_WC_WR_FLUSH_ERR : IBV_WC_GENERAL_ERR;
}

static void end(struct verbs_worker *w, struct verbs_qp *q, const struct mlx5_cqe64 *c, struct ended_mbufs *ended)
{
	enum ibv_wc_status status = status_of(c);

	if (unlikely(!q || __atomic_load_n(&q->state, __ATOMIC_ACQUIRE) == QP_DOWN))
		return;
	verbs_end_sends(w, q, ended_by(q, c), status, ended);
	if (unlikely(status != IBV_WC_SUCCESS))
		mark_error(w, q);
}

/* Each step loads what the next one needs: queue pairs, then their fifos' ends. */
static unsigned complete(struct verbs_worker *w)
{
	struct verbs_direct *x = w->direct;
	struct verbs_qp *q[VERBS_BURST];
	struct ended_mbufs ended = {.n = 0};
	unsigned n = ready(&x->send, VERBS_BURST);

	for (unsigned i = 0; i < n; i++)
		rte_prefetch0(
			__atomic_load_n(direct_bucket(x, qpn_of(entry(&x->send, x->send.next + i))), __ATOMIC_RELAXED));
	for (unsigned i = 0; i < n; i++) {
		q[i] = sender_of(x, qpn_of(entry(&x->send, x->send.next + i)));
		if (likely(q[i]))
			rte_prefetch0(&q[i]->fifo[__atomic_load_n(&q[i]->tail, __ATOMIC_RELAXED) & q[i]->mask]);
	}
	for (unsigned i = 0; i < n; i++)
		end(w, q[i], entry(&x->send, x->send.next + i), &ended);
	if (n)
		give_back(&x->send, n);
	__atomic_store_n(&x->send_passed,
			 __atomic_load_n(&x->send_passed, __ATOMIC_RELAXED) + n + (n < VERBS_BURST ? direct_lap(x) : 0),
			 __ATOMIC_RELEASE);
	verbs_free_ended(&ended);
	return n;
}

/* An arming has the number of events and of completions so far: the device tells at once of what came after these, and
 * takes an arming twice as one. Queues of all workers share the register, by stores of 8 bytes. */
static void arm_cq(const struct direct_cq *c)
{
	enum { EVENT_SHIFT = 28, EVENT_MASK = 3, ARMING = 1 };
	uint32_t word = (c->events & EVENT_MASK) << EVENT_SHIFT | MLX5_CQ_DB_REQ_NOT | (c->next & 0xffffff);

	((volatile __be32 *)c->record)[ARMING] = htobe32(word);
	direct_records_before_bells();
	*(volatile __be64 *)(c->reg + MLX5_CQ_DOORBELL) = htobe64((uint64_t)word << 32 | c->number);
	direct_flush_bell(c->reg + MLX5_CQ_DOORBELL);
}

static void arm(struct verbs_worker *w)
{
	arm_cq(&w->direct->recv);
	arm_cq(&w->direct->send);
}

static void told(struct verbs_worker *w, const struct ibv_cq *cq)
{
	struct direct_cq *c = cq == w->recv_cq ? &w->direct->recv : &w->direct->send;

	c->events++;
}

const struct verbs_queues verbs_direct = {
	.post = direct_post, .complete = complete, .receive = receive, .refill = refill, .arm = arm, .told = told};

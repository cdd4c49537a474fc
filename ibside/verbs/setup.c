/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's share of the port, made and freed by management; and management's calls while it runs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_errno.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_random.h>
#include <rte_ring.h>

#include "../../dpdk/near.h"
#include "manage.h"
#include "queues.h"

static struct rte_ring *new_ring(const char *what, const struct verbs_sizes *s, unsigned size)
{
	static unsigned serial;
	char name[RTE_RING_NAMESIZE];

	snprintf(name, sizeof(name), "ib_%s_%u_%u", what, s->worker, __atomic_fetch_add(&serial, 1, __ATOMIC_SEQ_CST));
	return near_ring(name, size, near_lcore(s->lcore), RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
}

static unsigned power_of_two(unsigned n)
{
	unsigned p = 1;

	while (p < n)
		p <<= 1;
	return p;
}

/* The rings for answers and retired handles have room for every address handle, so they never fill: an entry is
 * retired only once, after its answer. */
static int make_memory(struct verbs_worker *w, const struct verbs_sizes *s)
{
	enum { REQUESTS = 256 };
	unsigned entries = power_of_two(s->ah_entries < VERBS_AH_WAYS ? VERBS_AH_WAYS : s->ah_entries);

	w->ah_sets = entries / VERBS_AH_WAYS;
	w->ahs = near_zmalloc("ib_ahs", entries * sizeof(*w->ahs), w->node);
	w->recv_slots = w->recv_free = w->recv_mbufs = s->receives;
	w->recv_stack = near_zmalloc("ib_slots", s->receives * sizeof(*w->recv_stack), w->node);
	w->recv_mbuf = near_zmalloc("ib_recvs", s->receives * sizeof(void *), w->node);
	w->qps_n = s->qps + 1;
	w->qps = near_zmalloc("ib_qps", w->qps_n * sizeof(void *), w->node);
	w->requests = new_ring("requests", s, REQUESTS);
	w->answers = new_ring("answers", s, entries);
	w->retired = new_ring("retired", s, 2 * entries);
	if (!w->ahs || !w->recv_stack || !w->recv_mbuf || !w->qps || !w->requests || !w->answers || !w->retired)
		return ENOMEM;
	for (unsigned i = 0; i < s->receives; i++)
		w->recv_stack[i] = (uint16_t)i;
	return 0;
}

int verbs_limits_read(struct verbs_device *d, struct verbs_limits *to)
{
	struct ibv_device_attr a;
	int err = ibv_query_device(d->ctx, &a);

	if (!err)
		*to = (struct verbs_limits){.receives = a.max_srq_wr, .completions = a.max_cqe, .qps = a.max_qp};
	return err;
}

/* With a thread domain mlx5's queue pairs have a doorbell register that no other worker uses, and no locks. Without one
 * they share some registers, each with a lock, with all queue pairs of the process. A provider that has none, or no
 * more, does without. The receive queue stays outside: mlx5's library frees places of it in management's calls, too,
 * and ends the process when two threads meet in a queue that is said to have one. */
static void join_thread_domain(struct verbs_worker *w)
{
	struct ibv_td_init_attr none = {0};
	struct ibv_parent_domain_init_attr a = {.pd = w->dev->pd};

	w->pd = w->dev->pd;
	w->td = a.td = ibv_alloc_td(w->dev->ctx, &none);
	struct ibv_pd *parent = a.td ? ibv_alloc_parent_domain(w->dev->ctx, &a) : NULL;
	if (parent) {
		w->pd = parent;
	} else if (w->td) {
		ibv_dealloc_td(w->td);
		w->td = NULL;
	}
}

static void leave_thread_domain(struct verbs_worker *w)
{
	if (!w->td)
		return;
	ibv_dealloc_pd(w->pd);
	ibv_dealloc_td(w->td);
}

static int make_queues(struct verbs_worker *w, const struct verbs_sizes *s)
{
	struct ibv_srq_init_attr srq = {.srq_context = w, .attr = {.max_wr = s->receives, .max_sge = 1}};

	w->send_capacity = s->sends;
	w->recv_room =
		RTE_MIN(IB_GRH_LEN + VERBS_PAYLOAD, rte_pktmbuf_data_room_size(w->dev->pool) - RTE_PKTMBUF_HEADROOM);
	w->send_cq = ibv_create_cq(w->dev->ctx, (int)s->sends, w, w->channel, 0);
	if (w->send_cq)
		w->recv_cq = ibv_create_cq(w->dev->ctx, (int)s->receives, w, w->channel, 0);
	if (w->recv_cq)
		w->srq = ibv_create_srq(w->dev->pd, &srq);
	return w->srq ? 0 : errno;
}

static void free_queues(struct verbs_worker *w)
{
	if (w->srq)
		ibv_destroy_srq(w->srq);
	if (w->recv_cq)
		ibv_destroy_cq(w->recv_cq);
	if (w->send_cq)
		ibv_destroy_cq(w->send_cq);
	w->srq = NULL;
	w->recv_cq = w->send_cq = NULL;
}

/* Queues that were taken from the library are not its own again: the library's worker gets others. */
static int choose_queues(struct verbs_worker *w, const struct verbs_sizes *s)
{
	join_thread_domain(w);
	int err = make_queues(w, s);
	if (err || !w->dev->direct || verbs_direct_take(w) == 0)
		return err;
	free_queues(w);
	return make_queues(w, s);
}

int verbs_worker_new(struct verbs_device *d, const struct verbs_sizes *s, struct verbs_worker **out)
{
	struct verbs_worker *w = near_zmalloc("ib_port", sizeof(*w), near_lcore(s->lcore));

	if (!w)
		return ENOMEM;
	w->dev = d;
	w->node = near_lcore(s->lcore);
	w->pending_most = s->pending && s->pending < VERBS_PENDING ? s->pending : VERBS_PENDING;
	for (unsigned i = 0; i < sizeof(w->ah_seed) / sizeof(w->ah_seed[0]); i++)
		w->ah_seed[i] = rte_rand();
	w->ib_port = (struct ib_port){
		.self = w, .post = verbs_post, .poll = verbs_poll, .free = verbs_free, .wake = {-1, -1}};
	verbs_sleep_open(w);
	w->queues = &verbs_portable;
	int err = make_memory(w, s);
	if (!err) {
		near_prefer(w->node, true);
		err = choose_queues(w, s);
		near_prefer(w->node, false);
	}
	if (err) {
		verbs_worker_free(w);
		return err;
	}
	verbs_ask_to_block(w);
	verbs_refill(w);
	*out = w;
	return 0;
}

/* Whether all sends of all queue pairs have ended. */
static bool all_ended(struct verbs_worker *w)
{
	for (unsigned i = 1; i < w->qps_n; i++) {
		struct verbs_qp *q = w->qps[i];
		if (q && !verbs_qp_ended(q))
			return false;
	}
	return true;
}

static void drop_received(struct verbs_worker *w)
{
	struct ib_recv r[VERBS_BURST];
	unsigned n = 0;

	for (; w->queues->receive(w, r, VERBS_BURST, &n) > 0; n = 0) {
		w->counters.delivered -= n;
		w->counters.recv_drops[RECV_DROP_shutdown] += n;
		for (unsigned i = 0; i < n; i++)
			rte_pktmbuf_free(r[i].mbuf);
	}
}

/* Received messages are counted before the queue pairs end, because devices then discard them. */
static int end_queue_pairs(struct verbs_worker *w)
{
	int err = 0;

	for (unsigned i = 1; i < w->qps_n; i++)
		if (w->qps[i])
			verbs_qp_drain(w, w->qps[i]);
	drop_received(w);
	for (unsigned i = 1; i < w->qps_n; i++) {
		int e = w->qps[i] ? verbs_qp_end(w, w->qps[i]) : 0;
		err = err ? err : e;
	}
	drop_received(w);
	return err;
}

int verbs_worker_stop(struct verbs_worker *w)
{
	enum { TRIES = 100, PAUSE_US = 1000 };

	verbs_direct_stop(w);
	for (unsigned i = 0; i < w->pending_n; i++)
		verbs_drop_send(w, SEND_DROP_shutdown, w->pending[i].send.mbuf);
	w->pending_n = 0;
	for (int i = 0; i < TRIES && !all_ended(w); i++) {
		w->queues->complete(w);
		usleep(PAUSE_US);
	}
	return end_queue_pairs(w);
}

static void free_ring(struct rte_ring *r)
{
	if (r)
		rte_ring_free(r);
}

void verbs_worker_free(struct verbs_worker *w)
{
	free_queues(w);
	verbs_direct_free(w);
	verbs_sleep_close(w);
	for (unsigned i = 0; w->recv_mbuf && i < w->recv_mbufs; i++)
		rte_pktmbuf_free(w->recv_mbuf[i]);
	leave_thread_domain(w);
	free_ring(w->requests);
	free_ring(w->answers);
	free_ring(w->retired);
	rte_free(w->qps);
	rte_free(w->recv_mbuf);
	rte_free(w->recv_stack);
	rte_free(w->ahs);
	rte_free(w);
}

/* Each counter is read as a whole; together they are exact at a quiet moment. */
void verbs_counters_read(const struct verbs_worker *w, struct verbs_counters *to)
{
	const uint64_t *from = (const uint64_t *)&w->counters;
	uint64_t *out = (uint64_t *)to;

	for (size_t i = 0; i < sizeof(*to) / sizeof(*out); i++)
		out[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	to->send_drops[SEND_DROP_qp_reset] += __atomic_load_n(&w->drops_reset, __ATOMIC_SEQ_CST);
}

void verbs_ah_release(struct verbs_worker *w)
{
	verbs_ah_flush(w);
	verbs_ah_answers(w);
}

uint64_t verbs_errors(const struct verbs_worker *w)
{
	return __atomic_load_n(&w->errors, __ATOMIC_ACQUIRE);
}

struct ah_entry *verbs_ah_next_request(struct verbs_worker *w)
{
	void *e;

	return rte_ring_sc_dequeue(w->requests, &e) == 0 ? e : NULL;
}

struct ibv_ah *verbs_ah_next_retired(struct verbs_worker *w)
{
	void *ah;

	return rte_ring_sc_dequeue(w->retired, &ah) == 0 ? ah : NULL;
}

int verbs_ah_create(struct verbs_device *d, const struct ah_key *k, unsigned sgid_index, struct ibv_ah **out)
{
	struct ibv_ah_attr attr = {
		.dlid = k->ah.dlid,
		.sl = k->ah.sl,
		.static_rate = k->ah.static_rate,
		.is_global = k->grh != 0,
		.port_num = d->port,
		.grh =
			{
				.sgid_index = (uint8_t)sgid_index,
				.flow_label = k->ah.flow_label,
				.hop_limit = k->ah.hop_limit,
				.traffic_class = k->ah.tclass,
			},
	};

	if (sgid_index > UINT8_MAX)
		return ERANGE; /* verbs has 8 bits for it */
	memcpy(attr.grh.dgid.raw, k->ah.dgid, sizeof(k->ah.dgid));
	*out = ibv_create_ah(d->pd, &attr);
	return *out ? 0 : errno;
}

void verbs_ah_answer(struct verbs_worker *w, struct ah_entry *e, struct ibv_ah *ah)
{
	e->address = ah ? verbs_direct_address(w, ah) : NULL;
	e->answer = e->address ? ah : NULL;
	rte_ring_sp_enqueue(w->answers, e);
	wake_now(&w->bell);
}

void verbs_ah_flush(struct verbs_worker *w)
{
	__atomic_fetch_add(&w->flush_wanted, 1, __ATOMIC_RELEASE);
	wake_now(&w->bell);
}

const char *verbs_send_drop_name(unsigned i)
{
	static const char *const names[] = {
#define SEND_DROP(name, text) #name,
#define RECV_DROP(name, text)
#include "drops.def"
#undef SEND_DROP
#undef RECV_DROP
	};

	return names[i];
}

const char *verbs_recv_drop_name(unsigned i)
{
	static const char *const names[] = {
#define SEND_DROP(name, text)
#define RECV_DROP(name, text) #name,
#include "drops.def"
#undef SEND_DROP
#undef RECV_DROP
	};

	return names[i];
}

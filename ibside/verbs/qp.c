/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: made, recovered and destroyed while the worker runs. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>

#include "../../dpdk/near.h"
#include "manage.h"

/* Waits until the worker is outside a call or in a later one: then it has seen all earlier changes. */
static void await_worker(const struct verbs_worker *w)
{
	enum { PAUSE_US = 10 };

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	uint64_t e = __atomic_load_n(&w->epoch, __ATOMIC_ACQUIRE);
	while ((e & 1) && __atomic_load_n(&w->epoch, __ATOMIC_ACQUIRE) == e)
		usleep(PAUSE_US);
}

static void set_state(struct verbs_worker *w, struct verbs_qp *q, enum qp_state s)
{
	__atomic_store_n(&q->state, s, __ATOMIC_SEQ_CST);
	await_worker(w);
}

static int to_rts(const struct verbs_worker *w, struct verbs_qp *q)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .pkey_index = q->pkey_index, .port_num = w->dev->port, .qkey = q->qkey};
	int err = ibv_modify_qp(q->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	if (err)
		return err;
	a.qp_state = IBV_QPS_RTR;
	err = ibv_modify_qp(q->qp, &a, IBV_QP_STATE);
	if (err)
		return err;
	a.qp_state = IBV_QPS_RTS;
	a.sq_psn = 0;
	return ibv_modify_qp(q->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

static int set_qp_state(struct verbs_qp *q, enum ibv_qp_state s)
{
	struct ibv_qp_attr a = {.qp_state = s};

	return ibv_modify_qp(q->qp, &a, IBV_QP_STATE);
}

/* Has the device make a queue pair, and sets cap to what this has. With block it gets none of its own multicast back.
 */
static struct ibv_qp *make(const struct verbs_worker *w, void *context, struct ibv_qp_cap *cap, bool block)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_context = context,
		.send_cq = w->send_cq,
		.recv_cq = w->recv_cq,
		.srq = w->srq,
		.cap = *cap,
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 0,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = w->pd,
	};

	if (block) {
		a.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
		a.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	}
	struct ibv_qp *qp = ibv_create_qp_ex(w->dev->ctx, &a);
	*cap = a.cap;
	return qp;
}

/* No attribute of a device tells, so one queue pair is made as a trial. The errno of a refusal differs by provider, and
 * mlx5's library may leave it unset. An Ethernet port is not asked: mlx4 would take one of its few hardware counters
 * for each such queue pair, and fail when they run out (its create_qp_lb_counter). */
void verbs_ask_to_block(struct verbs_worker *w)
{
	struct ibv_qp_cap cap = {.max_send_wr = 1, .max_send_sge = 1};

	if (w->dev->asked_to_block || w->dev->ethernet)
		return;
	w->dev->asked_to_block = true;
	struct ibv_qp *qp = make(w, NULL, &cap, true);
	w->dev->blocks_own_multicast = qp;
	if (qp)
		ibv_destroy_qp(qp);
}

/* Not every device has room for payload in a work request: less is asked for until it agrees. */
static int create(struct verbs_worker *w, struct verbs_qp *q, unsigned depth)
{
	for (unsigned inlined = 64;; inlined /= 2) {
		struct ibv_qp_cap cap = {
			.max_send_wr = depth, .max_send_sge = VERBS_MAX_SGE, .max_inline_data = inlined};
		q->qp = make(w, q, &cap, w->dev->blocks_own_multicast);
		if (q->qp) {
			q->max_inline = cap.max_inline_data;
			return 0;
		}
		if (inlined == 0 || errno != EINVAL)
			return errno;
	}
}

int verbs_qp_new(struct verbs_worker *w, uint32_t handle, uint32_t qkey, uint16_t pkey_index, unsigned depth,
		 struct verbs_qp **out)
{
	struct verbs_qp *q = near_zmalloc("ib_qp", sizeof(*q) + depth * sizeof(q->fifo[0]), w->node);

	if (!q)
		return ENOMEM;
	q->handle = handle;
	q->qkey = qkey;
	q->pkey_index = pkey_index;
	q->mask = depth - 1;
	near_prefer(w->node, true);
	int err = create(w, q, depth);
	near_prefer(w->node, false);
	if (!err) {
		q->qpn = q->qp->qp_num;
		err = to_rts(w, q);
	}
	if (!err)
		err = verbs_direct_take_qp(w, q);
	if (err) {
		if (q->qp)
			ibv_destroy_qp(q->qp);
		rte_free(q);
		return err;
	}
	__atomic_store_n(&w->qps[HANDLE_INDEX(handle)], q, __ATOMIC_RELEASE);
	*out = q;
	return 0;
}

/* Two rounds, because the first may be a poll that began before the queue pair stopped. */
static bool all_received(const struct verbs_worker *w, const struct verbs_qp *q)
{
	return (int64_t)(__atomic_load_n(&w->recv_passed, __ATOMIC_ACQUIRE) - q->received_by) >= 0;
}

bool verbs_qp_drained(const struct verbs_worker *w, const struct verbs_qp *q)
{
	return verbs_qp_ended(q) && all_received(w, q);
}

/* A device throws away a queue pair's completions at a reset and at its end (mlx5's __mlx5_cq_clean), and with them the
 * places of receive buffers in the shared queue, which none would fill again. In the error state it receives no more,
 * and the worker can take what there is. */
static void stop_device(const struct verbs_worker *w, struct verbs_qp *q)
{
	set_qp_state(q, IBV_QPS_ERR); /* it may be there already */
	q->received_by = __atomic_load_n(&w->recv_passed, __ATOMIC_ACQUIRE) + 2 * recv_lap(w);
	wake_now(&w->bell); /* to poll, more than twice */
}

/* Waits for the worker, which polls all the time, but not for one that does not run. */
static void await_receives(const struct verbs_worker *w, const struct verbs_qp *q)
{
	enum { PAUSE_US = 10, MOST_MS = 100 };
	uint64_t end = rte_get_timer_cycles() + rte_get_timer_hz() / 1000 * MOST_MS;

	while (!all_received(w, q) && rte_get_timer_cycles() < end)
		usleep(PAUSE_US);
}

/* Frees the sends that the device discarded at the reset. The queue pair is down, so the worker does not use it. */
static void drop_rest(struct verbs_worker *w, struct verbs_qp *q)
{
	uint32_t head = __atomic_load_n(&q->head, __ATOMIC_SEQ_CST), tail = __atomic_load_n(&q->tail, __ATOMIC_SEQ_CST);

	for (uint32_t i = tail; i != head; i++)
		rte_pktmbuf_free(q->fifo[i & q->mask].mbuf);
	__atomic_fetch_add(&w->drops_reset, head - tail, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&w->cleared, head - tail, __ATOMIC_SEQ_CST);
	__atomic_store_n(&q->tail, head, __ATOMIC_SEQ_CST);
}

/* The device does nothing for the queue pair any more, and neither has nor gets a completion of it. */
static int reset(struct verbs_worker *w, struct verbs_qp *q)
{
	int err = set_qp_state(q, IBV_QPS_RESET);

	return err ? err : verbs_direct_discard(w, q);
}

/* Takes a queue pair away from the worker once the device has ended it. Where it has not, it stays, and its caller has
 * to have it made good. */
static int take_away(struct verbs_worker *w, struct verbs_qp *q, int err)
{
	if (err) {
		__atomic_store_n(&q->state, QP_UP, __ATOMIC_SEQ_CST);
		return err;
	}
	__atomic_store_n(&w->qps[HANDLE_INDEX(q->handle)], NULL, __ATOMIC_SEQ_CST);
	verbs_direct_forget_qp(w, q);
	await_worker(w);
	drop_rest(w, q);
	return 0;
}

static void stop(struct verbs_worker *w, struct verbs_qp *q)
{
	set_state(w, q, QP_DRAINING);
	stop_device(w, q);
	await_receives(w, q);
}

int verbs_qp_destroy(struct verbs_worker *w, struct verbs_qp *q)
{
	stop(w, q);
	return verbs_qp_end(w, q);
}

int verbs_qp_end(struct verbs_worker *w, struct verbs_qp *q)
{
	set_state(w, q, QP_DOWN);
	int err = w->direct ? reset(w, q) : 0;
	err = take_away(w, q, err ? err : ibv_destroy_qp(q->qp));
	if (!err)
		rte_free(q);
	return err;
}

/* In the reset state a device drops what comes for a queue pair, and gives its number to no other. */
int verbs_qp_rest(struct verbs_worker *w, struct verbs_qp *q)
{
	stop(w, q);
	set_state(w, q, QP_DOWN);
	return take_away(w, q, reset(w, q));
}

int verbs_qp_free(struct verbs_qp *q)
{
	int err = ibv_destroy_qp(q->qp);

	if (!err)
		rte_free(q);
	return err;
}

bool verbs_qp_take_error(struct verbs_qp *q)
{
	return __atomic_exchange_n(&q->error, false, __ATOMIC_SEQ_CST);
}

void verbs_qp_drain(struct verbs_worker *w, struct verbs_qp *q)
{
	set_state(w, q, QP_DRAINING);
	stop_device(w, q);
}

int verbs_qp_cycle(struct verbs_worker *w, struct verbs_qp *q, uint16_t pkey_index)
{
	set_state(w, q, QP_DOWN);
	q->pkey_index = pkey_index;
	int err = reset(w, q);
	if (!err) {
		drop_rest(w, q);
		err = to_rts(w, q);
	}
	if (err)
		return err;
	__atomic_store_n(&q->error, false, __ATOMIC_SEQ_CST);
	set_state(w, q, QP_UP);
	return 0;
}

bool verbs_pends(const struct verbs_worker *w)
{
	return __atomic_load_n(&w->pending_told, __ATOMIC_ACQUIRE) != 0;
}

bool verbs_qp_sends(const struct verbs_qp *q, uint32_t *until)
{
	*until = __atomic_load_n(&q->head, __ATOMIC_ACQUIRE);
	return !verbs_qp_ended_until(q, *until);
}

bool verbs_qp_ended_until(const struct verbs_qp *q, uint32_t until)
{
	return (int32_t)(__atomic_load_n(&q->tail, __ATOMIC_ACQUIRE) - until) >= 0;
}

void verbs_qp_set_pkey_lost(struct verbs_qp *q, bool lost)
{
	__atomic_store_n(&q->pkey_lost, lost, __ATOMIC_RELAXED);
}

void verbs_mark_error(struct verbs_worker *w, struct verbs_qp *q)
{
	mark_error(w, q);
}

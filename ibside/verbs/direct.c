/* SPDX-License-Identifier: Apache-2.0 */
/* Management's part of mlx5's queues without its library: what is taken from the library, and given back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_malloc.h>

#include "direct.h"
#include "../../dpdk/near.h"
#include "manage.h"

/* By these variables the library has the device check requests by a signature, which direct_post.c does not write. */
static bool wants_signatures(void)
{
	return getenv("MLX5_QP_SIGNATURE") || getenv("MLX5_SRQ_SIGNATURE");
}

bool verbs_direct_supported(const struct verbs_device *d)
{
	return !d->ethernet && mlx5dv_is_supported(d->ctx->device) && !wants_signatures();
}

static int take_cq(struct direct_cq *to, struct ibv_cq *cq)
{
	struct mlx5dv_cq c = {0};
	struct mlx5dv_obj o = {.cq = {.in = cq, .out = &c}};
	int err = mlx5dv_init_obj(&o, MLX5DV_OBJ_CQ);

	if (err)
		return err;
	if (c.cqe_size != sizeof(struct mlx5_cqe64) || (c.cqe_cnt & (c.cqe_cnt - 1)))
		return ENOTSUP;
	*to = (struct direct_cq){.ring = c.buf, .record = c.dbrec, .size = c.cqe_cnt, .reg = c.cq_uar, .number = c.cqn};
	return 0;
}

/* Nothing has been posted yet: the library's list is as it made it. */
static int take_srq(struct verbs_worker *w)
{
	struct mlx5dv_srq s = {0};
	struct mlx5dv_obj o = {.srq = {.in = w->srq, .out = &s}};
	int err = mlx5dv_init_obj(&o, MLX5DV_OBJ_SRQ);

	if (err)
		return err;
	uint32_t places = s.tail - s.head + 1;
	if (s.stride != DIRECT_PLACE || s.head != 0 || places <= w->recv_slots || places > UINT16_MAX + 1u ||
	    (places & (places - 1)))
		return ENOTSUP;
	w->direct->srq = (struct direct_srq){
		.ring = s.buf, .record = s.dbrec, .head = (uint16_t)s.head, .tail = (uint16_t)s.tail};
	struct rte_mbuf **by_place = near_zmalloc("ib_recvs", places * sizeof(void *), w->node);
	if (!by_place)
		return ENOMEM;
	rte_free(w->recv_mbuf);
	w->recv_mbuf = by_place;
	w->recv_mbufs = places;
	return 0;
}

static int make_memory(struct verbs_worker *w)
{
	enum { FEWEST_BITS = 4 };
	struct verbs_direct *x = w->direct;

	x->bucket_bits = FEWEST_BITS;
	while (1u << x->bucket_bits < 2 * w->qps_n)
		x->bucket_bits++;
	x->bucket = near_zmalloc("ib_qpns", sizeof(*x->bucket) << x->bucket_bits, w->node);
	pthread_mutex_init(&x->lock, NULL);
	return x->bucket ? 0 : ENOMEM;
}

void verbs_direct_free(struct verbs_worker *w)
{
	struct verbs_direct *x = w->direct;

	w->direct = NULL;
	w->queues = &verbs_portable;
	if (!x)
		return;
	rte_free(x->bucket);
	pthread_mutex_destroy(&x->lock);
	rte_free(x);
}

int verbs_direct_take(struct verbs_worker *w)
{
	if (!w->td)
		return ENOTSUP; /* others would ring the same register */
	w->direct = near_zmalloc("ib_direct", sizeof(*w->direct), w->node);
	int err = w->direct ? make_memory(w) : ENOMEM;
	if (!err)
		err = take_cq(&w->direct->send, w->send_cq);
	if (!err)
		err = take_cq(&w->direct->recv, w->recv_cq);
	if (!err)
		err = take_srq(w);
	if (err)
		verbs_direct_free(w);
	else
		w->queues = &verbs_direct;
	return err;
}

void verbs_direct_stop(struct verbs_worker *w)
{
	if (w->direct)
		w->direct->stopped = true;
}

/* The most blocks that one request takes. */
static unsigned blocks_of(const struct verbs_qp *q)
{
	unsigned inlined =
		(unsigned)(sizeof(struct mlx5_wqe_inl_data_seg) + q->max_inline + DIRECT_BLOCK - 1) / DIRECT_BLOCK;

	return 1 + (q->max_inline && inlined > 1 ? inlined : 1);
}

/* All queue pairs of a thread domain have the same register. */
static bool is_register(struct verbs_direct *x, const struct mlx5dv_qp *d)
{
	pthread_mutex_lock(&x->lock);
	if (!x->bell.reg)
		x->bell = (struct direct_bell){.reg = d->bf.reg, .half = d->bf.size};
	bool same = x->bell.reg == d->bf.reg;
	pthread_mutex_unlock(&x->lock);
	return same;
}

/* A request that is posted is not written over: so many requests as the fifo holds fit in the ring, whatever they are.
 */
int verbs_direct_take_qp(struct verbs_worker *w, struct verbs_qp *q)
{
	if (!w->direct)
		return 0;
	struct mlx5dv_qp d = {0};
	struct mlx5dv_obj o = {.qp = {.in = q->qp, .out = &d}};
	int err = mlx5dv_init_obj(&o, MLX5DV_OBJ_QP);

	if (err)
		return err;
	if (d.sq.stride != DIRECT_BLOCK || (d.sq.wqe_cnt & (d.sq.wqe_cnt - 1)) || d.sq.wqe_cnt > INT16_MAX + 1u ||
	    (q->mask + 1) * blocks_of(q) > d.sq.wqe_cnt || !is_register(w->direct, &d))
		return ENOTSUP;
	q->sq = (struct direct_sq){.ring = d.sq.buf,
				   .record = &d.dbrec[MLX5_SND_DBR],
				   .mask = (uint16_t)(d.sq.wqe_cnt - 1),
				   .most = (uint16_t)blocks_of(q)};
	struct verbs_qp **first = direct_bucket(w->direct, q->qpn);
	pthread_mutex_lock(&w->direct->lock);
	q->next_in_bucket = *first;
	__atomic_store_n(first, q, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&w->direct->lock);
	return 0;
}

/* The worker may still be at it: until it has ended the call that it is in (await_worker). */
void verbs_direct_forget_qp(struct verbs_worker *w, struct verbs_qp *q)
{
	if (!w->direct)
		return;
	pthread_mutex_lock(&w->direct->lock);
	struct verbs_qp **at = direct_bucket(w->direct, q->qpn);
	while (*at && *at != q)
		at = &(*at)->next_in_bucket;
	if (*at)
		__atomic_store_n(at, q->next_in_bucket, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&w->direct->lock);
}

/* For a queue pair that has been reset: the device writes no more completions for it, and counts from 0. Those that it
 * has written are the worker's to pass, or would be taken for a later request's. Where nothing is in flight there are
 * none: each list's last is signalled. */
int verbs_direct_discard(struct verbs_worker *w, struct verbs_qp *q)
{
	enum { PAUSE_US = 10, MOST_MS = 100 };
	struct verbs_direct *x = w->direct;

	if (!x)
		return 0;
	q->sq.next = 0;
	if (verbs_qp_ended(q))
		return 0;
	uint64_t from = __atomic_load_n(&x->send_passed, __ATOMIC_ACQUIRE) + 2 * direct_lap(x);
	uint64_t end = rte_get_timer_cycles() + rte_get_timer_hz() / 1000 * MOST_MS;
	while ((int64_t)(__atomic_load_n(&x->send_passed, __ATOMIC_ACQUIRE) - from) < 0) {
		if (x->stopped)
			w->queues->complete(w);
		else if (rte_get_timer_cycles() > end)
			return ETIMEDOUT;
		else
			usleep(PAUSE_US);
	}
	return 0;
}

const void *verbs_direct_address(const struct verbs_worker *w, struct ibv_ah *ah)
{
	struct mlx5dv_ah d = {0};
	struct mlx5dv_obj o = {.ah = {.in = ah, .out = &d}};

	if (!w->direct)
		return ah;
	return mlx5dv_init_obj(&o, MLX5DV_OBJ_AH) ? NULL : d.av;
}

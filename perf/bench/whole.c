/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A round is one iteration of the production worker's loop, with a burst to move; then the HCA does its work, which is
 * timed apart, and the rig gives packets new addresses, which is not timed. The time-stamp counter is read before and
 * after.
 *
 *   RoCE to IB:  ring ─▶ Ethernet port ─▶ worker ─▶ post │ HCA sends │ frames are made, into the ring
 *   IB to RoCE:  HCA receives │ poll ─▶ worker ─▶ Ethernet port ─▶ ring │ frames go back to the pool
 *
 * Either way 2048 packets are under way: in the ring, or as buffers that the HCA has. Without an HCA, the same round
 * is made with a port that takes and gives mbufs: the path alone.
 */
#include "whole.h"

#include <errno.h>
#include <rte_cycles.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>
#include <rte_ring.h>
#include <stdlib.h>
#include <string.h>

#include "hca.h"
#include "../../lcore/worker.h"
#include "null.h"
#include "preempted.h"

enum { PATIENCE_S = 20 }; /* on a busy machine */

static unsigned take(void *self, const struct ib_send *sends, unsigned n)
{
	struct whole *x = self;
	for (unsigned i = 0; i < n; i++)
		x->posted[i] = sends[i].mbuf;
	x->posted_n = n;
	return n;
}

static unsigned give(void *self, struct ib_recv *recvs, unsigned n)
{
	struct whole *x = self;
	n = n < x->ready_n ? n : x->ready_n;
	memcpy(recvs, x->ready, n * sizeof(*recvs));
	x->ready_n = 0;
	return n;
}

static void nothing(void *self)
{
	(void)self;
}

struct whole *whole_new(void)
{
	struct whole *x = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(sizeof(*x), RTE_CACHE_LINE_SIZE));
	if (!x)
		return NULL;
	memset(x, 0, sizeof(*x));
	x->null = (struct ib_port){.self = x, .post = take, .poll = give, .free = nothing, .wake = {-1, -1}};
	return x;
}

void whole_free(struct whole *x)
{
	free(x);
}

int whole_fill(struct rte_mempool *pool, const void *data, uint32_t len)
{
	unsigned n = 0, all = pool->size;
	struct rte_mbuf **m = calloc(all, sizeof(struct rte_mbuf *));
	if (!m)
		return -ENOMEM;
	for (; n < all && (m[n] = rte_pktmbuf_alloc(pool)); n++)
		memcpy(rte_pktmbuf_mtod(m[n], void *), data, len);
	rte_pktmbuf_free_bulk(m, n);
	free(m);
	return n == all ? 0 : -ENOBUFS;
}

/* Makes frames of mbufs and puts them into the ring. */
static int refill(struct whole *x, struct rte_mbuf **m, unsigned n)
{
	null_frames(x->layout, m, n);
	return rte_ring_sp_enqueue_bulk(x->ring, (void **)m, n, NULL) == n ? 0 : -ENOBUFS;
}

/* All mbufs of the pool are frames: those for the ring need not be the ones that were sent. */
static int to_ib(struct whole *x, uint64_t *worker, uint64_t *device)
{
	struct rte_mbuf *m[WHOLE_BURST];
	unsigned before = rte_ring_count(x->ring);
	uint64_t t0 = rte_rdtsc();
	worker_poll(x->worker);
	uint64_t t1 = rte_rdtsc();
	unsigned sent = x->hca ? mlx5mem_turn(MLX5MEM_ALL) : x->posted_n;
	*worker = t1 - t0;
	*device = rte_rdtsc() - t1;
	unsigned n = before - rte_ring_count(x->ring);
	if (n != WHOLE_BURST || sent != n)
		return -EIO;
	if (!x->hca)
		return refill(x, x->posted, n);
	if (rte_pktmbuf_alloc_bulk(x->pool, m, n))
		return -ENOBUFS;
	return refill(x, m, n);
}

/* The HCA receives a message. Its payload is in the buffer: the pool was filled with it. */
static bool arrive(struct whole *x)
{
	const struct message_layout *l = &x->layout->message;
	const struct step *s = next_step(&x->layout->stream);
	x->from ^= s->from;
	x->to ^= s->to;
	const uint64_t grh[5] = {l->grh[0], l->grh[1], l->grh[2] ^ (uint64_t)x->from << 32, l->grh[3], l->grh[4]};
	struct mlx5mem_arrival a = {
		.qpn = hca_qpn(x->hca, __builtin_bswap32(x->to)),
		.src_qpn = l->src_qpn,
		.qkey = x->qkey,
		.len = x->payload,
		.slid = 1 + (__builtin_bswap32(x->from) & 0x7fff),
		.grh = (const uint8_t *)grh,
	};
	return mlx5mem_deliver(&a) == 1;
}

/* Gives the port what it is to receive. */
static bool prepare(struct whole *x)
{
	struct rte_mbuf *m[WHOLE_BURST];
	bool all = true;
	for (unsigned i = 0; x->hca && i < WHOLE_BURST; i++)
		all &= arrive(x);
	if (x->hca)
		return all;
	x->ready_n = rte_ring_sc_dequeue_bulk(x->ring, (void **)m, WHOLE_BURST, NULL);
	null_messages(x->layout, m, x->ready_n, x->ready);
	return x->ready_n == WHOLE_BURST;
}

static int from_ib(struct whole *x, uint64_t *worker, uint64_t *device)
{
	struct rte_mbuf *m[WHOLE_BURST];
	uint64_t t0 = rte_rdtsc();
	bool all = prepare(x);
	uint64_t t1 = rte_rdtsc();
	worker_poll(x->worker);
	*worker = rte_rdtsc() - t1;
	*device = t1 - t0;
	if (!x->hca || !all || rte_ring_count(x->ring) <= x->keep)
		return all ? 0 : -ENOBUFS;
	unsigned n = rte_ring_sc_dequeue_burst(x->ring, (void **)m, WHOLE_BURST, NULL);
	rte_pktmbuf_free_bulk(m, n);
	return n == WHOLE_BURST ? 0 : -EIO;
}

/* Adds a round's costs, unless the thread was preempted. */
static void count(struct whole *x, uint64_t worker, uint64_t device)
{
	bool cut = preempted(&x->shortest[0], worker, CALLS_US);
	cut |= preempted(&x->shortest[1], device, DEVICE_US);
	if (cut)
		return;
	x->cost.packets += WHOLE_BURST;
	x->cost.worker += worker;
	x->cost.device += device;
}

static int rounds(struct whole *x, uint64_t cycles)
{
	uint64_t worker = 0, device = 0, last = rte_rdtsc() + PATIENCE_S * rte_get_tsc_hz();
	int err = 0;
	x->cost = (struct whole_cost){0};
	while (!err && x->cost.worker + x->cost.device < cycles && rte_rdtsc() < last) {
		err = x->to_ib ? to_ib(x, &worker, &device) : from_ib(x, &worker, &device);
		count(x, worker, device);
	}
	return err;
}

static int run(void *arg)
{
	struct whole *x = arg;
	struct rte_rcu_qsbr *rcu = x->worker->datapath->tables->rcu;
	uint64_t cycles = x->ns * (rte_get_tsc_hz() / 1000) / 1000000;
	rte_rcu_qsbr_thread_register(rcu, x->worker->id);
	rte_rcu_qsbr_thread_online(rcu, x->worker->id);
	mlx5mem_note(x->record, x->record_max);
	x->shortest[0] = x->shortest[1] = 0;
	int err = rounds(x, cycles / 4);
	err = err ? err : rounds(x, cycles);
	x->record_n = mlx5mem_note(NULL, 0);
	x->worker->ib_port->free(x->worker->ib_port->self); /* the last completions */
	rte_rcu_qsbr_thread_offline(rcu, x->worker->id);
	rte_rcu_qsbr_thread_unregister(rcu, x->worker->id);
	return err;
}

int whole_run(struct whole *x, unsigned lcore)
{
	int err = rte_eal_remote_launch(run, x, lcore);
	return err ? err : rte_eal_wait_lcore(lcore);
}

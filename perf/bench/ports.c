/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A round is 64 messages: the port's calls, one after the other as a worker makes them, then the HCA's own work. The
 * time-stamp counter is read once for each of the two, since with out-of-order execution the time of a single call
 * would mean little. Rounds in which the thread was preempted do not count.
 */
#include "ports.h"

#include <errno.h>
#include <rte_cycles.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>

#include "hca.h"
#include "../../ibside/verbs/mlx5mem/mlx5mem.h"
#include "preempted.h"

enum { ROUND = 64, QPN = 0x48, PATIENCE_S = 20 };

/* The upper half of a linear congruential generator (Knuth's MMIX). */
static uint32_t draw(struct port_loop *l)
{
	l->random = l->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(l->random >> 32);
}

/* Adds a round's costs, unless the thread was preempted. */
static void count(struct port_loop *l, uint64_t call, uint64_t device)
{
	bool cut = preempted(&l->shortest[0], call, CALLS_US);

	cut |= preempted(&l->shortest[1], device, DEVICE_US);
	if (cut)
		return;
	l->cost.messages += ROUND;
	l->cost.call += call;
	l->cost.device += device;
}

static bool make_sends(struct port_loop *l, struct ib_send *s)
{
	struct rte_mbuf *m[ROUND];

	if (rte_pktmbuf_alloc_bulk(l->pool, m, ROUND))
		return false;
	for (unsigned i = 0; i < ROUND; i++) {
		s[i] = (struct ib_send){
			.mbuf = m[i],
			.ah = l->peer[draw(l) % PORT_PEERS],
			.qp = hca_handle(draw(l) & (l->qps - 1)),
			.dest_qpn = QPN,
			.dest_qkey = l->qkey,
			.flags = IB_SEND_GRH,
		};
		m[i]->data_len = (uint16_t)l->payload;
		m[i]->pkt_len = l->payload;
	}
	return true;
}

/* Completions are taken a round later. */
static int post_round(struct port_loop *l)
{
	struct ib_port *p = hca_port(l->hca);
	struct ib_send s[ROUND];
	unsigned took = 0;

	if (!make_sends(l, s))
		return -ENOBUFS;
	uint64_t t0 = rte_rdtsc();
	for (unsigned i = 0; i < ROUND; i += l->burst) {
		took += p->post(p->self, s + i, l->burst);
		p->free(p->self);
	}
	uint64_t t1 = rte_rdtsc();
	bool all = mlx5mem_turn(MLX5MEM_ALL) == ROUND;
	count(l, t1 - t0, rte_rdtsc() - t1);
	return took == ROUND && all ? 0 : -EIO;
}

static bool deliver(struct port_loop *l)
{
	static const uint8_t grh[IB_GRH_LEN];
	struct mlx5mem_arrival a = {.src_qpn = QPN, .qkey = l->qkey, .len = l->payload, .slid = 9, .grh = grh};

	for (unsigned i = 0; i < ROUND; i++) {
		a.qpn = hca_qpn(l->hca, draw(l) & (l->qps - 1));
		if (mlx5mem_deliver(&a) != 1)
			return false;
	}
	return true;
}

/* Freeing the received mbufs is not counted. */
static int poll_round(struct port_loop *l)
{
	struct ib_port *p = hca_port(l->hca);
	struct ib_recv in[ROUND];
	struct rte_mbuf *m[ROUND];
	unsigned got = 0;

	uint64_t t0 = rte_rdtsc();
	bool all = deliver(l);
	uint64_t t1 = rte_rdtsc();
	for (unsigned i = 0; i < ROUND; i += l->burst) {
		got += p->poll(p->self, in + got, l->burst);
		p->free(p->self);
	}
	uint64_t t2 = rte_rdtsc();
	for (unsigned i = 0; i < got; i++)
		m[i] = in[i].mbuf;
	rte_pktmbuf_free_bulk(m, got);
	count(l, t2 - t1, t1 - t0);
	return all && got == ROUND ? 0 : -EIO;
}

static int rounds(struct port_loop *l, uint64_t cycles)
{
	uint64_t last = rte_rdtsc() + PATIENCE_S * rte_get_tsc_hz();
	int err = 0;

	l->cost = (struct port_cost){0};
	while (!err && l->cost.call + l->cost.device < cycles && rte_rdtsc() < last)
		err = l->polls ? poll_round(l) : post_round(l);
	return err;
}

static int run(void *arg)
{
	struct port_loop *l = arg;
	struct ib_port *p = hca_port(l->hca);
	uint64_t cycles = l->ns * (rte_get_tsc_hz() / 1000) / 1000000;

	l->shortest[0] = l->shortest[1] = 0;
	int err = rounds(l, cycles / 4);
	err = err ? err : rounds(l, cycles);
	p->free(p->self); /* the last completions */
	return err;
}

int port_loop_run(struct port_loop *l, unsigned lcore)
{
	int err = rte_eal_remote_launch(run, l, lcore);
	return err ? err : rte_eal_wait_lcore(lcore);
}

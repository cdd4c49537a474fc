/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of a trial, and what comes before and after it. */
#include "../../dpdk/dpdk.h"
#include "../../dpdk/near.h"
#include "gen.h"

#include <pthread.h>
#include <rte_cycles.h>
#include <rte_launch.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_pause.h>
#include <rte_ring.h>
#include <signal.h>
#include <stdlib.h>

static void lay_filler(struct rte_mempool *pool, void *arg, void *obj, unsigned index)
{
	struct rte_mbuf *m = obj;
	(void)pool, (void)arg, (void)index;
	memcpy((uint8_t *)m->buf_addr + GEN_PAYLOAD_AT, gen_filler(), GEN_MAX_PAYLOAD);
	((struct gen_private *)rte_mbuf_to_priv(m))->last_len = 0;
}

struct gen *gen_new(struct rte_mempool *pool, struct gen_port *ib_port, unsigned resident)
{
	struct gen *g = near_zmalloc("gen", sizeof *g, dpdk_node());
	unsigned size = rte_align32pow2(resident);
	if (!g)
		return NULL;
	g->fifo = near_zmalloc("gen_fifo", size * sizeof(struct rte_mbuf *), dpdk_node());
	if (!g->fifo) {
		rte_free(g);
		return NULL;
	}
	g->fifo_mask = size - 1;
	g->pool = pool;
	g->ib_port = ib_port;
	g->port = GEN_NO_PORT;
	rte_mempool_obj_iter(pool, lay_filler, NULL);
	for (unsigned i = 0; i < resident; i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
		if (!m)
			break;
		g->fifo[g->fifo_tail++ & g->fifo_mask] = m;
	}
	return g;
}

void gen_empty(struct gen *g)
{
	while (gen_receive_roce(g) + gen_receive_ib(g))
		;
	for (struct rte_mbuf *m; (m = gen_take(g));)
		rte_pktmbuf_free(m);
}

void gen_free(struct gen *g)
{
	rte_free(g->fifo);
	rte_free(g);
}

void gen_clear(struct gen *g)
{
	memset(g->stats, 0, sizeof g->stats);
	for (unsigned d = 0; d < GEN_DIRECTIONS; d++) {
		struct gen_stream *s = &g->stream[d];
		s->at = 0;
		s->scheduled = 0;
		s->skipped = 0;
	}
	for (uint32_t i = 0; i < g->n_flows; i++)
		g->flows[i].next_seq = 0;
	if (g->n_flows)
		memset(g->seen, 0, g->n_flows * sizeof *g->seen);
	g->foreign = g->stray = g->starved = 0;
	g->began = g->ended = 0;
	g->away = g->silence = 0;
	g->stop = false;
}

static bool finished(const struct gen_stream *s)
{
	return !s->on || (s->limit && s->scheduled >= s->limit);
}

static bool over(const struct gen *g, uint64_t now)
{
	if (g->stop || (g->duration && now - g->began >= g->duration))
		return true;
	return finished(&g->stream[0]) && finished(&g->stream[1]);
}

static unsigned waiting(const struct gen *g)
{
	return (g->roce_in ? rte_ring_count(g->roce_in) : 0) + (g->ib_port ? rte_ring_count(g->ib_port->polled) : 0);
}

/* Records gaps of the generator's loop, and of the bridge's output while messages wait in its input. */
static void note_gaps(struct gen *g, uint64_t now, unsigned arrived)
{
	if (now - g->last_turn > g->away)
		g->away = now - g->last_turn;
	g->last_turn = now;
	if (arrived || waiting(g) == 0)
		g->last_arrival = now;
	else if (now - g->last_arrival > g->silence)
		g->silence = now - g->last_arrival;
}

static void send_all(struct gen *g)
{
	uint64_t now = rte_rdtsc();
	g->began = g->last_turn = g->last_arrival = now;
	for (unsigned d = 0; d < GEN_DIRECTIONS; d++)
		g->stream[d].start = now;
	while (!over(g, now)) {
		for (unsigned d = 0; d < GEN_DIRECTIONS; d++)
			if (g->stream[d].on)
				gen_send(g, d, now);
		unsigned arrived = gen_receive_ib(g) + gen_receive_roce(g);
		now = rte_rdtsc();
		note_gaps(g, now, arrived);
	}
	g->ended = now;
}

static bool all_arrived(const struct gen *g)
{
	for (unsigned d = 0; d < GEN_DIRECTIONS; d++)
		if (g->stats[d].received < g->stats[d].offered - g->stats[d].rejected)
			return false;
	return true;
}

/* Takes the messages that are still in the bridge, until all have arrived or none has for a while. */
static void drain(struct gen *g)
{
	for (uint64_t last = rte_rdtsc(); !all_arrived(g) && rte_rdtsc() - last < g->drain;)
		if (gen_receive_ib(g) + gen_receive_roce(g))
			last = rte_rdtsc();
}

static int run(void *arg)
{
	struct gen *g = arg;
	sigset_t all;
	sigfillset(&all); /* signals are handled by Go */
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	send_all(g);
	drain(g);
	g->running = false;
	return 0;
}

int gen_start(struct gen *g, unsigned lcore)
{
	g->running = true;
	return rte_eal_remote_launch(run, g, lcore);
}

void gen_wait(struct gen *g, unsigned lcore)
{
	(void)g;
	rte_eal_wait_lcore(lcore);
}

uint64_t gen_cycles_per_second(void)
{
	return rte_get_tsc_hz();
}

uint64_t gen_now(void)
{
	return rte_rdtsc();
}

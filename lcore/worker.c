/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of a worker: both directions, management's rings, and a sign of life to the tables' writer. */
#include <pthread.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_pause.h>
#include <rte_rcu_qsbr.h>
#include <rte_ring.h>
#include <signal.h>
#include <time.h>

#include "burst.h"

/* Frames of management's: sent as they are. */
static unsigned send_odd(struct worker *w)
{
	struct rte_mbuf *m[BURST];
	unsigned n = rte_ring_sc_dequeue_burst(w->send, (void **)m, BURST, NULL);
	if (likely(n == 0))
		return 0;
	if (watched(w))
		sight_stage(w, SIGHT_OWN, IB_TO_ROCE, PASS, m, n);
	unsigned sent = rte_eth_tx_burst(w->port, w->queue, m, (uint16_t)n);
	if (watched(w))
		sight_taken(w, sent);
	w->counters.odd.sent += sent;
	w->counters.odd.refused += n - sent;
	for (unsigned i = sent; i < n; i++)
		rte_pktmbuf_free(m[i]);
	return n;
}

/* What is already inside: everything but new frames from Ethernet. */
static unsigned work_off(struct worker *w)
{
	unsigned moved = roce_to_ib_again(w);
	moved += ib_to_roce(w);
	moved += send_odd(w);
	w->door->free(w->door->self);
	return moved;
}

unsigned worker_round(struct worker *w)
{
	if (unlikely(inject_wanted(w->inject)))
		inject_turn(w);
	unsigned moved = roce_to_ib(w) + work_off(w);
	rte_rcu_qsbr_quiescent(w->bench->tables->rcu, w->id);
	COUNT(w->counters.loops, 1);
	if (moved)
		COUNT(w->counters.busy, 1);
	return moved;
}

/* Gives the CPU away after a while without work. Only for machines that have no core to spare. */
static void idle(const struct worker *w, unsigned *empty, unsigned moved)
{
	enum { PATIENCE = 256, NAP_NS = 20000 };
	if (moved || !w->bench->sleep) {
		*empty = 0;
		return;
	}
	if (++*empty < PATIENCE) {
		rte_pause();
		return;
	}
	struct timespec nap = {.tv_nsec = NAP_NS};
	nanosleep(&nap, NULL);
}

/* Works off what is inside when the bridge stops, for a bounded time: peers may go on sending for ever. */
static void drain(struct worker *w)
{
	uint64_t end = rte_get_timer_cycles() + rte_get_timer_hz() / 10;
	inject_leave(w);
	for (unsigned moved = 1; moved && rte_get_timer_cycles() < end;) {
		moved = w->inject[ROCE_TO_IB].live ? roce_to_ib(w) : 0;
		moved += work_off(w);
		rte_rcu_qsbr_quiescent(w->bench->tables->rcu, w->id);
	}
}

/* The process's signals are Go's. */
static void block_signals(void)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
}

int worker_run(void *arg)
{
	struct worker *w = arg;
	struct rte_rcu_qsbr *rcu = w->bench->tables->rcu;
	unsigned empty = 0;
	block_signals();
	rte_rcu_qsbr_thread_register(rcu, w->id);
	rte_rcu_qsbr_thread_online(rcu, w->id);
	while (likely(!w->stop))
		idle(w, &empty, worker_round(w));
	drain(w);
	rte_rcu_qsbr_thread_offline(rcu, w->id);
	rte_rcu_qsbr_thread_unregister(rcu, w->id);
	return 0;
}

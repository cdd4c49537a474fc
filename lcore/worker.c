/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's loop: both directions, the rings of management, and RCU quiescence for the tables' writer. */
#include <pthread.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_pause.h>
#include <rte_rcu_qsbr.h>
#include <rte_ring.h>
#include <signal.h>
#include <time.h>

#include "burst.h"

/* Transmits frames from management. */
static unsigned send_punted(struct worker *w)
{
	struct rte_mbuf *m[BURST];
	unsigned n = rte_ring_sc_dequeue_burst(w->send, (void **)m, BURST, NULL);
	if (likely(n == 0))
		return 0;
	if (mirroring(w))
		mirror_stage(w, MIRROR_OWN, IB_TO_ROCE, PASS, m, n);
	unsigned sent = rte_eth_tx_burst(w->port, w->queue, m, (uint16_t)n);
	if (mirroring(w))
		mirror_taken(w, sent);
	w->counters.punt.sent += sent;
	w->counters.punt.rejected += n - sent;
	for (unsigned i = sent; i < n; i++)
		rte_pktmbuf_free(m[i]);
	return n;
}

/* Everything but new frames from Ethernet. */
static unsigned poll_rest(struct worker *w)
{
	unsigned moved = roce_to_ib_requeued(w);
	moved += ib_to_roce(w);
	moved += send_punted(w);
	w->ib_port->free(w->ib_port->self);
	return moved;
}

unsigned worker_poll(struct worker *w)
{
	if (unlikely(inject_update_wanted(w->inject)))
		inject_update(w);
	unsigned moved = roce_to_ib(w) + poll_rest(w);
	rte_rcu_qsbr_quiescent(w->datapath->tables->rcu, w->id);
	COUNT(w->counters.loops, 1);
	if (moved)
		COUNT(w->counters.busy, 1);
	return moved;
}

/* Sleeps after a while without work. Only for machines that have no core to spare. */
static void idle(const struct worker *w, unsigned *empty, unsigned moved)
{
	enum { PATIENCE = 256, NAP_NS = 20000 };
	if (moved || !w->datapath->sleep) {
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

/* Sends what is queued when the bridge stops. Bounded in time, because peers may go on sending. */
static void drain(struct worker *w)
{
	uint64_t end = rte_get_timer_cycles() + rte_get_timer_hz() / 10;
	inject_drain(w);
	for (unsigned moved = 1; moved && rte_get_timer_cycles() < end;) {
		moved = w->inject[ROCE_TO_IB].live ? roce_to_ib(w) : 0;
		moved += poll_rest(w);
		rte_rcu_qsbr_quiescent(w->datapath->tables->rcu, w->id);
	}
}

/* Signals are handled by Go's threads. */
static void block_signals(void)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
}

int worker_run(void *arg)
{
	struct worker *w = arg;
	struct rte_rcu_qsbr *rcu = w->datapath->tables->rcu;
	unsigned empty = 0;
	block_signals();
	rte_rcu_qsbr_thread_register(rcu, w->id);
	rte_rcu_qsbr_thread_online(rcu, w->id);
	while (likely(!w->stop))
		idle(w, &empty, worker_poll(w));
	drain(w);
	rte_rcu_qsbr_thread_offline(rcu, w->id);
	rte_rcu_qsbr_thread_unregister(rcu, w->id);
	return 0;
}

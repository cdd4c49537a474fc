/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's thread: its loop. An idle worker polls for a while. Then it polls on, sleeps for a moment at a time, or
 * sleeps until it is woken:
 *
 *   poll for a while ▶ arm ▶ poll once more ▶ sleep ▶ disarm
 *
 * It is woken by each Ethernet port, by the InfiniBand port, and by its bell: other workers and management ring it when
 * they put something on the worker's rings. What comes before the last poll is found by it, and what comes after it
 * ends the sleep, so nothing waits. Should a device not wake it, the sleep ends after SLEEP_MS, and is counted if there
 * was something (overslept), from the second one on.
 */
#include <pthread.h>
#include <rte_branch_prediction.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_pause.h>
#include <rte_rcu_qsbr.h>
#include <signal.h>
#include <sys/epoll.h>
#include <time.h>

#include "ports.h"
#include "worker.h"

enum {
	PATIENCE = 256, /* empty polls */
	NAP_NS = 20000,
	SLEEP_MS = 100,
	AT_ONCE_US = 100,
};

static void nap(void)
{
	struct timespec t = {.tv_nsec = NAP_NS};
	nanosleep(&t, NULL);
}

static void arm(struct worker *w)
{
	wake_arm(&w->bell);
	ports_update(w); /* a change from now on rings the bell */
	w->ib_port->arm(w->ib_port->self);
	for (unsigned left = w->ports & PORTS_ALL; left; left &= left - 1)
		if (w->rx_interrupt[first_port(left)])
			rte_eth_dev_rx_intr_enable(w->port[first_port(left)], w->queue);
}

static void disarm(struct worker *w)
{
	ports_update(w); /* nobody waited with what was done to a port meanwhile */
	for (unsigned left = w->ports & PORTS_ALL; left; left &= left - 1)
		if (w->rx_interrupt[first_port(left)])
			rte_eth_dev_rx_intr_disable(w->port[first_port(left)], w->queue);
	w->ib_port->disarm(w->ib_port->self);
	wake_disarm(&w->bell);
}

/* Returns whether something woke the worker within ms. */
static bool woken(const struct worker *w, int ms)
{
	struct epoll_event event[1 + IB_WAKES + 1];
	return epoll_wait(w->epoll, event, RTE_DIM(event), ms) != 0;
}

/* Nobody waits for a reader of the tables that sleeps. */
static bool await(struct worker *w)
{
	struct rte_rcu_qsbr *rcu = w->datapath->tables->rcu;
	rte_rcu_qsbr_thread_offline(rcu, w->id);
	bool was = woken(w, SLEEP_MS);
	rte_rcu_qsbr_thread_online(rcu, w->id);
	return was;
}

/* Whether something had come that did not wake the worker, though its device would have by now. After its sleep a
 * worker may have to wait for its CPU: what came then would have woken it. So it asks whether it is woken, and polls at
 * once: while it disarms, something may come. Had it to wait in between, nobody can tell when something came, and it
 * does not count. */
static bool overslept(struct worker *w)
{
	ports_update(w); /* nobody waited with what was done to a port meanwhile */
	uint64_t began = rte_rdtsc();
	return !woken(w, 0) && worker_poll(w) && rte_rdtsc() - began < rte_get_tsc_hz() / 1000000 * AT_ONCE_US;
}

/* What comes just when a sleep has ended may be found before its device has told of it. That does not happen twice
 * before something wakes the worker. */
static void count_overslept(struct worker *w)
{
	if (w->unwoken)
		COUNT(w->counters.overslept, 1);
	w->unwoken = true;
}

static void sleep_until_woken(struct worker *w)
{
	arm(w);
	w->empty = 0;
	if (!worker_poll(w) && !w->stop) {
		COUNT(w->counters.sleeps, 1);
		if (await(w))
			w->unwoken = false;
		else if (overslept(w))
			count_overslept(w);
	}
	disarm(w);
}

/* Injected faults delay packets, which no descriptor tells of. */
static bool delays_packets(const struct worker *w)
{
	return w->inject[ROCE_TO_IB].live || w->inject[IB_TO_ROCE].live;
}

static void found_nothing(struct worker *w)
{
	if (w->datapath->idle == IDLE_POLL)
		return;
	if (++w->empty < PATIENCE)
		rte_pause();
	else if (w->datapath->idle == IDLE_SLEEP || delays_packets(w))
		nap();
	else
		sleep_until_woken(w);
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
	block_signals();
	rte_rcu_qsbr_thread_register(rcu, w->id);
	rte_rcu_qsbr_thread_online(rcu, w->id);
	while (likely(!w->stop)) {
		if (likely(worker_poll(w)))
			w->empty = 0;
		else
			found_nothing(w);
	}
	worker_drain(w);
	rte_rcu_qsbr_thread_offline(rcu, w->id);
	rte_rcu_qsbr_thread_unregister(rcu, w->id);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "setup.h"
#include "group_copies.h"
#include "handover.h"
#include "pending.h"
#include "ports.h"
#include "punt.h"
#include "lease.h"

#include "../dpdk/near.h"

#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>
#include <rte_ring.h>
#include <stdio.h>
#include <unistd.h>

#include "confine.h"

enum {
	REQUEUE_RING = 2048, /* those, when they are requeued, or a few bursts from every other worker */
	SEND_RING = 1024,
};

static struct rte_ring *ring(const char *what, const struct worker *w, unsigned size, int node, unsigned flags)
{
	char name[RTE_RING_NAMESIZE];
	static unsigned serial;
	snprintf(name, sizeof name, "%s%u.%u", what, w->id, serial++);
	return near_ring(name, size, node, flags);
}

struct worker *worker_new(struct datapath *dp, struct ib_port *ib_port, uint16_t id, uint16_t port, uint16_t queue,
			  unsigned max_groups, unsigned punt_ring, int node)
{
	struct worker *w = near_zmalloc(NULL, sizeof *w, node);
	if (!w)
		return NULL;
	w->datapath = dp;
	w->ib_port = ib_port;
	w->id = id;
	w->port[0] = port;
	w->ports = dp->ports;
	w->queue = queue;
	w->epoll = w->bell.fd = -1;
	lease_begin_worker(w);
	w->punt = ring("punt", w, punt_ring, node, RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
	/* RTS, because management is a producer, too, and may be preempted: workers must not wait for it. */
	w->requeue = ring("requeue", w, REQUEUE_RING, node, RING_F_MP_RTS_ENQ | RING_F_SC_DEQ);
	w->send = ring("send", w, SEND_RING, node, RING_F_SP_ENQ | RING_F_SC_DEQ);
	w->groups = near_zmalloc(NULL, max_groups * sizeof *w->groups, node);
	w->copies = near_zmalloc(NULL, copies_size(), node);
	w->by_port = near_zmalloc(NULL, MAX_PORTS * sizeof *w->by_port, node);
	w->handover = in_fleet(dp) ? near_zmalloc(NULL, sizeof *w->handover, node) : NULL;
	w->pending = near_zmalloc(NULL, sizeof *w->pending, node);
	if (!w->punt || !w->requeue || !w->send || !w->groups || !w->copies || !w->by_port || !w->pending ||
	    (in_fleet(dp) && !w->handover)) {
		unsigned left;
		worker_free(w, &left);
		return NULL;
	}
	dp->requeue[id] = w->requeue;
	dp->bell[id] = &w->bell;
	return w;
}

bool worker_punted_none(const struct worker *w)
{
	return rte_ring_empty(w->punt);
}

bool worker_requeued_none(const struct worker *w)
{
	return rte_ring_empty(w->requeue) && keeps_nothing(w) && pending_nothing_behind(w) &&
	       !__atomic_load_n(&w->inject[ROCE_TO_IB].live, __ATOMIC_RELAXED);
}

bool worker_sends_none(const struct worker *w)
{
	return rte_ring_empty(w->send);
}

static unsigned empty_ring(struct worker *w, struct rte_ring *r, bool count_all)
{
	struct rte_mbuf *m;
	unsigned n = 0;
	while (r && rte_ring_dequeue(r, (void **)&m) == 0) {
		if (count_all || (m->hash.usr & ((1 << PUNT_PARTITION_SHIFT) - 1)) == PUNT_PROXY_QP) {
			n++;
			if (several_ports(w))
				counters_of(w, ROCE_TO_IB, m)->drops[DROP_shutdown]++;
		}
		rte_pktmbuf_free(m);
	}
	return n;
}

unsigned worker_empty(struct worker *w)
{
	ports_update(w);
	inject_end(w);
	end_kept(w);
	pending_drop(w);
	return empty_ring(w, w->punt, false) + empty_ring(w, w->requeue, true);
}

void worker_free(struct worker *w, unsigned *left)
{
	struct rte_mbuf *m;
	*left = worker_empty(w);
	while (w->send && rte_ring_dequeue(w->send, (void **)&m) == 0)
		rte_pktmbuf_free(m);
	rte_ring_free(w->punt);
	rte_ring_free(w->requeue);
	rte_ring_free(w->send);
	rte_free(w->handover);
	rte_free(w->pending);
	rte_free(w->by_port);
	rte_free(w->groups);
	rte_free(w->copies);
	rte_free(w);
}

int worker_start(struct worker *w, unsigned lcore)
{
	w->stop = false;
	if (w->datapath->confine) {
		int rc = rte_eal_remote_launch(confine_lcore, NULL, lcore);
		if (rc == 0)
			rc = rte_eal_wait_lcore(lcore);
		if (rc)
			return rc;
	}
	return rte_eal_remote_launch(worker_run, w, lcore);
}

void worker_wake(struct worker *w)
{
	wake_up(&w->bell);
}

void worker_stop(struct worker *w, unsigned lcore)
{
	w->stop = true;
	wake_now(&w->bell);
	rte_eal_wait_lcore(lcore);
}

unsigned worker_step(struct worker *w)
{
	struct rte_rcu_qsbr *rcu = w->datapath->tables->rcu;
	rte_rcu_qsbr_thread_register(rcu, w->id);
	rte_rcu_qsbr_thread_online(rcu, w->id);
	unsigned moved = worker_poll(w);
	rte_rcu_qsbr_thread_offline(rcu, w->id);
	rte_rcu_qsbr_thread_unregister(rcu, w->id);
	return moved;
}

void worker_await_punted(struct datapath *dp)
{
	wake_arm(dp->manager);
}

unsigned worker_take_punted(struct worker *w, struct rte_mbuf **m, unsigned n)
{
	return punt_take(w, m, n);
}

int worker_requeue(struct worker *w, struct rte_mbuf *m)
{
	int rc = rte_ring_enqueue(w->requeue, m);
	wake_up(&w->bell);
	return rc;
}

void worker_rejected(struct worker *w, struct rte_mbuf *m)
{
	pending_end(w, m);
	wake_up(&w->bell); /* others may have waited behind it */
}

int worker_send(struct worker *w, struct rte_mempool *pool, const void *frame, unsigned len, unsigned port)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	if (!m)
		return -ENOMEM;
	void *p = len <= UINT16_MAX ? rte_pktmbuf_append(m, (uint16_t)len) : NULL;
	if (!p) {
		rte_pktmbuf_free(m);
		return -EMSGSIZE;
	}
	memcpy(p, frame, len);
	m->port = (uint16_t)port;
	if (rte_ring_sp_enqueue(w->send, m) == 0) {
		wake_up(&w->bell);
		return 0;
	}
	rte_pktmbuf_free(m);
	return -ENOBUFS;
}

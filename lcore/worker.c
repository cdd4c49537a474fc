/* SPDX-License-Identifier: Apache-2.0 */
/* One iteration of a worker: both directions, the rings of management, and RCU quiescence for the tables' writer. */
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_rcu_qsbr.h>
#include <rte_ring.h>

#include "burst.h"
#include "handover.h"
#include "pending.h"

/* Transmits frames from management by a port. */
static void send_by(struct worker *w, unsigned port, struct rte_mbuf **m, unsigned n)
{
	if (mirroring(w))
		mirror_stage(w, MIRROR_OWN, IB_TO_ROCE, PASS, m, n);
	unsigned sent = rte_eth_tx_burst(w->port[port], w->queue, m, (uint16_t)n);
	if (mirroring(w))
		mirror_taken(w, sent);
	w->counters.punt.sent += sent;
	w->counters.punt.rejected += n - sent;
	for (unsigned i = sent; i < n; i++)
		rte_pktmbuf_free(m[i]);
}

/* Frees frames for ports that are gone, and from shards that are another's. Returns how many are left. */
static unsigned reject(struct worker *w, struct rte_mbuf **m, unsigned n)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < n; i++) {
		if (unlikely(!polls_port(w, port_index(w->datapath, m[i])))) {
			w->counters.punt.rejected++;
		} else if (unlikely(!lease_may_announce(w, m[i]))) {
			w->counters.punt.fenced++;
		} else {
			m[kept++] = m[i];
			continue;
		}
		rte_pktmbuf_free(m[i]);
	}
	return kept;
}

/* Transmits frames from management, those for one port after another. */
static unsigned send_punted(struct worker *w)
{
	struct rte_mbuf *m[BURST], *own[BURST];
	unsigned n = rte_ring_sc_dequeue_burst(w->send, (void **)m, BURST, NULL);
	if (likely(n == 0))
		return 0;
	unsigned left = reject(w, m, n);
	for (unsigned ports = w->ports & PORTS_ALL; ports; ports &= ports - 1) {
		unsigned port = first_port(ports), k = 0;
		for (unsigned i = 0; i < left; i++)
			if (port_index(w->datapath, m[i]) == port)
				own[k++] = m[i];
		if (k)
			send_by(w, port, own, k);
	}
	return n;
}

/* Everything but frames from Ethernet. */
static unsigned poll_rest(struct worker *w)
{
	unsigned moved = ib_to_roce(w);
	moved += send_punted(w);
	w->ib_port->free(w->ib_port->self);
	return moved;
}

/* What is older than what has come now: packets from the requeue ring, and those behind them. */
static unsigned send_requeued(struct worker *w)
{
	unsigned moved = roce_to_ib_requeued(w);
	if (unlikely(!pending_nothing_behind(w)))
		moved += roce_to_ib_behind(w);
	return moved;
}

/* Sends what was kept of shards that are opened now; some bursts. Returns how many packets moved. */
static unsigned send_kept(struct worker *w)
{
	unsigned moved = 0;
	if (unlikely(w->lease.releases[ROCE_TO_IB]))
		moved += roce_to_ib_kept(w);
	if (unlikely(w->lease.releases[IB_TO_ROCE]))
		moved += ib_to_roce_kept(w);
	return moved;
}

unsigned worker_poll(struct worker *w)
{
	ports_update(w);
	shards_update(w);
	if (unlikely(inject_update_wanted(w->inject)))
		inject_update(w);
	unsigned moved = send_requeued(w);
	moved += send_kept(w);
	moved += roce_to_ib(w);
	moved += poll_rest(w);
	rte_rcu_qsbr_quiescent(w->datapath->tables->rcu, w->id);
	COUNT(w->counters.loops, 1);
	if (moved)
		COUNT(w->counters.busy, 1);
	return moved;
}

void worker_drain(struct worker *w)
{
	uint64_t end = rte_get_timer_cycles() + rte_get_timer_hz() / 10;
	inject_drain(w);
	for (unsigned moved = 1; moved && rte_get_timer_cycles() < end;) {
		ports_update(w);
		shards_update(w);
		moved = send_requeued(w);
		moved += w->inject[ROCE_TO_IB].live ? roce_to_ib(w) : 0;
		moved += poll_rest(w);
		rte_rcu_qsbr_quiescent(w->datapath->tables->rcu, w->id);
	}
}

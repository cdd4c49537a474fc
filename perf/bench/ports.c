/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A round is 64 messages: the port's calls, one after the other as a worker makes them, then the device's work. The
 * time-stamp counter is read once for each of the two, since with out-of-order execution the time of a single call
 * would mean little. Rounds in which the thread was preempted do not count.
 */
#include "ports.h"

#include <errno.h>
#include <rte_cycles.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>

#include "ibside/port.h"
#include "perf/nullverbs/nullverbs.h"

enum { ROUND = 64, WARM_ROUNDS = 1 << 9 };

uint64_t port_tsc_hz(void)
{
	return rte_get_tsc_hz();
}

static struct ib_port *port_of(const struct port_loop *l)
{
	return nullverbs_port(l->null);
}

static uint64_t bells(const struct port_loop *l)
{
	return l->polls ? nullverbs_recv_bells(l->null) : nullverbs_send_bells(l->null);
}

/* Adds a round's costs, unless the thread was preempted. */
static void count(struct port_loop *l, uint64_t call, uint64_t device, uint64_t most)
{
	l->cost.calls += ROUND / l->burst;
	if (call + device > most)
		return;
	l->cost.messages += ROUND;
	l->cost.call += call;
	l->cost.device += device;
}

static bool make_sends(const struct port_loop *l, struct ib_send *s)
{
	struct rte_mbuf *m[ROUND];

	if (rte_pktmbuf_alloc_bulk(l->pool, m, ROUND))
		return false;
	for (unsigned i = 0; i < ROUND; i++) {
		s[i] = (struct ib_send){
			.mbuf = m[i],
			.ah = nullverbs_peer(i % PORT_PEERS),
			.qp = nullverbs_handle(l->null, i % l->qps),
			.dest_qpn = 0x48,
			.dest_qkey = 0x1234,
			.flags = IB_SEND_GRH,
		};
		m[i]->data_len = (uint16_t)l->payload;
		m[i]->pkt_len = l->payload;
	}
	return true;
}

/* Completions are taken a round later. */
static int post_round(struct port_loop *l, uint64_t most)
{
	struct ib_port *p = port_of(l);
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
	bool all = nullverbs_carry_out(l->null) == ROUND;
	count(l, t1 - t0, rte_rdtsc() - t1, most);
	return took == ROUND && all ? 0 : -EIO;
}

/* Freeing the received mbufs is not counted. */
static int poll_round(struct port_loop *l, uint64_t most)
{
	struct ib_port *p = port_of(l);
	struct ib_recv in[ROUND];
	struct rte_mbuf *m[ROUND];
	unsigned got = 0;

	uint64_t t0 = rte_rdtsc();
	bool all = nullverbs_deliver(l->null, ROUND, l->payload, l->qps) == ROUND;
	uint64_t t1 = rte_rdtsc();
	for (unsigned i = 0; i < ROUND; i += l->burst) {
		got += p->poll(p->self, in + got, l->burst);
		p->free(p->self);
	}
	uint64_t t2 = rte_rdtsc();
	for (unsigned i = 0; i < got; i++)
		m[i] = in[i].mbuf;
	rte_pktmbuf_free_bulk(m, got);
	count(l, t2 - t1, t1 - t0, most);
	return all && got == ROUND ? 0 : -EIO;
}

static int run(void *arg)
{
	struct port_loop *l = arg;
	uint64_t cycles = l->ns * (rte_get_tsc_hz() / 1000) / 1000000;
	uint64_t most = rte_get_tsc_hz() / 20000, end = UINT64_MAX; /* 50 us */
	int err = 0;

	for (unsigned n = 0; !err && (n <= WARM_ROUNDS || rte_rdtsc() < end); n++) {
		if (n == WARM_ROUNDS) {
			l->cost = (struct port_cost){.bells = 0 - bells(l)};
			end = rte_rdtsc() + cycles;
		}
		err = l->polls ? poll_round(l, most) : post_round(l, most);
	}
	l->cost.bells += bells(l);
	l->cost.dropped = nullverbs_drops(l->null);
	return err;
}

int port_loop_run(struct port_loop *l, unsigned lcore)
{
	int err = rte_eal_remote_launch(run, l, lcore);
	return err ? err : rte_eal_wait_lcore(lcore);
}

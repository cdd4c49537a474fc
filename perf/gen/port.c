/* SPDX-License-Identifier: Apache-2.0 */
/* The IB ports that the bridge under test is given: two rings, or a sink. */
#include "../../dpdk/dpdk.h"
#include "../../dpdk/near.h"
#include "gen.h"

#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_ring.h>
#include <stdio.h>

static unsigned post(void *self, const struct ib_send *sends, unsigned n)
{
	struct gen_port *p = self;
	struct rte_mbuf *m[GEN_BURST];
	if (n > GEN_BURST)
		n = GEN_BURST;
	for (unsigned i = 0; i < n; i++) {
		m[i] = sends[i].mbuf;
		((struct gen_private *)rte_mbuf_to_priv(m[i]))->send = sends[i];
	}
	return rte_ring_sp_enqueue_burst(p->posted, (void **)m, n, NULL);
}

static unsigned poll(void *self, struct ib_recv *recvs, unsigned n)
{
	struct gen_port *p = self;
	struct rte_mbuf *m[GEN_BURST];
	n = rte_ring_sc_dequeue_burst(p->polled, (void **)m, n < GEN_BURST ? n : GEN_BURST, NULL);
	for (unsigned i = 0; i < n; i++)
		__builtin_prefetch((const uint8_t *)m[i] + sizeof(struct rte_mbuf));
	for (unsigned i = 0; i < n; i++)
		recvs[i] = ((const struct gen_private *)rte_mbuf_to_priv(m[i]))->recv;
	return n;
}

static void no_op(void *self)
{
	(void)self;
}

static struct rte_ring *ring_new(const char *what, unsigned depth)
{
	static unsigned serial;
	char name[RTE_RING_NAMESIZE];
	snprintf(name, sizeof name, "gen_%s%u", what, __atomic_fetch_add(&serial, 1, __ATOMIC_RELAXED));
	return near_ring(name, depth, dpdk_node(), RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
}

struct gen_port *gen_port_new(unsigned depth)
{
	struct gen_port *p = near_zmalloc("gen_port", sizeof *p, dpdk_node());
	if (!p)
		return NULL;
	p->ib_port = (struct ib_port){.self = p, .post = post, .poll = poll, .free = no_op};
	p->posted = ring_new("posted", depth);
	p->polled = ring_new("polled", depth);
	if (p->posted && p->polled)
		return p;
	gen_port_free(p);
	return NULL;
}

static unsigned sink_post(void *self, const struct ib_send *sends, unsigned n)
{
	struct rte_mbuf *m[GEN_BURST];
	(void)self;
	if (n > GEN_BURST)
		n = GEN_BURST;
	for (unsigned i = 0; i < n; i++)
		m[i] = sends[i].mbuf;
	rte_pktmbuf_free_bulk(m, n);
	return n;
}

static unsigned sink_poll(void *self, struct ib_recv *recvs, unsigned n)
{
	(void)self, (void)recvs, (void)n;
	return 0;
}

struct gen_port *gen_sink_new(void)
{
	struct gen_port *p = near_zmalloc("gen_sink", sizeof *p, dpdk_node());
	if (p)
		p->ib_port = (struct ib_port){.self = p, .post = sink_post, .poll = sink_poll, .free = no_op};
	return p;
}

static void ring_free(struct rte_ring *r)
{
	void *m;
	while (r && rte_ring_dequeue(r, &m) == 0)
		rte_pktmbuf_free(m);
	rte_ring_free(r);
}

void gen_port_free(struct gen_port *p)
{
	ring_free(p->posted);
	ring_free(p->polled);
	rte_free(p);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The IB door that the bridge under test is given: two rings. */
#include "gen.h"

#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_ring.h>
#include <stdio.h>

static unsigned post(void *self, const struct ib_send *sends, unsigned n)
{
	struct gen_door *d = self;
	struct rte_mbuf *m[GEN_BURST];
	if (n > GEN_BURST)
		n = GEN_BURST;
	for (unsigned i = 0; i < n; i++) {
		m[i] = sends[i].mbuf;
		((struct gen_private *)rte_mbuf_to_priv(m[i]))->send = sends[i];
	}
	return rte_ring_sp_enqueue_burst(d->posted, (void **)m, n, NULL);
}

static unsigned poll(void *self, struct ib_recv *recvs, unsigned n)
{
	struct gen_door *d = self;
	struct rte_mbuf *m[GEN_BURST];
	n = rte_ring_sc_dequeue_burst(d->polled, (void **)m, n < GEN_BURST ? n : GEN_BURST, NULL);
	for (unsigned i = 0; i < n; i++)
		__builtin_prefetch((const uint8_t *)m[i] + sizeof(struct rte_mbuf));
	for (unsigned i = 0; i < n; i++)
		recvs[i] = ((const struct gen_private *)rte_mbuf_to_priv(m[i]))->recv;
	return n;
}

static void nothing_to_free(void *self)
{
	(void)self;
}

static struct rte_ring *ring_new(const char *what, unsigned depth)
{
	static unsigned serial;
	char name[RTE_RING_NAMESIZE];
	snprintf(name, sizeof name, "gen_%s%u", what, __atomic_fetch_add(&serial, 1, __ATOMIC_RELAXED));
	return rte_ring_create(name, depth, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
}

struct gen_door *gen_door_new(unsigned depth)
{
	struct gen_door *d = rte_zmalloc("gen_door", sizeof *d, RTE_CACHE_LINE_SIZE);
	if (!d)
		return NULL;
	d->door = (struct ib_door){.self = d, .post = post, .poll = poll, .free = nothing_to_free};
	d->posted = ring_new("posted", depth);
	d->polled = ring_new("polled", depth);
	if (d->posted && d->polled)
		return d;
	gen_door_free(d);
	return NULL;
}

static void ring_free(struct rte_ring *r)
{
	void *m;
	while (r && rte_ring_dequeue(r, &m) == 0)
		rte_pktmbuf_free(m);
	rte_ring_free(r);
}

void gen_door_free(struct gen_door *d)
{
	ring_free(d->posted);
	ring_free(d->polled);
	rte_free(d);
}

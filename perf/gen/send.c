/* SPDX-License-Identifier: Apache-2.0 */
/* How much is due, and sending it. */
#include "gen.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>
#include <rte_ring.h>

/* A generator that was preempted does not catch up with one large burst, which would be another test: it skips what it
 * is behind by more than this, and counts that. */
enum { MOST_BEHIND = 4 * GEN_BURST };

static unsigned due(struct gen_stream *s, uint64_t now)
{
	uint64_t behind = GEN_BURST;
	if (s->per_cycle > 0) {
		double since = (double)(now - s->start) * s->per_cycle;
		behind = (uint64_t)since - s->scheduled;
		if (behind > MOST_BEHIND) {
			uint64_t cycles = (uint64_t)((double)(behind - MOST_BEHIND) / s->per_cycle);
			s->start += cycles;
			s->skipped += cycles;
			behind = MOST_BEHIND;
		}
	}
	if (s->limit && behind > s->limit - s->scheduled)
		behind = s->limit - s->scheduled;
	return behind < GEN_BURST ? (unsigned)behind : GEN_BURST;
}

/* How many of n messages the bridge's queue has room for. */
static unsigned room(const struct gen *g, unsigned direction, unsigned n)
{
	struct rte_ring *r = direction == GEN_ROCE ? g->roce_in : g->ib_port->polled;
	unsigned free = r ? rte_ring_free_count(r) : n;
	return free < n ? free : n;
}

static unsigned take_mbufs(struct gen *g, struct rte_mbuf **m, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		m[i] = gen_take(g);
		if (unlikely(!m[i]))
			m[i] = rte_pktmbuf_alloc(g->pool);
		if (unlikely(!m[i])) {
			g->starved += n - i;
			return i;
		}
		rte_prefetch0(m[i]);
		rte_prefetch0((const uint8_t *)m[i] + sizeof(struct rte_mbuf));
	}
	return n;
}

static uint8_t *payload_of(const struct rte_mbuf *m)
{
	return (uint8_t *)m->buf_addr + GEN_PAYLOAD_AT;
}

/* An Ethernet port gives other mbufs back than it took, so the filler is not in them. */
static void lay_filler(const struct gen *g, const struct gen_flow *f, struct rte_mbuf *m)
{
	struct gen_private *p = rte_mbuf_to_priv(m);
	uint8_t *payload = payload_of(m);
	if (unlikely(!g->roce_in))
		memcpy(payload + STAMP_LEN, gen_filler() + STAMP_LEN, f->size->len - STAMP_LEN);
	else if (unlikely(p->last_len != f->size->len))
		memcpy(payload + p->last_len, gen_filler() + p->last_len, 8);
	p->last_len = f->size->len;
}

static void make(struct gen *g, struct gen_flow *f, struct rte_mbuf *m, uint64_t now)
{
	uint32_t len = f->from == GEN_ROCE ? gen_frame_len(f) : IB_GRH_LEN + f->size->len;
	lay_filler(g, f, m);
	gen_make(f, payload_of(m), now);
	m->data_off = (uint16_t)(GEN_PAYLOAD_AT - f->head_len);
	m->data_len = (uint16_t)len;
	m->pkt_len = len;
	if (f->from == GEN_IB) {
		struct gen_private *p = rte_mbuf_to_priv(m);
		p->recv = f->recv;
		p->recv.mbuf = m;
	}
}

static unsigned queue(struct gen *g, unsigned direction, struct rte_mbuf **m, unsigned n)
{
	if (direction == GEN_IB)
		return rte_ring_sp_enqueue_burst(g->ib_port->polled, (void **)m, n, NULL);
	if (g->roce_in)
		return rte_ring_enqueue_burst(g->roce_in, (void **)m, n, NULL);
	return rte_eth_tx_burst(g->port, g->queue, m, (uint16_t)n);
}

void gen_send(struct gen *g, unsigned direction, uint64_t now)
{
	enum { AHEAD = 8 };
	struct gen_stream *s = &g->stream[direction];
	struct gen_stats *t = &g->stats[direction];
	struct rte_mbuf *m[GEN_BURST];
	unsigned n = due(s, now);
	if (n == 0)
		return;
	unsigned fit = room(g, direction, n);
	unsigned made = take_mbufs(g, m, fit);
	n -= fit - made; /* no mbufs: they stay due */
	for (unsigned i = 0; i < made && i < AHEAD; i++)
		rte_prefetch0(payload_of(m[i]));
	for (unsigned i = 0; i < made; i++) {
		if (i + AHEAD < made) {
			rte_prefetch0(payload_of(m[i + AHEAD]) - RTE_CACHE_LINE_SIZE);
			rte_prefetch0(payload_of(m[i + AHEAD]));
		}
		struct gen_flow *f = s->order[s->at];
		s->at = s->at + 1 == s->n ? 0 : s->at + 1;
		make(g, f, m[i], now);
	}
	unsigned taken = queue(g, direction, m, made);
	for (unsigned i = taken; i < made; i++)
		g->fifo[g->fifo_tail++ & g->fifo_mask] = m[i];
	s->scheduled += n;
	t->offered += n;
	t->rejected += n - taken;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that come out of the bridge: which message each is, whether it is undamaged, at the right receiver and in
 * order, and its latency. */
#include "gen.h"

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>
#include <rte_ring.h>

/* A message as it arrived. */
struct arrival {
	struct rte_mbuf *mbuf;
	const uint8_t *frame; /* RoCE: Ethernet header; IB: NULL */
	const uint8_t *net;   /* RoCE: network header */
	const uint8_t *payload;
	uint32_t len; /* from payload to the end, pad and ICRC included */
	enum icrc_kind icrc;
	enum gen_side side;
};

static uint16_t be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t be24(const uint8_t *p)
{
	return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

static bool has_roce_port(const uint8_t *udp)
{
	enum { ROCE = 4791 };
	return be16(udp + 2) == ROCE || be16(udp) == ROCE; /* a forwarder may exchange them */
}

/* A bridge also sends frames of its own: ARP, ND, IGMP. They do not count. */
static bool is_roce(const uint8_t *p, uint32_t len)
{
	enum { ETH = 14, IP4 = 20, IP6 = 40, UDP = 17 };
	uint32_t at = ETH;
	if (len < ETH + 4 + IP6 + 8)
		return false;
	uint16_t type = be16(p + 12);
	if (type == 0x8100) {
		type = be16(p + 16);
		at += 4;
	}
	if (type == 0x0800)
		return p[at + 9] == UDP && has_roce_port(p + at + IP4);
	return type == 0x8915 || (type == 0x86dd && p[at + 6] == UDP && has_roce_port(p + at + IP6));
}

/* Finds the payload of a UD frame; false: the frame is too short. right_length() compares lengths. */
static bool open_frame(struct arrival *a)
{
	enum { ETH = 14, IP4 = 20, IP6 = 40, UDP = 8, BTH = 12, DETH = 8, IMM = 4, UD_SEND = 0x64, UD_SEND_IMM = 0x65 };
	const uint8_t *p = rte_pktmbuf_mtod(a->mbuf, const uint8_t *), *end = p + a->mbuf->data_len;
	uint32_t at = ETH;
	if (a->mbuf->data_len < ETH + 4 + IP6 + UDP + BTH + DETH)
		return false;
	uint16_t type = be16(p + 12);
	if (type == 0x8100) {
		type = be16(p + 16);
		at += 4;
	}
	a->frame = p;
	a->net = p + at;
	at += type == 0x0800 ? IP4 + UDP : type == 0x86dd ? IP6 + UDP : IP6;
	a->icrc = type == 0x0800 ? ICRC_IPV4 : type == 0x86dd ? ICRC_IPV6 : ICRC_GRH;
	at += BTH + DETH + (p[at] == UD_SEND_IMM ? IMM : 0);
	a->payload = p + at;
	if (a->payload + STAMP_LEN > end)
		return false;
	a->len = (uint32_t)(end - a->payload);
	return true;
}

static bool right_length(const struct arrival *a, const struct gen_flow *f)
{
	return a->len == f->size->len + (a->side == GEN_ROCE ? f->size->pad + 4 : 0);
}

/* Compares every byte, and at RoCE the ICRC. A wrong payload is repaired, because the mbuf will be reused. */
static bool whole(const struct arrival *a, const struct gen_flow *f)
{
	uint32_t rest = f->size->len - STAMP_LEN;
	if (memcmp(a->payload + STAMP_LEN, gen_filler() + STAMP_LEN, rest) != 0) {
		memcpy((uint8_t *)(uintptr_t)a->payload + STAMP_LEN, gen_filler() + STAMP_LEN, rest);
		return false;
	}
	if (a->side == GEN_IB || f->want.unchanged)
		return true;
	const uint8_t *end = a->payload + a->len - 4;
	uint32_t stored;
	memcpy(&stored, end, sizeof stored);
	return icrc(a->icrc, a->net, (uint32_t)(end - a->net)) == stored;
}

static bool right_place_ib(const struct arrival *a, const struct gen_want *w)
{
	const struct gen_private *p = rte_mbuf_to_priv(a->mbuf);
	const struct ib_send *s = &p->send;
	return memcmp(s->ah.dgid, w->addr, sizeof w->addr) == 0 && s->ah.dlid == w->lid && s->qp == w->src &&
	       s->dest_qpn == w->qpn && s->dest_qkey == w->qkey;
}

static bool right_place_roce(const struct arrival *a, const struct gen_want *w)
{
	const uint8_t *bth = a->net + (a->icrc == ICRC_IPV4 ? 28 : a->icrc == ICRC_IPV6 ? 48 : 40);
	const uint8_t *dst = a->icrc == ICRC_IPV4 ? a->net + 16 : a->net + 24;
	unsigned skip = a->icrc == ICRC_IPV4 ? 12 : 0; /* of an IPv4-mapped address */
	uint32_t qkey;
	memcpy(&qkey, bth + 12, sizeof qkey);
	return memcmp(a->frame, w->mac, sizeof w->mac) == 0 && memcmp(dst, w->addr + skip, 16 - skip) == 0 &&
	       be24(bth + 5) == w->qpn && be24(bth + 17) == w->src && __builtin_bswap32(qkey) == w->qkey;
}

static bool right_place(const struct arrival *a, const struct gen_flow *f)
{
	if (a->side != f->want.side)
		return false;
	if (f->want.unchanged)
		return true;
	return a->side == GEN_IB ? right_place_ib(a, &f->want) : right_place_roce(a, &f->want);
}

/* Records a sequence number; false: the message does not count as received. */
static bool in_order(struct gen_seen *s, uint64_t seq, struct gen_stats *t)
{
	if (likely(seq >= s->expect)) {
		uint64_t step = seq - s->expect + 1;
		s->window = (step < 64 ? s->window << step : 0) | 1;
		s->expect = seq + 1;
		return true;
	}
	uint64_t age = s->expect - 1 - seq;
	if (age >= 64) {
		t->stale++;
		return false;
	}
	if (s->window >> age & 1) {
		t->duplicates++;
		return false;
	}
	s->window |= (uint64_t)1 << age;
	t->reordered++;
	return true;
}

static void record(struct gen_stats *t, uint64_t latency)
{
	t->histogram[gen_bucket(latency)]++;
	t->latency_sum += latency;
	if (unlikely(latency > t->latency_max))
		t->latency_max = latency;
	if (unlikely(latency < t->latency_min || t->latency_min == 0))
		t->latency_min = latency;
}

static bool check_now(struct gen *g)
{
	if (g->check_every == 0 || ++g->since_check < g->check_every)
		return false;
	g->since_check = 0;
	return true;
}

/* Classifies a message that has a stamp. */
static void classify(struct gen *g, const struct arrival *a, const struct stamp *s, uint64_t now)
{
	const struct gen_flow *f = &g->flows[s->stream];
	struct gen_stats *t = &g->stats[f->from];
	if (unlikely(!right_place(a, f))) {
		t->misdelivered++;
		return;
	}
	if (unlikely(!right_length(a, f))) {
		t->corrupted++;
		return;
	}
	if (check_now(g)) {
		t->checked++;
		if (unlikely(!whole(a, f))) {
			t->corrupted++;
			return;
		}
	}
	struct gen_seen *seen = &g->seen[s->stream];
	if (unlikely(!in_order(seen, s->number, t)))
		return;
	if (unlikely(seen->packets++ == 0))
		seen->first = now;
	seen->last = now;
	t->received++;
	t->bytes += f->size->len;
	record(t, now - s->time);
}

static void take(struct gen *g, const struct arrival *a, uint64_t now)
{
	struct stamp s;
	if (unlikely(!stamp_get(a->payload, &s) || s.stream >= g->n_flows))
		g->foreign++;
	else if (unlikely(s.time < g->began))
		g->stray++;
	else
		classify(g, a, &s, now);
}

static void put_back(struct gen *g, struct rte_mbuf *m)
{
	if (likely(m->pool == g->pool && g->fifo_tail - g->fifo_head <= g->fifo_mask && m->nb_segs == 1))
		g->fifo[g->fifo_tail++ & g->fifo_mask] = m;
	else
		rte_pktmbuf_free(m);
}

enum { AHEAD = 8 };

static void prefetch(const struct rte_mbuf *m)
{
	rte_prefetch0(m);
	rte_prefetch0((const uint8_t *)m + sizeof *m);
}

unsigned gen_receive_roce(struct gen *g)
{
	struct rte_mbuf *m[GEN_BURST];
	unsigned n = g->roce_out              ? rte_ring_sc_dequeue_burst(g->roce_out, (void **)m, GEN_BURST, NULL)
		     : g->port != GEN_NO_PORT ? rte_eth_rx_burst(g->port, g->queue, m, GEN_BURST)
					      : 0;
	uint64_t now = rte_rdtsc();
	for (unsigned i = 0; i < n; i++)
		prefetch(m[i]);
	for (unsigned i = 0; i < n && i < AHEAD; i++)
		rte_prefetch0(rte_pktmbuf_mtod(m[i], void *));
	for (unsigned i = 0; i < n; i++) {
		struct arrival a = {.mbuf = m[i], .side = GEN_ROCE};
		if (i + AHEAD < n) {
			rte_prefetch0(rte_pktmbuf_mtod(m[i + AHEAD], uint8_t *));
			rte_prefetch0(rte_pktmbuf_mtod(m[i + AHEAD], uint8_t *) + RTE_CACHE_LINE_SIZE);
		}
		if (likely(is_roce(rte_pktmbuf_mtod(m[i], const uint8_t *), m[i]->data_len))) {
			if (likely(open_frame(&a)))
				take(g, &a, now);
			else
				g->foreign++;
		}
		put_back(g, m[i]);
	}
	return n;
}

unsigned gen_receive_ib(struct gen *g)
{
	struct rte_mbuf *m[GEN_BURST];
	unsigned n = g->ib_port ? rte_ring_sc_dequeue_burst(g->ib_port->posted, (void **)m, GEN_BURST, NULL) : 0;
	uint64_t now = rte_rdtsc();
	for (unsigned i = 0; i < n; i++)
		prefetch(m[i]);
	for (unsigned i = 0; i < n && i < AHEAD; i++)
		rte_prefetch0(rte_pktmbuf_mtod(m[i], void *));
	for (unsigned i = 0; i < n; i++) {
		struct arrival a = {.mbuf = m[i], .side = GEN_IB, .len = m[i]->data_len};
		if (i + AHEAD < n)
			rte_prefetch0(rte_pktmbuf_mtod(m[i + AHEAD], void *));
		a.payload = rte_pktmbuf_mtod(m[i], const uint8_t *);
		if (likely(a.len >= STAMP_LEN))
			take(g, &a, now);
		else
			g->foreign++;
		put_back(g, m[i]);
	}
	return n;
}

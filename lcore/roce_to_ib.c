/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ethernet to InfiniBand, in packet order:
 *
 *   take ▶ check_icrc ▶ check_transport ▶ choose ▶ post
 *
 * Look-ups go beside that: take begins them, and what they fetch comes while others are worked on.
 *
 * Every mbuf received here leaves by exactly one way: posted to the IB door (which frees it), handed to
 * management or to another worker, or dropped by name.
 */
#include <rte_ethdev.h>
#include <rte_prefetch.h>
#include <rte_ring.h>

#include "burst.h"
#include "egress.h"
#include "plain.h"
#include "send.h"
#include "turn_away.h"
#include "watch.h"

/* Management takes what is not RoCE data; when it does not keep up, the frame dies here. */
static void hand_to_management(struct worker *w, struct rte_mbuf *m)
{
	m->hash.usr = ODD_CONTROL;
	w->counters.odd.received++;
	if (give_to_management(w, SIGHT_MANAGEMENT, PASS, m)) {
		w->counters.odd.handed++;
		return;
	}
	w->counters.odd.full++;
	rte_pktmbuf_free(m);
}

/* A datagram for the bridge's own services. It gets half of the ring, so that a flood of them leaves the other half to
 * ARP and to new stand-ins. */
static void serve(struct worker *w, struct rte_mbuf *m)
{
	m->hash.usr = ODD_MAD;
	if (rte_ring_count(w->odd) >= rte_ring_get_capacity(w->odd) / 2 ||
	    !give_to_management(w, SIGHT_MANAGEMENT, DROP_mad_served, m))
		drop_packet(w, ROCE_TO_IB, DROP_odd_full, m);
	else
		w->counters.direction[ROCE_TO_IB].drops[DROP_mad_served]++;
}

/* Fetches a frame's headers and the payload behind them, whose mbuf has been fetched before. */
static inline void prefetch_frame(const struct rte_mbuf *m)
{
	const uint8_t *p = rte_pktmbuf_mtod(m, const uint8_t *);
	rte_prefetch0(p);
	rte_prefetch0(p + RTE_CACHE_LINE_SIZE);
	rte_prefetch0(p + 2 * RTE_CACHE_LINE_SIZE);
}

/* Moves a packet to a lower place, when packets before it have left. */
static void move(struct burst *b, unsigned to, unsigned from)
{
	b->send[to] = b->send[from];
	b->cut[to] = b->cut[from];
	b->icrc[to] = b->icrc[from];
	lookup_move(&b->lookup, to, from);
	if (!b->cut[from].plain)
		b->other[to] = b->other[from];
}

/* A frame that is not plain takes its place, up to the transport. Returns as parse does. */
static unsigned place_other(const struct bench *bench, struct burst *b, unsigned i, struct rte_mbuf *m)
{
	struct packet *p = &b->other[i];
	unsigned result = parse(bench, m, p, &b->icrc[i]);
	if (unlikely(result != PASS))
		return result;
	b->cut[i].plain = false;
	b->send[i].mbuf = m;
	b->lookup.from[i] = p->from;
	b->lookup.to[i] = p->to;
	b->lookup.to_group[i] = p->multicast;
	return PASS;
}

/* Whether it stays in the burst. */
static __rte_noinline bool take_other(struct worker *w, struct burst *b, unsigned i, struct rte_mbuf *m)
{
	struct direction_counters *c = &w->counters.direction[ROCE_TO_IB];
	unsigned result = place_other(w->bench, b, i, m);
	if (unlikely(result == ODD)) {
		hand_to_management(w, m);
		return false;
	}
	COUNT(c->received, 1);
	if (unlikely(result != PASS))
		drop_packet(w, ROCE_TO_IB, result, m);
	return result == PASS;
}

static void clear(const struct tables *t, struct burst *b)
{
	b->lookup.from_table = &t->standins;
	b->lookup.to_table = &t->nodes;
	b->lookup.to_group_table = &t->groups;
	b->lookup.groups = 0;
	b->aside.n = 0;
	b->n = 0;
}

/* How far ahead of its turn a frame is fetched, and its mbuf, which says where it lies. */
enum { MBUFS_AHEAD = 16, FRAMES_AHEAD = 8 };

/* Parses n frames into the burst. There is room behind them for as many more as are fetched ahead. */
static void take(struct worker *w, struct burst *b, struct rte_mbuf **m, unsigned n)
{
	clear(w->bench->tables, b);
	for (unsigned i = n; i < n + MBUFS_AHEAD; i++)
		m[i] = m[n - 1];
	for (unsigned i = 0; i < MBUFS_AHEAD; i++)
		rte_prefetch0(m[i]);
	for (unsigned i = 0; i < FRAMES_AHEAD; i++)
		prefetch_frame(m[i]);
	unsigned kept = 0, plains = 0;
	for (unsigned i = 0; i < n; i++) {
		rte_prefetch0(m[i + MBUFS_AHEAD]);
		prefetch_frame(m[i + FRAMES_AHEAD]);
		if (likely(plain(w->bench, m[i], b, kept)))
			plains++;
		else if (!take_other(w, b, kept, m[i]))
			continue;
		b->lookup.groups += b->lookup.to_group[kept];
		kept++;
	}
	b->n = kept;
	b->plain = plains == kept;
	COUNT(w->counters.direction[ROCE_TO_IB].received, plains);
}

/* All of a burst at once: short packets wait for each other's multiplications less than for their own. */
static void check_icrc(struct worker *w, struct burst *b)
{
	uint32_t right[BURST];
	icrc_burst(b->icrc, b->n, right);
	unsigned kept = 0;
	for (unsigned i = 0; i < b->n; i++) {
		if (unlikely(right[i] != load32(b->icrc[i].p + b->icrc[i].len))) {
			drop_packet(w, ROCE_TO_IB, name_drop(w->bench, b, i, DROP_icrc), b->send[i].mbuf);
			continue;
		}
		if (unlikely(kept != i))
			move(b, kept, i);
		kept++;
	}
	b->n = kept;
}

/* The transport of a packet that is not plain, which then is as if it were. */
static enum drop place_transport(struct worker *w, struct burst *b, unsigned i, bool again)
{
	struct packet *p = &b->other[i];
	struct ib_send *s = &b->send[i];
	enum drop d = transport(w->bench, p);
	if (unlikely(d))
		return d;
	if (!again)
		take_notes(w, p);
	s->ah.tclass = p->tclass;
	s->ah.hop_limit = p->hop_limit;
	s->ah.flow_label = p->flow_label;
	s->dest_qpn = p->dest_qpn;
	s->dest_qkey = p->qkey;
	s->imm = p->imm;
	s->flags = p->flags;
	b->cut[i].headers = (uint16_t)(p->payload - rte_pktmbuf_mtod(p->mbuf, const uint8_t *));
	b->cut[i].payload_len = p->payload_len;
	return PASS;
}

static __rte_noinline void check_transport(struct worker *w, struct burst *b, bool again)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < b->n; i++) {
		enum drop d = b->cut[i].plain ? PASS : place_transport(w, b, i, again);
		if (unlikely(d == DROP_mad_served)) {
			serve(w, b->send[i].mbuf);
			continue;
		}
		if (unlikely(d)) {
			drop_packet(w, ROCE_TO_IB, d, b->send[i].mbuf);
			continue;
		}
		if (unlikely(kept != i))
			move(b, kept, i);
		kept++;
	}
	b->n = kept;
}

static inline enum drop check_group(const struct burst *b, unsigned i, const struct group_entry *g)
{
	if (unlikely(!g))
		return DROP_mc_unknown;
	if (unlikely(!(g->flags & GROUP_TO_IB)))
		return DROP_mc_direction;
	if (unlikely(b->send[i].dest_qkey != g->roce_qkey))
		return DROP_qkey;
	return unlikely(b->cut[i].payload_len > g->mtu) ? DROP_mtu_exceeded : PASS;
}

static inline enum drop check_node(const struct bench *bench, const struct burst *b, unsigned i,
				   const struct node_entry *n)
{
	if (unlikely(!n))
		return DROP_node_unknown;
	return unlikely(b->cut[i].payload_len > bench->ib_mtu) ? DROP_mtu_exceeded : PASS;
}

static inline enum drop watch_group(struct worker *w, const struct group_entry *g, const struct burst *b, unsigned i)
{
	const struct cut *cut = &b->cut[i];
	return watch(w, g->flags, g->id, ROCE_TO_IB,
		     rte_pktmbuf_mtod_offset(b->send[i].mbuf, const uint8_t *, cut->headers), cut->payload_len);
}

/* Keeps the packets that this worker sends. */
static void choose(struct worker *w, struct burst *b, bool again)
{
	unsigned kept = 0, congested = 0;
	for (unsigned i = 0; i < b->n; i++) {
		const struct standin_entry *standin = lookup_from(&b->lookup, i);
		const void *to = lookup_to(&b->lookup, i);
		bool group = b->lookup.to_group[i];
		b->lookup.from_entry[i] = standin;
		b->lookup.to_entry[i] = to;
		congested += b->cut[i].plain & !again & (b->send[i].flags >> 3);
		enum drop d = group ? check_group(b, i, to) : check_node(w->bench, b, i, to);
		bool mine = standin && standin->worker == w->id;
		if (likely(!d && mine) && group)
			d = watch_group(w, to, b, i);
		if (unlikely(d || !mine)) {
			turn_away(w, b, i, d, again);
			continue;
		}
		if (unlikely(kept != i))
			move(b, kept, i);
		kept++;
	}
	b->n = kept;
	if (unlikely(b->aside.n))
		hand_over(w, &b->aside);
	COUNT(w->counters.direction[ROCE_TO_IB].notes[NOTE_ECN_CE], congested);
}

static void count_groups(struct worker *w, const struct burst *b, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (!b->lookup.to_group[i])
			continue;
		struct group_counters *c = &w->groups[((const struct group_entry *)b->lookup.to_entry[i])->id];
		COUNT(c->packets[ROCE_TO_IB], 1);
		COUNT(c->bytes[ROCE_TO_IB], b->cut[i].payload_len);
	}
}

static void read_stamps(const struct burst *b, uint32_t *stamp)
{
	for (unsigned i = 0; i < b->n; i++)
		stamp[i] = b->send[i].mbuf->hash.fdir.hi;
}

static void post(struct worker *w, struct burst *b)
{
	struct direction_counters *c = &w->counters.direction[ROCE_TO_IB];
	uint64_t bytes = 0;
	uint32_t stamp[BURST];
	for (unsigned i = 0; i < b->n; i++) {
		fill_send(w->bench, b, i);
		bytes += b->cut[i].payload_len;
	}
	if (unlikely(b->began == LATENCY_WAITED))
		read_stamps(b, stamp);
	if (watched(w))
		sight_stage_sends(w, b);
	unsigned taken = w->door->post(w->door->self, b->send, b->n);
	if (watched(w))
		sight_taken(w, taken);
	if (unlikely(b->began == LATENCY_WAITED))
		latency_waited(&w->latency[ROCE_TO_IB], stamp, taken);
	else
		latency_end(&w->latency[ROCE_TO_IB], b->began, taken);
	for (unsigned i = taken; i < b->n; i++) {
		bytes -= b->cut[i].payload_len;
		uncut(b, i);
		drop_packet(w, ROCE_TO_IB, DROP_ib_full, b->send[i].mbuf);
	}
	COUNT(c->sent, taken);
	COUNT(c->sent_bytes, bytes);
	if (b->lookup.groups)
		count_groups(w, b, taken);
}

/* Whom each packet is from and for; then where it goes. */
static void look_up_and_post(struct worker *w, struct burst *b, bool again)
{
	lookup_guess(&b->lookup, b->n);
	if (unlikely(!b->plain))
		check_transport(w, b, again);
	choose(w, b, again);
	if (b->n)
		post(w, b);
}

unsigned roce_to_ib(struct worker *w)
{
	struct rte_mbuf *m[BURST + MBUFS_AHEAD];
	struct burst b;
	unsigned n = likely(!w->inject[ROCE_TO_IB].live) ? rte_eth_rx_burst(w->port, w->queue, m, BURST)
							 : inject_frames(w, m);
	if (n == 0)
		return w->inject[ROCE_TO_IB].taken;
	b.began = latency_begin(&w->latency[ROCE_TO_IB]);
	if (watched(w))
		sight_frames(w, m, n);
	take(w, &b, m, n);
	lookup_begin(&b.lookup, b.n);
	check_icrc(w, &b);
	look_up_and_post(w, &b, false);
	return n;
}

/* These frames were counted as received, and their ICRC found right, when they came in. */
unsigned roce_to_ib_again(struct worker *w)
{
	struct rte_mbuf *m[BURST];
	struct burst b;
	unsigned n = rte_ring_sc_dequeue_burst(w->again, (void **)m, BURST, NULL), plains = 0;
	if (n == 0)
		return 0;
	clear(w->bench->tables, &b);
	b.began = LATENCY_WAITED;
	for (unsigned i = 0; i < n; i++) {
		unsigned result = PASS;
		if (likely(plain(w->bench, m[i], &b, b.n)))
			plains++;
		else
			result = place_other(w->bench, &b, b.n, m[i]);
		if (unlikely(result != PASS)) {
			drop_packet(w, ROCE_TO_IB, result, m[i]);
			continue;
		}
		b.lookup.groups += b.lookup.to_group[b.n];
		b.n++;
	}
	b.plain = plains == b.n;
	lookup_begin(&b.lookup, b.n);
	look_up_and_post(w, &b, true);
	return n;
}

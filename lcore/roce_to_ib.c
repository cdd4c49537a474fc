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
#include "police.h"
#include "send.h"

/* Management takes what is not RoCE data; when it does not keep up, the frame dies here. */
static void hand_to_management(struct worker *w, struct rte_mbuf *m)
{
	m->hash.usr = ODD_CONTROL;
	w->counters.odd.received++;
	if (rte_ring_sp_enqueue(w->odd, m) == 0) {
		w->counters.odd.handed++;
		return;
	}
	w->counters.odd.full++;
	rte_pktmbuf_free(m);
}

/* Fetches a frame's headers and the payload behind them, whose mbuf has been fetched before. */
static inline void prefetch_frame(const struct rte_mbuf *m)
{
	const uint8_t *p = rte_pktmbuf_mtod(m, const uint8_t *);
	rte_prefetch0(p);
	rte_prefetch0(p + RTE_CACHE_LINE_SIZE);
	rte_prefetch0(p + 2 * RTE_CACHE_LINE_SIZE);
}

/* Where the packet finds its destination. */
static inline const struct table *destinations(const struct tables *t, const struct packet *p)
{
	return p->multicast ? &t->groups : &t->nodes;
}

static void look_up_begin(const struct tables *t, struct burst *b)
{
	for (unsigned i = 0; i < b->n; i++)
		table_begin(&t->standins, &b->packet[i].from, &b->from[i]);
	if (likely(b->multicasts == 0)) {
		for (unsigned i = 0; i < b->n; i++)
			table_begin(&t->nodes, &b->packet[i].to, &b->to[i]);
		return;
	}
	for (unsigned i = 0; i < b->n; i++)
		table_begin(destinations(t, &b->packet[i]), &b->packet[i].to, &b->to[i]);
}

static void look_up_guess(const struct tables *t, struct burst *b)
{
	for (unsigned i = 0; i < b->n; i++)
		b->packet[i].standin = table_guess(&t->standins, &b->from[i]);
	if (likely(b->multicasts == 0)) {
		for (unsigned i = 0; i < b->n; i++)
			b->packet[i].found = table_guess(&t->nodes, &b->to[i]);
		return;
	}
	for (unsigned i = 0; i < b->n; i++)
		b->packet[i].found = table_guess(destinations(t, &b->packet[i]), &b->to[i]);
}

static inline void look_up_settle(const struct tables *t, struct burst *b, unsigned i)
{
	struct packet *p = &b->packet[i];
	p->standin = table_settle(&t->standins, &p->from, &b->from[i], p->standin);
	p->found = table_settle(destinations(t, p), &p->to, &b->to[i], p->found);
}

/* Moves a packet to a lower place, when packets before it have left. */
static void move(struct burst *b, unsigned to, unsigned from)
{
	b->packet[to] = b->packet[from];
	b->icrc[to] = b->icrc[from];
	b->from[to] = b->from[from];
	b->to[to] = b->to[from];
}

/* A frame that is not plain; whether it stays in the burst. */
static __rte_noinline bool take_other(struct worker *w, struct rte_mbuf *m, struct packet *p, struct icrc_job *icrc)
{
	struct direction_counters *c = &w->counters.direction[ROCE_TO_IB];
	unsigned result = parse(w->bench, m, p, icrc);
	if (unlikely(result == ODD)) {
		hand_to_management(w, m);
		return false;
	}
	c->received++;
	if (unlikely(result != PASS))
		drop_packet(w, ROCE_TO_IB, result, m);
	return result == PASS;
}

/* Parses n frames into the burst. */
static void take(struct worker *w, struct burst *b, struct rte_mbuf **m, unsigned n)
{
	enum { MBUFS_AHEAD = 16, FRAMES_AHEAD = 8 };
	for (unsigned i = 0; i < n && i < MBUFS_AHEAD; i++)
		rte_prefetch0(m[i]);
	for (unsigned i = 0; i < n && i < FRAMES_AHEAD; i++)
		prefetch_frame(m[i]);
	unsigned kept = 0, plains = 0, multicasts = 0;
	for (unsigned i = 0; i < n; i++) {
		if (i + MBUFS_AHEAD < n)
			rte_prefetch0(m[i + MBUFS_AHEAD]);
		if (i + FRAMES_AHEAD < n)
			prefetch_frame(m[i + FRAMES_AHEAD]);
		struct packet *p = &b->packet[kept];
		if (likely(plain(w->bench, m[i], p, &b->icrc[kept])))
			plains++;
		else if (!take_other(w, m[i], p, &b->icrc[kept]))
			continue;
		multicasts += p->multicast;
		kept++;
	}
	b->n = kept;
	b->multicasts = multicasts;
	b->plain = plains == kept;
	w->counters.direction[ROCE_TO_IB].received += plains;
}

/* A packet is about to be dropped. If it is a plain one, the long way may find something wrong that comes before that.
 */
static __rte_noinline enum drop name_drop(const struct bench *b, struct packet *p, enum drop reason)
{
	if (p->plain) {
		struct icrc_job icrc;
		enum drop d = parse(b, p->mbuf, p, &icrc);
		if (d == PASS && reason != DROP_icrc)
			d = transport(b, p);
		if (d != PASS)
			return d;
	}
	return reason == DROP_mc_unknown && p->control_group ? DROP_mc_control : reason;
}

/* All of a burst at once: short packets wait for each other's multiplications less than for their own. */
static void check_icrc(struct worker *w, struct burst *b)
{
	uint32_t right[BURST];
	icrc_burst(b->icrc, b->n, right);
	unsigned kept = 0;
	for (unsigned i = 0; i < b->n; i++) {
		uint32_t stored;
		memcpy(&stored, b->icrc[i].p + b->icrc[i].len, sizeof stored);
		if (unlikely(right[i] != stored)) {
			drop_packet(w, ROCE_TO_IB, name_drop(w->bench, &b->packet[i], DROP_icrc), b->packet[i].mbuf);
			continue;
		}
		if (unlikely(kept != i))
			move(b, kept, i);
		kept++;
	}
	b->n = kept;
}

/* Those that are not plain. */
static __rte_noinline void check_transport(struct worker *w, struct burst *b, bool again)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < b->n; i++) {
		struct packet *p = &b->packet[i];
		enum drop d = p->plain ? PASS : transport(w->bench, p);
		if (unlikely(d)) {
			drop_packet(w, ROCE_TO_IB, d, p->mbuf);
			continue;
		}
		if (!again && !p->plain)
			take_notes(w, p);
		if (unlikely(kept != i))
			move(b, kept, i);
		kept++;
	}
	b->n = kept;
}

static enum drop check_group(const struct packet *p, const struct group_entry *g)
{
	if (unlikely(!g))
		return DROP_mc_unknown;
	if (unlikely(!(g->flags & GROUP_TO_IB)))
		return DROP_mc_direction;
	if (unlikely(p->qkey != g->roce_qkey))
		return DROP_qkey;
	return unlikely(p->payload_len > g->mtu) ? DROP_mtu_exceeded : PASS;
}

static enum drop check_node(const struct worker *w, const struct packet *p, const struct node_entry *n)
{
	if (unlikely(!n))
		return DROP_node_unknown;
	return unlikely(p->payload_len > w->bench->ib_mtu) ? DROP_mtu_exceeded : PASS;
}

/* IPv4's prefixes are 96 bits or longer here: a shorter one is IPv6's, and so holds no IPv4 address. */
static bool in_prefix(const struct prefix *f, const uint8_t *addr)
{
	unsigned whole = f->len / 8, rest = f->len % 8;
	if (f->len < 96 && is_ipv4(addr))
		return false;
	if (memcmp(f->addr, addr, whole) != 0)
		return false;
	return rest == 0 || ((f->addr[whole] ^ addr[whole]) >> (8 - rest)) == 0;
}

/* A source that has no stand-in yet: may it have one? */
static enum drop check_new_source(const struct worker *w, struct table_key k)
{
	const struct bench *b = w->bench;
	k.number = 0;
	if (table_find(&b->tables->nodes, table_hash(&b->tables->nodes, &k), &k))
		return DROP_loop_bridge; /* an IB node's address on Ethernet: a bridge wrote this */
	for (unsigned i = 0; i < b->prefixes; i++)
		if (in_prefix(&b->allow[i], k.addr))
			return PASS;
	return DROP_acl;
}

/* A packet that this worker cannot send: its stand-in is missing, or another worker's.
 * Returns PASS when somebody else owns the packet now. */
static enum drop pass_on(struct worker *w, struct burst *b, unsigned i, bool again)
{
	struct direction_counters *c = &w->counters.direction[ROCE_TO_IB];
	const struct standin_entry *standin = b->packet[i].standin;
	struct rte_mbuf *m = b->packet[i].mbuf;
	if (standin) {
		if (rte_ring_mp_enqueue(w->bench->again[standin->worker], m) != 0)
			return DROP_peer_full;
		c->notes[NOTE_HANDED_OVER]++;
		return PASS;
	}
	if (again)
		return DROP_standin_unknown;
	enum drop d = check_new_source(w, b->packet[i].from);
	if (d)
		return d;
	m->hash.usr = ODD_STANDIN;
	if (rte_ring_sp_enqueue(w->odd, m) != 0)
		return DROP_odd_full;
	c->notes[NOTE_STANDIN_WAIT]++;
	return PASS;
}

static enum drop check_rate(struct worker *w, const struct group_entry *g)
{
	return unlikely(g->flags & GROUP_POLICED) && !police(w, g->id, ROCE_TO_IB) ? DROP_policed : PASS;
}

/* Keeps the packets that this worker sends. */
static void choose(struct worker *w, struct burst *b, bool again)
{
	unsigned kept = 0, congested = 0;
	for (unsigned i = 0; i < b->n; i++) {
		look_up_settle(w->bench->tables, b, i);
		const struct packet *p = &b->packet[i];
		congested += p->plain & (p->flags >> 3);
		const struct standin_entry *standin = p->standin;
		enum drop d = p->multicast ? check_group(p, p->found) : check_node(w, p, p->found);
		bool mine = standin && standin->worker == w->id;
		if (likely(!d && mine) && p->multicast)
			d = check_rate(w, p->found);
		if (likely(!d && mine)) {
			if (unlikely(kept != i))
				move(b, kept, i);
			kept++;
			continue;
		}
		if (d || !standin)
			d = name_drop(w->bench, &b->packet[i], d);
		if (!d)
			d = pass_on(w, b, i, again);
		if (d)
			drop_packet(w, ROCE_TO_IB, d, p->mbuf);
	}
	b->n = kept;
	w->counters.direction[ROCE_TO_IB].notes[NOTE_ECN_CE] += congested;
}

static void count_group(struct worker *w, const struct group_entry *g, uint32_t bytes)
{
	struct group_counters *c = &w->groups[g->id];
	c->packets[ROCE_TO_IB]++;
	c->bytes[ROCE_TO_IB] += bytes;
}

static void count_sent(struct worker *w, const struct burst *b, unsigned n)
{
	struct direction_counters *c = &w->counters.direction[ROCE_TO_IB];
	uint64_t bytes = 0;
	for (unsigned i = 0; i < n; i++) {
		const struct packet *p = &b->packet[i];
		bytes += p->payload_len;
		if (p->multicast && w->groups)
			count_group(w, p->found, p->payload_len);
	}
	c->sent += n;
	c->sent_bytes += bytes;
}

static void post(struct worker *w, struct burst *b)
{
	struct ib_send sends[BURST];
	for (unsigned i = 0; i < b->n; i++)
		fill_send(w, &b->packet[i], &sends[i]);
	unsigned taken = w->door->post(w->door->self, sends, b->n);
	count_sent(w, b, taken);
	for (unsigned i = taken; i < b->n; i++)
		drop_packet(w, ROCE_TO_IB, DROP_ib_full, b->packet[i].mbuf);
}

/* Whom each packet is from and for; then where it goes. */
static void look_up_and_post(struct worker *w, struct burst *b, bool again)
{
	look_up_guess(w->bench->tables, b);
	if (unlikely(!b->plain))
		check_transport(w, b, again);
	choose(w, b, again);
	if (b->n)
		post(w, b);
}

unsigned roce_to_ib(struct worker *w)
{
	struct rte_mbuf *m[BURST];
	struct burst b;
	unsigned n = rte_eth_rx_burst(w->port, w->queue, m, BURST);
	if (n == 0)
		return 0;
	take(w, &b, m, n);
	look_up_begin(w->bench->tables, &b);
	check_icrc(w, &b);
	look_up_and_post(w, &b, false);
	return n;
}

/* These frames were counted as received, and their ICRC found right, when they came in. */
unsigned roce_to_ib_again(struct worker *w)
{
	struct rte_mbuf *m[BURST];
	struct burst b;
	unsigned n = rte_ring_sc_dequeue_burst(w->again, (void **)m, BURST, NULL);
	b.n = b.multicasts = 0;
	b.plain = false;
	for (unsigned i = 0; i < n; i++) {
		unsigned result = parse(w->bench, m[i], &b.packet[b.n], &b.icrc[b.n]);
		if (unlikely(result != PASS)) {
			drop_packet(w, ROCE_TO_IB, result, m[i]);
			continue;
		}
		b.multicasts += b.packet[b.n].multicast;
		b.n++;
	}
	look_up_begin(w->bench->tables, &b);
	look_up_and_post(w, &b, true);
	return n;
}

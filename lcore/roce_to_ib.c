/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ethernet to InfiniBand, in packet order:
 *
 *   take ▶ check_icrc ▶ check_transport ▶ look_up ▶ choose ▶ post
 *
 * Every mbuf received here leaves by exactly one way: posted to the IB door (which frees it), handed to
 * management or to another worker, or dropped by name.
 */
#include <rte_ethdev.h>
#include <rte_prefetch.h>
#include <rte_ring.h>

#include "burst.h"
#include "egress.h"

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

/* Parses n frames into the burst. */
static void take(struct worker *w, struct burst *b, struct rte_mbuf **m, unsigned n)
{
	struct direction_counters *c = &w->counters.direction[ROCE_TO_IB];
	enum { MBUFS_AHEAD = 16, FRAMES_AHEAD = 8 };
	for (unsigned i = 0; i < n && i < MBUFS_AHEAD; i++)
		rte_prefetch0(m[i]);
	for (unsigned i = 0; i < n && i < FRAMES_AHEAD; i++)
		prefetch_frame(m[i]);
	b->n = 0;
	for (unsigned i = 0; i < n; i++) {
		if (i + MBUFS_AHEAD < n)
			rte_prefetch0(m[i + MBUFS_AHEAD]);
		if (i + FRAMES_AHEAD < n)
			prefetch_frame(m[i + FRAMES_AHEAD]);
		unsigned result = parse(w->bench, m[i], &b->packet[b->n]);
		if (unlikely(result == ODD)) {
			hand_to_management(w, m[i]);
			continue;
		}
		c->received++;
		if (unlikely(result != PASS))
			drop_packet(w, ROCE_TO_IB, result, m[i]);
		else
			b->n++;
	}
}

/* All of a burst at once: short packets wait for each other's multiplications less than for their own. */
static void check_icrc(struct worker *w, struct burst *b)
{
	struct icrc_job jobs[BURST];
	uint32_t right[BURST];
	for (unsigned i = 0; i < b->n; i++) {
		const struct packet *p = &b->packet[i];
		jobs[i] = (struct icrc_job){.p = p->net, .len = p->net_len, .kind = p->kind};
	}
	icrc_burst(jobs, b->n, right);
	unsigned kept = 0;
	for (unsigned i = 0; i < b->n; i++) {
		struct packet *p = &b->packet[i];
		uint32_t stored;
		memcpy(&stored, p->net + p->net_len, sizeof stored);
		if (unlikely(right[i] != stored)) {
			drop_packet(w, ROCE_TO_IB, DROP_icrc, p->mbuf);
			continue;
		}
		if (unlikely(kept != i))
			b->packet[kept] = *p;
		kept++;
	}
	b->n = kept;
}

static void check_transport(struct worker *w, struct burst *b, bool again)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < b->n; i++) {
		struct packet *p = &b->packet[i];
		enum drop d = transport(w->bench, p);
		if (unlikely(d)) {
			drop_packet(w, ROCE_TO_IB, d, p->mbuf);
			continue;
		}
		if (likely(!again))
			take_notes(w, p);
		if (unlikely(kept != i))
			b->packet[kept] = *p;
		kept++;
	}
	b->n = kept;
}

/* Finds the destinations of those packets that go to a group, or of the others. */
static void look_up_some(const struct table *t, struct burst *b, bool multicast)
{
	struct table_key keys[BURST];
	const void *found[BURST];
	unsigned n = 0;
	for (unsigned i = 0; i < b->n; i++)
		if (b->packet[i].multicast == multicast)
			keys[n++] = b->packet[i].dst;
	if (n == 0)
		return;
	table_find_bulk(t, keys, n, found);
	n = 0;
	for (unsigned i = 0; i < b->n; i++)
		if (b->packet[i].multicast == multicast)
			b->packet[i].to = found[n++];
}

/* Finds stand-in and destination of every packet. */
static void look_up(struct worker *w, struct burst *b)
{
	const struct tables *t = w->bench->tables;
	struct table_key keys[BURST];
	const void *found[BURST];
	for (unsigned i = 0; i < b->n; i++) {
		keys[i] = b->packet[i].src;
		keys[i].number = b->packet[i].src_qpn;
	}
	table_find_bulk(&t->standins, keys, b->n, found);
	for (unsigned i = 0; i < b->n; i++)
		b->packet[i].standin = found[i];
	look_up_some(&t->nodes, b, false);
	look_up_some(&t->groups, b, true);
}

static enum drop check_group(const struct packet *p)
{
	const struct group_entry *g = p->to;
	if (unlikely(!g))
		return p->control_group ? DROP_mc_control : DROP_mc_unknown;
	if (unlikely(!(g->flags & GROUP_TO_IB)))
		return DROP_mc_direction;
	if (unlikely(p->qkey != g->roce_qkey))
		return DROP_qkey;
	return unlikely(p->payload_len > g->mtu) ? DROP_mtu_exceeded : PASS;
}

static enum drop check_node(const struct worker *w, const struct packet *p)
{
	if (unlikely(!p->to))
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
static enum drop check_new_source(const struct worker *w, const struct packet *p)
{
	const struct bench *b = w->bench;
	struct table_key k = p->src;
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
static enum drop pass_on(struct worker *w, const struct packet *p, bool again)
{
	struct direction_counters *c = &w->counters.direction[ROCE_TO_IB];
	if (p->standin) {
		if (rte_ring_mp_enqueue(w->bench->again[p->standin->worker], p->mbuf) != 0)
			return DROP_peer_full;
		c->notes[NOTE_HANDED_OVER]++;
		return PASS;
	}
	if (again)
		return DROP_standin_unknown;
	enum drop d = check_new_source(w, p);
	if (d)
		return d;
	p->mbuf->hash.usr = ODD_STANDIN;
	if (rte_ring_sp_enqueue(w->odd, p->mbuf) != 0)
		return DROP_odd_full;
	c->notes[NOTE_STANDIN_WAIT]++;
	return PASS;
}

/* Keeps the packets that this worker sends. */
static void choose(struct worker *w, struct burst *b, bool again)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < b->n; i++) {
		struct packet *p = &b->packet[i];
		enum drop d = p->multicast ? check_group(p) : check_node(w, p);
		bool mine = p->standin && p->standin->worker == w->id;
		if (likely(!d && mine)) {
			if (unlikely(kept != i))
				b->packet[kept] = *p;
			kept++;
			continue;
		}
		if (!d)
			d = pass_on(w, p, again);
		if (d)
			drop_packet(w, ROCE_TO_IB, d, p->mbuf);
	}
	b->n = kept;
}

static void address_group(struct ib_ah *ah, const struct group_entry *g)
{
	memcpy(ah->dgid, g->mgid, 16);
	ah->dlid = g->mlid;
	ah->sl = g->sl; /* the group's record rules, not the frame */
	ah->hop_limit = g->hop_limit;
}

static void address_node(struct ib_ah *ah, const struct node_entry *n, const struct packet *p, uint8_t asked_sl)
{
	memcpy(ah->dgid, n->gid, 16);
	ah->dlid = n->lid;
	ah->sl = asked_sl ? asked_sl : n->sl;
	ah->hop_limit = p->hop_limit ? p->hop_limit - 1 : 0; /* 0: a GRH of RoCEv1, which means this subnet only */
}

/* Cuts the mbuf down to its payload and says where it goes. */
static void fill_send(const struct worker *w, const struct packet *p, struct ib_send *s)
{
	const struct bench *b = w->bench;
	struct rte_mbuf *m = p->mbuf;
	m->data_off = (uint16_t)(p->payload - (const uint8_t *)m->buf_addr);
	m->data_len = p->payload_len;
	m->pkt_len = p->payload_len;
	s->mbuf = m;
	s->qp = p->standin->qp;
	s->dest_qpn = p->dest_qpn;
	s->imm = p->imm;
	s->flags = p->flags;
	s->pkey_index = b->pkey_index;
	s->ah.tclass = p->tclass;
	s->ah.flow_label = p->flow_label;
	s->ah.source = p->standin->source;
	table_mark_used(&p->standin->used);
	bool rewrite;
	if (p->multicast) {
		const struct group_entry *g = p->to;
		address_group(&s->ah, g);
		s->dest_qkey = g->qkey;
		s->flags |= IB_SEND_GRH;
		rewrite = g->flags & GROUP_REWRITE_IMM;
	} else {
		const struct node_entry *n = p->to;
		address_node(&s->ah, n, p, b->sl_of_dscp[p->tclass >> 2]);
		s->dest_qkey = p->qkey;
		if (n->flags & NODE_GRH)
			s->flags |= IB_SEND_GRH;
		rewrite = b->rewrite_imm;
	}
	if (rewrite && (p->flags & IB_SEND_IMM) && p->imm == p->src_qpn)
		s->imm = p->standin->qpn;
}

static void count_sent(struct worker *w, const struct packet *p)
{
	struct direction_counters *c = &w->counters.direction[ROCE_TO_IB];
	c->sent++;
	c->sent_bytes += p->payload_len;
	if (p->multicast && w->groups) {
		struct group_counters *g = &w->groups[((const struct group_entry *)p->to)->id];
		g->packets[ROCE_TO_IB]++;
		g->bytes[ROCE_TO_IB] += p->payload_len;
	}
}

static void post(struct worker *w, struct burst *b)
{
	struct ib_send sends[BURST];
	for (unsigned i = 0; i < b->n; i++)
		fill_send(w, &b->packet[i], &sends[i]);
	unsigned taken = w->door->post(w->door->self, sends, b->n);
	for (unsigned i = 0; i < taken; i++)
		count_sent(w, &b->packet[i]);
	for (unsigned i = taken; i < b->n; i++)
		drop_packet(w, ROCE_TO_IB, DROP_ib_full, b->packet[i].mbuf);
}

unsigned roce_to_ib(struct worker *w)
{
	struct rte_mbuf *m[BURST];
	struct burst b;
	unsigned n = rte_eth_rx_burst(w->port, w->queue, m, BURST);
	if (n == 0)
		return 0;
	take(w, &b, m, n);
	check_icrc(w, &b);
	check_transport(w, &b, false);
	look_up(w, &b);
	choose(w, &b, false);
	if (b.n)
		post(w, &b);
	return n;
}

/* These frames were counted as received, and their ICRC found right, when they came in. */
unsigned roce_to_ib_again(struct worker *w)
{
	struct rte_mbuf *m[BURST];
	struct burst b;
	unsigned n = rte_ring_sc_dequeue_burst(w->again, (void **)m, BURST, NULL);
	b.n = 0;
	for (unsigned i = 0; i < n; i++) {
		unsigned result = parse(w->bench, m[i], &b.packet[b.n]);
		if (likely(result == PASS))
			b.n++;
		else
			drop_packet(w, ROCE_TO_IB, result, m[i]);
	}
	if (b.n == 0)
		return n;
	check_transport(w, &b, true);
	look_up(w, &b);
	choose(w, &b, true);
	if (b.n)
		post(w, &b);
	return n;
}

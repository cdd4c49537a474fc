/* SPDX-License-Identifier: Apache-2.0 */
/*
 * InfiniBand to Ethernet, in packet order:
 *
 *   poll ▶ take ▶ route ▶ write_icrcs ▶ transmit
 *
 * Look-ups go beside that: take begins them, and what they fetch comes while others are worked on.
 *
 * Every mbuf received here leaves by exactly one way: taken by the Ethernet port, or dropped by name.
 */
#include <rte_ethdev.h>
#include <rte_prefetch.h>

#include "headers.h"
#include "watch.h"

/* As drop_packet(), where there is more to see than the mbuf. */
static void drop_message(struct worker *w, enum drop reason, const struct ib_recv *r)
{
	w->counters.direction[IB_TO_ROCE].drops[reason]++;
	if (watched(w))
		sight_drop_message(w, reason, r);
	rte_pktmbuf_free(r->mbuf);
}

/* Says where in the 40-byte area the network header lies, or that there is none to be found.
 * On an Ethernet link layer an IPv4 header lies in the last 20 bytes, and the first 20 are undefined: the
 * rule for telling is the one of libibverbs (get_grh_header_version). */
static enum drop classify(const struct bench *b, struct message *g, const uint8_t *area)
{
	g->header = NO_HEADER;
	if (!(g->recv->flags & IB_RECV_GRH))
		return PASS;
	bool six = area[0] >> 4 == 6;
	g->header = HEADER_GRH;
	if (likely(!b->ib_is_ethernet))
		return six ? PASS : DROP_grh_class;
	bool four = six ? area[20] == 0x45 && ipv4_header_sum(area + 20) == 0xffff : area[20] >> 4 == 4;
	if (four)
		g->header = HEADER_IPV4;
	return four || six ? PASS : DROP_grh_class;
}

static void key_address(struct table_key *k, const uint8_t *address)
{
	memcpy(k->addr, address, 16);
	k->number = 0;
}

/* From its place in the area. */
static void key_mapped(struct table_key *k, const uint8_t *ip4)
{
	uint32_t raw;
	memcpy(&raw, ip4, sizeof raw);
	key_ipv4(k, raw);
	k->number = 0;
}

static void key_number(struct table_key *k, uint32_t number)
{
	memset(k->addr, 0, sizeof k->addr);
	k->number = number;
}

/* Source and destination as tables know them: GID, the IPv4 address as an IPv4-mapped GID, or what there is without. */
static inline void set_keys(struct lookup *l, unsigned i, const struct message *g)
{
	const uint8_t *area = area_of(g);
	bool group = false;
	if (likely(g->header == HEADER_GRH)) {
		key_address(&l->from[i], area + 8);
		group = area[24] == 0xff;
	} else if (g->header == HEADER_IPV4) {
		key_mapped(&l->from[i], area + 32);
		group = (area[36] & 0xf0) == 0xe0;
	} else {
		key_number(&l->from[i], g->recv->slid);
	}
	l->to_group[i] = group;
	l->groups += group;
	if (likely(!group))
		key_number(&l->to[i], g->recv->qpn);
	else if (g->header == HEADER_GRH)
		key_address(&l->to[i], area + 24);
	else
		key_mapped(&l->to[i], area + 36);
}

static inline enum drop take_one(const struct bench *b, const struct ib_recv *r, struct message *g)
{
	struct rte_mbuf *m = r->mbuf;
	g->recv = r;
	if (unlikely(m->data_len < IB_GRH_LEN))
		return DROP_wc_short;
	if (unlikely(r->src_qpn <= 1 || r->src_qpn == 0xffffff))
		return DROP_srcqp;
	g->payload = rte_pktmbuf_mtod_offset(m, uint8_t *, IB_GRH_LEN);
	g->payload_len = (uint16_t)(m->data_len - IB_GRH_LEN);
	return classify(b, g, area_of(g));
}

static void take(struct worker *w, struct egress *e, const struct ib_recv *r, unsigned n)
{
	struct direction_counters *c = &w->counters.direction[IB_TO_ROCE];
	const struct tables *t = w->bench->tables;
	unsigned kept = 0;
	COUNT(c->received, n);
	e->lookup.from_table = &t->sources;
	e->lookup.to_table = &t->standin_qps;
	e->lookup.to_group_table = &t->mgids;
	e->lookup.groups = 0;
	for (unsigned i = 0; i < n; i++) {
		enum drop d = take_one(w->bench, &r[i], &e->message[kept]);
		if (unlikely(d)) {
			drop_message(w, d, &r[i]);
			continue;
		}
		if (unlikely(r[i].flags & IB_RECV_FECN))
			c->notes[NOTE_ECN_CE]++;
		set_keys(&e->lookup, kept, &e->message[kept]);
		kept++;
	}
	e->n = kept;
}

static inline enum drop route_to_group(const struct mgid_entry *m, struct message *g, struct route *r)
{
	if (unlikely(!m))
		return DROP_mc_unknown;
	if (unlikely(!(m->flags & GROUP_TO_ROCE)))
		return DROP_mc_direction;
	if (unlikely(g->payload_len > m->mtu))
		return DROP_mtu_exceeded;
	g->group = m->id;
	r->to = &m->peer;
	r->version = m->version;
	return PASS;
}

static inline enum drop route_to_standin(const struct bench *b, const struct standin_qp_entry *s,
					 const struct message *g, struct route *r)
{
	if (unlikely(!s))
		return DROP_standin_unknown;
	if (unlikely(g->payload_len > b->roce_mtu))
		return DROP_mtu_exceeded;
	table_mark_used(&s->used);
	r->to = &s->peer;
	r->version = s->version;
	return PASS;
}

/* An unknown node is dropped, or speaks with the bridge's address. */
static enum drop route_from_unknown(struct worker *w, struct route *r)
{
	const struct bench *b = w->bench;
	r->src_ip = r->six ? b->own_ip6 : b->own_ip4;
	if (!__atomic_load_n(&b->bridge_unknown, __ATOMIC_RELAXED))
		return DROP_node_unknown;
	if (is_zero(r->src_ip))
		return DROP_node_no_ip;
	w->counters.direction[IB_TO_ROCE].notes[NOTE_SOURCE_BRIDGED]++;
	return PASS;
}

/* The node speaks on Ethernet with its own address of the destination's IP version. */
static inline enum drop route_from(struct worker *w, const struct source_entry *s, struct route *r)
{
	r->six = !is_ipv4(r->to->ip);
	if (unlikely(!s))
		return route_from_unknown(w, r);
	if (unlikely(s->flags & NODE_BRIDGE))
		return DROP_loop_bridge;
	r->src_ip = r->six ? s->ip6 : s->ip4;
	return unlikely(is_zero(r->src_ip)) ? DROP_node_no_ip : PASS;
}

static inline enum drop watch_group(struct worker *w, const struct mgid_entry *m, const struct message *g)
{
	return watch(w, m->flags, m->id, IB_TO_ROCE, g->payload, g->payload_len);
}

/* Where message i goes. What the bridge itself has sent to a group comes back to it, and dies. */
static inline enum drop find_route(struct worker *w, struct egress *e, unsigned i, struct route *r)
{
	struct lookup *l = &e->lookup;
	struct message *g = &e->message[i];
	bool group = l->to_group[i];
	const struct source_entry *source = lookup_from(l, i);
	const void *to = lookup_to(l, i);
	if (unlikely(source && source->flags & NODE_OWN))
		return DROP_loop_self;
	enum drop d = group ? route_to_group(to, g, r) : route_to_standin(w->bench, to, g, r);
	if (likely(!d))
		d = route_from(w, source, r);
	return likely(!d) && group ? watch_group(w, to, g) : d;
}

/* Finds each message's way and writes what surrounds it, but for the ICRC. */
static void route(struct worker *w, struct egress *e)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < e->n; i++) {
		struct route r;
		enum drop d = find_route(w, e, i, &r);
		if (unlikely(d)) {
			drop_message(w, d, e->message[i].recv);
			continue;
		}
		e->icrc[kept] = write_headers(w, &e->message[i], &r);
		if (unlikely(kept != i)) {
			e->message[kept] = e->message[i];
			e->lookup.to_group[kept] = e->lookup.to_group[i];
		}
		kept++;
	}
	e->n = kept;
}

static void write_icrcs(const struct egress *e)
{
	uint32_t crc[BURST];
	icrc_burst(e->icrc, e->n, crc);
	for (unsigned i = 0; i < e->n; i++)
		store32((uint8_t *)(uintptr_t)e->icrc[i].p + e->icrc[i].len, crc[i]);
}

static void count_groups(struct worker *w, const struct egress *e, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (!e->lookup.to_group[i])
			continue;
		struct group_counters *c = &w->groups[e->message[i].group];
		COUNT(c->packets[IB_TO_ROCE], 1);
		COUNT(c->bytes[IB_TO_ROCE], e->message[i].payload_len);
	}
}

/* A full transmit queue gets a few more chances within the burst: the port may be freeing descriptors. */
static unsigned transmit_some(const struct worker *w, struct rte_mbuf **m, unsigned n)
{
	enum { TRIES = 4 };
	unsigned sent = 0;
	for (int i = 0; i < TRIES && sent < n; i++)
		sent += rte_eth_tx_burst(w->port, w->queue, m + sent, (uint16_t)(n - sent));
	return sent;
}

static void transmit(struct worker *w, struct egress *e)
{
	struct direction_counters *c = &w->counters.direction[IB_TO_ROCE];
	struct rte_mbuf *m[BURST];
	uint64_t bytes = 0;
	for (unsigned i = 0; i < e->n; i++) {
		m[i] = e->message[i].recv->mbuf;
		bytes += e->message[i].payload_len;
	}
	if (watched(w))
		sight_stage(w, SIGHT_SENT, IB_TO_ROCE, PASS, m, e->n);
	unsigned sent = transmit_some(w, m, e->n);
	if (watched(w))
		sight_taken(w, sent);
	latency_end(&w->latency[IB_TO_ROCE], e->began, sent);
	for (unsigned i = sent; i < e->n; i++) {
		bytes -= e->message[i].payload_len;
		drop_packet(w, IB_TO_ROCE, DROP_eth_full, m[i]);
	}
	COUNT(c->sent, sent);
	COUNT(c->sent_bytes, bytes);
	if (e->lookup.groups)
		count_groups(w, e, sent);
}

unsigned ib_to_roce(struct worker *w)
{
	struct ib_recv r[BURST];
	struct egress e;
	unsigned n =
		likely(!w->inject[IB_TO_ROCE].live) ? w->door->poll(w->door->self, r, BURST) : inject_messages(w, r);
	if (n == 0)
		return w->inject[IB_TO_ROCE].taken;
	e.began = latency_begin(&w->latency[IB_TO_ROCE]);
	if (watched(w))
		sight_messages(w, r, n);
	take(w, &e, r, n);
	lookup_begin(&e.lookup, e.n);
	lookup_guess(&e.lookup, e.n);
	route(w, &e);
	if (e.n == 0)
		return n;
	write_icrcs(&e);
	transmit(w, &e);
	return n;
}

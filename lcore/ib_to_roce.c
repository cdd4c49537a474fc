/* SPDX-License-Identifier: Apache-2.0 */
/*
 * InfiniBand to Ethernet, in packet order:
 *
 *   poll ▶ take ▶ choose ▶ write ▶ transmit
 *
 * Look-ups go beside that: take begins them, and what they fetch comes while others are worked on.
 *
 * Every mbuf received here leaves by exactly one way: taken by the Ethernet port, or dropped by name.
 */
#include <rte_ethdev.h>
#include <rte_prefetch.h>

#include "headers.h"
#include "police.h"

/* Says where in the 40-byte area the network header lies, or that there is none to be found.
 * On an Ethernet link layer an IPv4 header lies in the last 20 bytes, and the first 20 are undefined: the
 * rule for telling is the one of libibverbs (get_grh_header_version). */
static enum drop classify(const struct bench *b, struct message *g, const uint8_t *area)
{
	g->area = area;
	g->header = NO_HEADER;
	if (!(g->recv.flags & IB_RECV_GRH))
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
static void set_keys(struct message *g)
{
	const uint8_t *area = g->area;
	g->multicast = false;
	if (likely(g->header == HEADER_GRH)) {
		key_address(&g->from, area + 8);
		g->multicast = area[24] == 0xff;
	} else if (g->header == HEADER_IPV4) {
		key_mapped(&g->from, area + 32);
		g->multicast = (area[36] & 0xf0) == 0xe0;
	} else {
		key_number(&g->from, g->recv.slid);
	}
	if (likely(!g->multicast))
		key_number(&g->to, g->recv.qpn);
	else if (g->header == HEADER_GRH)
		key_address(&g->to, area + 24);
	else
		key_mapped(&g->to, area + 36);
}

static enum drop take_one(const struct worker *w, struct message *g)
{
	const struct bench *b = w->bench;
	struct rte_mbuf *m = g->recv.mbuf;
	if (unlikely(m->data_len < IB_GRH_LEN))
		return DROP_wc_short;
	if (unlikely(g->recv.pkey_index != b->pkey_index))
		return DROP_pkey;
	if (unlikely(g->recv.src_qpn <= 1 || g->recv.src_qpn == 0xffffff))
		return DROP_srcqp;
	enum drop d = classify(b, g, rte_pktmbuf_mtod(m, const uint8_t *));
	if (unlikely(d))
		return d;
	set_keys(g);
	g->payload_len = (uint16_t)(m->data_len - IB_GRH_LEN);
	return PASS;
}

static void take(struct worker *w, struct egress *e, const struct ib_recv *r, unsigned n)
{
	struct direction_counters *c = &w->counters.direction[IB_TO_ROCE];
	unsigned kept = 0, multicasts = 0;
	c->received += n;
	for (unsigned i = 0; i < n; i++) {
		struct message *g = &e->message[kept];
		g->recv = r[i];
		enum drop d = take_one(w, g);
		if (unlikely(d)) {
			drop_packet(w, IB_TO_ROCE, d, r[i].mbuf);
			continue;
		}
		if (unlikely(r[i].flags & IB_RECV_FECN))
			c->notes[NOTE_ECN_CE]++;
		multicasts += g->multicast;
		kept++;
	}
	e->n = kept;
	e->multicasts = multicasts;
}

static inline const struct table *destinations(const struct tables *t, const struct message *g)
{
	return g->multicast ? &t->mgids : &t->standin_qps;
}

static void look_up_begin(const struct tables *t, struct egress *e)
{
	for (unsigned i = 0; i < e->n; i++)
		table_begin(&t->sources, &e->message[i].from, &e->from[i]);
	if (likely(e->multicasts == 0)) {
		for (unsigned i = 0; i < e->n; i++)
			table_begin(&t->standin_qps, &e->message[i].to, &e->to[i]);
		return;
	}
	for (unsigned i = 0; i < e->n; i++)
		table_begin(destinations(t, &e->message[i]), &e->message[i].to, &e->to[i]);
}

static void look_up_guess(const struct tables *t, struct egress *e)
{
	for (unsigned i = 0; i < e->n; i++)
		e->message[i].source = table_guess(&t->sources, &e->from[i]);
	if (likely(e->multicasts == 0)) {
		for (unsigned i = 0; i < e->n; i++)
			e->message[i].found = table_guess(&t->standin_qps, &e->to[i]);
		return;
	}
	for (unsigned i = 0; i < e->n; i++)
		e->message[i].found = table_guess(destinations(t, &e->message[i]), &e->to[i]);
}

static inline void look_up_settle(const struct tables *t, struct egress *e, unsigned i)
{
	struct message *g = &e->message[i];
	g->source = table_settle(&t->sources, &g->from, &e->from[i], g->source);
	g->found = table_settle(destinations(t, g), &g->to, &e->to[i], g->found);
}

/* What the bridge itself has sent to a group comes back to it. */
static enum drop check_own(const struct message *g)
{
	return unlikely(g->source && g->source->flags & NODE_OWN) ? DROP_loop_self : PASS;
}

static enum drop set_group(struct message *g)
{
	const struct mgid_entry *m = g->found;
	if (unlikely(!m))
		return DROP_mc_unknown;
	if (unlikely(!(m->flags & GROUP_TO_ROCE)))
		return DROP_mc_direction;
	if (unlikely(g->payload_len > m->mtu))
		return DROP_mtu_exceeded;
	g->dst_ip = m->ip;
	g->version = m->version;
	g->tci = m->tci;
	g->dest_qpn = 0xffffff;
	g->qkey = m->qkey;
	g->mac = group_mac(m->ip, m->version);
	return PASS;
}

static enum drop set_standin(const struct worker *w, struct message *g)
{
	const struct standin_qp_entry *s = g->found;
	if (unlikely(!s))
		return DROP_standin_unknown;
	if (unlikely(g->payload_len > w->bench->roce_mtu))
		return DROP_mtu_exceeded;
	uint64_t l2 = __atomic_load_n(&s->l2, __ATOMIC_RELAXED);
	table_mark_used(&s->used);
	g->dst_ip = s->ip;
	g->version = s->version;
	g->tci = L2_TCI(l2);
	g->dest_qpn = s->qpn;
	g->qkey = s->qkey;
	g->mac = L2_MAC(l2);
	return PASS;
}

/* The node speaks on Ethernet with its own address of the destination's IP version; one that nobody knows is dropped,
 * or speaks with the bridge's. */
static enum drop set_source(struct worker *w, struct message *g)
{
	static const uint8_t none[16];
	const struct bench *b = w->bench;
	const struct source_entry *s = g->source;
	g->six = !is_ipv4(g->dst_ip);
	if (likely(s)) {
		if (unlikely(s->flags & NODE_BRIDGE))
			return DROP_loop_bridge;
		g->src_ip = g->six ? s->ip6 : s->ip4;
	} else {
		if (!b->bridge_unknown)
			return DROP_node_unknown;
		g->src_ip = g->six ? b->own_ip6 : b->own_ip4;
	}
	if (unlikely(memcmp(g->src_ip, none, 16) == 0))
		return DROP_node_no_ip;
	if (unlikely(!s))
		w->counters.direction[IB_TO_ROCE].notes[NOTE_SOURCE_BRIDGED]++;
	return PASS;
}

static enum drop check_rate(struct worker *w, const struct mgid_entry *m)
{
	return unlikely(m->flags & GROUP_POLICED) && !police(w, m->id, IB_TO_ROCE) ? DROP_policed : PASS;
}

static void choose(struct worker *w, struct egress *e)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < e->n; i++) {
		struct message *g = &e->message[i];
		look_up_settle(w->bench->tables, e, i);
		enum drop d = check_own(g);
		if (likely(!d))
			d = g->multicast ? set_group(g) : set_standin(w, g);
		if (likely(!d))
			d = set_source(w, g);
		if (likely(!d) && g->multicast)
			d = check_rate(w, g->found);
		if (unlikely(d)) {
			drop_packet(w, IB_TO_ROCE, d, g->recv.mbuf);
			continue;
		}
		if (unlikely(kept != i))
			e->message[kept] = *g;
		kept++;
	}
	e->n = kept;
}

/* Writes the frames, then all their ICRCs at once. */
static void write(struct worker *w, struct egress *e)
{
	struct icrc_job jobs[BURST];
	uint32_t crc[BURST];
	for (unsigned i = 0; i < e->n; i++)
		jobs[i] = write_headers(w, &e->message[i]);
	icrc_burst(jobs, e->n, crc);
	for (unsigned i = 0; i < e->n; i++)
		memcpy((uint8_t *)(uintptr_t)jobs[i].p + jobs[i].len, &crc[i], sizeof crc[i]);
}

static void count_sent(struct worker *w, const struct message *g)
{
	struct direction_counters *c = &w->counters.direction[IB_TO_ROCE];
	c->sent++;
	c->sent_bytes += g->payload_len;
	if (g->multicast && w->groups) {
		struct group_counters *gc = &w->groups[((const struct mgid_entry *)g->found)->id];
		gc->packets[IB_TO_ROCE]++;
		gc->bytes[IB_TO_ROCE] += g->payload_len;
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
	struct rte_mbuf *m[BURST];
	for (unsigned i = 0; i < e->n; i++)
		m[i] = e->message[i].recv.mbuf;
	unsigned sent = transmit_some(w, m, e->n);
	for (unsigned i = 0; i < sent; i++)
		count_sent(w, &e->message[i]);
	for (unsigned i = sent; i < e->n; i++)
		drop_packet(w, IB_TO_ROCE, DROP_eth_full, m[i]);
}

unsigned ib_to_roce(struct worker *w)
{
	struct ib_recv r[BURST];
	struct egress e;
	unsigned n = w->door->poll(w->door->self, r, BURST);
	if (n == 0)
		return 0;
	take(w, &e, r, n);
	look_up_begin(w->bench->tables, &e);
	look_up_guess(w->bench->tables, &e);
	choose(w, &e);
	if (e.n == 0)
		return n;
	write(w, &e);
	transmit(w, &e);
	return n;
}

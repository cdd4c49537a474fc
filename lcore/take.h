/* SPDX-License-Identifier: Apache-2.0 */
/* The first stage towards Ethernet: what has come is looked at, and gets the keys by which it is looked up. */
#ifndef CAUSEWAY_TAKE_H
#define CAUSEWAY_TAKE_H

#include "egress.h"

static inline void drop_message(struct worker *w, enum drop reason, const struct ib_recv *r)
{
	count_message_drop(w, reason, r);
	rte_pktmbuf_free(r->mbuf);
}

/* Finds the network header in the 40-byte area.
 * On an Ethernet link layer an IPv4 header lies in the last 20 bytes, and the first 20 are undefined: the
 * rule for telling is the one of libibverbs (get_grh_header_version). */
static enum drop classify(const struct datapath *dp, struct message *msg, const uint8_t *area)
{
	msg->header = NO_HEADER;
	if (!(msg->recv->flags & IB_RECV_GRH))
		return PASS;
	bool six = area[0] >> 4 == 6;
	msg->header = HEADER_GRH;
	if (likely(!dp->ib_is_ethernet))
		return six ? PASS : DROP_grh_class;
	bool four = six ? area[20] == 0x45 && ipv4_header_sum(area + 20) == 0xffff : area[20] >> 4 == 4;
	if (four)
		msg->header = HEADER_IPV4;
	return four || six ? PASS : DROP_grh_class;
}

static void key_address(struct table_key *k, const uint8_t *address)
{
	memcpy(k->addr, address, 16);
	k->number = 0;
}

/* ip4 points into the GRH area. */
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

/* Sets the keys of source and destination: GIDs, IPv4-mapped addresses, or SLID and QPN when there is no network
 * header, which is msg->header, a constant where it is known. */
static __rte_always_inline void set_keys(struct lookup *l, unsigned i, const struct message *msg, uint8_t header)
{
	const uint8_t *area = area_of(msg);
	bool group = false;
	if (likely(header == HEADER_GRH)) {
		key_address(&l->from[i], area + 8);
		group = area[24] == 0xff;
	} else if (header == HEADER_IPV4) {
		key_mapped(&l->from[i], area + 32);
		group = (area[36] & 0xf0) == 0xe0;
	} else {
		key_number(&l->from[i], msg->recv->slid);
	}
	l->to_group[i] = group;
	if (likely(!group)) {
		key_number(&l->to[i], msg->recv->qpn);
		return;
	}
	l->groups++;
	if (header == HEADER_GRH)
		key_address(&l->to[i], area + 24);
	else
		key_mapped(&l->to[i], area + 36);
}

/* Queue pairs that send messages are neither management's nor all of a group. */
static inline bool is_sender(uint32_t qpn)
{
	return qpn - 2 < 0xffffff - 2;
}

static inline enum drop take_one(const struct datapath *dp, const struct ib_recv *r, struct message *msg)
{
	struct rte_mbuf *m = r->mbuf;
	msg->recv = r;
	if (unlikely(m->data_len < IB_GRH_LEN))
		return DROP_wc_short;
	if (unlikely(!is_sender(r->src_qpn)))
		return DROP_srcqp;
	msg->payload = rte_pktmbuf_mtod_offset(m, uint8_t *, IB_GRH_LEN);
	msg->payload_len = (uint16_t)(m->data_len - IB_GRH_LEN);
	return classify(dp, msg, area_of(msg));
}

/* Takes a message of any kind. Returns 1, or 0 if it is dropped. */
static __rte_noinline unsigned take_any(struct worker *w, struct egress *e, unsigned i, const struct ib_recv *r)
{
	struct message *msg = &e->message[i];
	enum drop d = take_one(w->datapath, r, msg);
	if (unlikely(d)) {
		drop_message(w, d, r);
		return 0;
	}
	if (unlikely(r->flags & IB_RECV_FECN) && e->from == FROM_PORT)
		COUNT(w->counters.direction[IB_TO_ROCE].events[EVENT_ECN_CE], 1);
	e->mbuf[i] = r->mbuf;
	set_keys(&e->lookup, i, msg, msg->header);
	return 1;
}

/* Takes a usual message, with a GRH and no mark of congestion, where the link layer is InfiniBand. Returns whether it
 * is one. */
static __rte_always_inline bool take_usual(struct egress *e, unsigned i, const struct ib_recv *r)
{
	const struct rte_mbuf *m = r->mbuf;
	uint8_t *area = rte_pktmbuf_mtod(m, uint8_t *);
	struct message *msg = &e->message[i];
	if (unlikely((r->flags & (IB_RECV_GRH | IB_RECV_FECN)) != IB_RECV_GRH || m->data_len < IB_GRH_LEN ||
		     !is_sender(r->src_qpn) || area[0] >> 4 != 6))
		return false;
	e->mbuf[i] = r->mbuf;
	msg->recv = r;
	msg->header = HEADER_GRH;
	msg->payload = area + IB_GRH_LEN;
	msg->payload_len = (uint16_t)(m->data_len - IB_GRH_LEN);
	set_keys(&e->lookup, i, msg, HEADER_GRH);
	return true;
}

/* Takes what has come, and begins the look-ups for what is not dropped. */
static inline void take(struct worker *w, struct egress *e, const struct ib_recv *r, unsigned n, enum origin from)
{
	const struct tables *t = w->datapath->tables;
	bool infiniband = !w->datapath->ib_is_ethernet;
	unsigned kept = 0;
	if (likely(from == FROM_PORT))
		COUNT(w->counters.direction[IB_TO_ROCE].received, n);
	e->from = from;
	e->lookup.from_table = &t->sources;
	e->lookup.to_table = &t->proxy_qpns;
	e->lookup.to_group_table = &t->mgids;
	e->lookup.groups = 0;
	for (unsigned i = 0; i < n; i++) {
		if (likely(infiniband && take_usual(e, kept, &r[i])))
			kept++;
		else
			kept += take_any(w, e, kept, &r[i]);
	}
	e->n = kept;
}

#endif

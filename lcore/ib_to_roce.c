/* SPDX-License-Identifier: Apache-2.0 */
/*
 * InfiniBand to Ethernet, in packet order:
 *
 *   poll ▶ take ▶ route ▶ write_icrcs ▶ transmit
 *
 * Look-ups run beside that: take() prefetches for them.
 *
 * Every mbuf received here leaves by exactly one way: taken by the Ethernet port, or dropped by name.
 */
#include <rte_ethdev.h>
#include <rte_prefetch.h>

#include "fastroute.h"
#include "headers.h"
#include "group_copies.h"
#include "handover.h"
#include "route.h"
#include "take.h"
#include "transmit.h"
#include "unknown.h"

static inline enum drop route_to_group(const struct datapath *dp, const struct mgid_entry *m, struct message *msg,
				       struct route *r)
{
	if (unlikely(!m))
		return DROP_mc_unknown;
	if (unlikely(!(m->flags & GROUP_TO_ROCE)))
		return DROP_mc_direction;
	if (unlikely(msg->payload_len > m->mtu))
		return DROP_mtu_exceeded;
	msg->group = table_group_id(m);
	r->segment = segment_at(dp, m->id >> GROUP_ID_BITS);
	r->to = &m->peer;
	r->version = m->version;
	r->group = true;
	return PASS;
}

static inline enum drop route_to_proxy_qp(const struct datapath *dp, const struct proxy_qpn_entry *s,
					  const struct message *msg, struct route *r)
{
	if (unlikely(!s))
		return DROP_proxy_qp_unknown;
	r->segment = segment_at(dp, s->segment);
	if (unlikely(!segment_reaches(r->segment, s->partition))) /* it is for groups that have their own partition */
		return DROP_wrong_partition;
	if (unlikely(msg->payload_len > r->segment->roce_mtu))
		return DROP_mtu_exceeded;
	r->to = &s->peer;
	r->version = s->version;
	r->shard = __atomic_load_n(&s->shard, __ATOMIC_RELAXED);
	r->group = false;
	return PASS;
}

/* Why message i, to a group, would not cross, if its copies and its shard were not looked at. */
static enum drop refuse_to_group(const struct datapath *dp, struct egress *e, unsigned i)
{
	struct route r;
	struct message *msg = &e->message[i];
	const struct mgid_entry *m = e->lookup.to_entry[i];
	const struct source_entry *source = e->lookup.from_entry[i];
	if (m && m->version & SHARED)
		return refuse_to_segments(dp, m, source, msg);
	enum drop d = route_to_group(dp, m, msg, &r);
	return d ? d : refuse_source(dp, source, r.segment, PARTITION_HEARD, !is_ipv4(m->peer.ip));
}

/* Has a port of several decide on message i, to a group, if it would cross: a member of a fleet on all, so that it
 * knows which are copies when it takes a shard over. */
static __rte_noinline enum drop ask_first(struct worker *w, struct egress *e, unsigned i)
{
	return refuse_to_group(w->datapath, e, i) ? PASS : ask_port(w, e, &e->message[i]);
}

/* Finds the route of message i. Returns a drop reason, or PLAIN for a group of plain UDP. The bridge's own messages to
 * a group come back to it, and are dropped. */
static inline unsigned find_route(struct worker *w, struct egress *e, unsigned i, struct route *r)
{
	struct lookup *l = &e->lookup;
	struct message *msg = &e->message[i];
	bool group = l->to_group[i];
	const struct source_entry *source = l->from_entry[i];
	const void *to = l->to_entry[i];
	unsigned flags = source ? source->flags & (NODE_OWN | NODE_HEARD) : 0;
	enum drop d;
	if (unlikely(flags & NODE_OWN))
		return DROP_loop_self;
	if (unlikely(group && e->message[i].recv->flags & IB_RECV_ASK) && unlikely(d = ask_first(w, e, i)))
		return d;
	if (unlikely(group && to && !holds_group(w, to)))
		return source && source->flags & NODE_BRIDGE ? DROP_loop_bridge : DROP_not_mine;
	if (unlikely(group && to && ((const struct mgid_entry *)to)->version & SHARED)) {
		struct route first; /* so that the caller's stays in registers */
		unsigned why = route_to_segments(w, e, i, to, source, &first);
		*r = first;
		return why;
	}
	d = group ? route_to_group(w->datapath, to, msg, r) : route_to_proxy_qp(w->datapath, to, msg, r);
	if (likely(!d))
		d = route_from(w, source, PARTITION_HEARD, r);
	if (unlikely(flags) && likely(!d))
		table_hear(w->datapath->tables, source->id, partition_in(to, group));
	if (unlikely(d))
		return d;
	if (likely(!group)) {
		mark_used(w->datapath, &((const struct proxy_qpn_entry *)to)->used);
		return PASS;
	}
	d = apply_group_actions(w, to, msg);
	return unlikely(!d && r->version == PLAIN_UDP) ? (unsigned)PLAIN : d;
}

/* Whether the shard of message i, which is another member's, is about to be this bridge's. */
static bool keeps_message(const struct worker *w, const struct egress *e, unsigned i)
{
	const struct mgid_entry *g = e->lookup.to_entry[i];
	return w->lease.keeps && has_shard(&w->lease.keep, IB_TO_ROCE, table_group_shard(g));
}

/* Drops message i, and asks management for its source if that is why. */
static void drop_routed(struct worker *w, struct egress *e, unsigned i, enum drop d)
{
	const struct ib_recv *r = e->message[i].recv;
	if (d == DROP_not_mine && keeps_message(w, e, i)) {
		enum drop why = refuse_to_group(w->datapath, e, i);
		if (!why) {
			keep_message(w, e, i);
			return;
		}
		d = why;
	}
	count_message_drop(w, d, r);
	if (is_unknown(w, d))
		free_or_ask(w, PUNT_SOURCE, &e->lookup.from[i], stranger(&e->lookup.from[i]), r->mbuf);
	else
		rte_pktmbuf_free(r->mbuf);
}

/* fastroute() of those to groups, out of line, so that the loop has registers enough for those to hosts. */
static __rte_noinline unsigned fastroute_groups(struct worker *w, struct egress *e, unsigned i, struct icrc_job *icrc)
{
	return fastroute(w, e, i, icrc, true);
}

/* Routes messages of all kinds, as fastroute() does those that are usual. */
static __rte_noinline unsigned route_any(struct worker *w, struct egress *e, unsigned i, struct icrc_job *icrc)
{
	struct route r;
	unsigned d = find_route(w, e, i, &r);
	if (likely(d == PASS))
		*icrc = write_headers(w, &e->message[i], &r);
	else if (d == PLAIN)
		*icrc = write_datagram(w, &e->message[i], r);
	else
		return d;
	return PASS;
}

/* Finds each message's route and writes all of the frame but the ICRC. */
static void route(struct worker *w, struct egress *e)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < e->n; i++) {
		struct icrc_job *icrc = &e->icrc[kept];
		unsigned d = e->lookup.to_group[i] ? fastroute_groups(w, e, i, icrc) : fastroute(w, e, i, icrc, false);
		if (unlikely(d == UNUSUAL))
			d = route_any(w, e, i, icrc);
		if (unlikely(d)) {
			drop_routed(w, e, i, d);
			continue;
		}
		if (unlikely(kept != i)) {
			e->message[kept] = e->message[i];
			e->mbuf[kept] = e->mbuf[i];
			e->lookup.to_group[kept] = e->lookup.to_group[i];
		}
		kept++;
	}
	e->n = kept;
}

/* Returns how many bytes of payload there are. */
static uint64_t write_icrcs(const struct egress *e)
{
	uint32_t crc[BURST];
	unsigned n = e->n;
	uint64_t bytes = 0;
	icrc_burst(e->icrc, n, crc);
	for (unsigned i = 0; i < n; i++) {
		store32((uint8_t *)(uintptr_t)e->icrc[i].p + e->icrc[i].len, crc[i]);
		bytes += e->message[i].payload_len;
	}
	return bytes;
}

static __rte_always_inline void forward(struct worker *w, const struct ib_recv *r, unsigned n, enum origin from)
{
	struct egress e;
	e.began = latency_begin(&w->latency[IB_TO_ROCE]);
	take(w, &e, r, n, from);
	lookup_begin(&e.lookup, e.n);
	lookup_finish(&e.lookup, e.n);
	if (unlikely(w->lease.leaves))
		note_messages(w, &e);
	route(w, &e);
	if (likely(e.n)) {
		uint64_t bytes = write_icrcs(&e);
		bool *to_group = e.lookup.groups ? e.lookup.to_group : NULL;
		transmit(w, &(struct departure){e.message, e.mbuf, to_group, e.n, bytes, e.began});
	}
	if (unlikely(w->copied))
		send_copies(w);
}

unsigned ib_to_roce(struct worker *w)
{
	struct ib_recv r[BURST];
	unsigned n = likely(!w->inject[IB_TO_ROCE].live) ? w->ib_port->poll(w->ib_port->self, r, BURST)
							 : inject_messages(w, r);
	if (n == 0) {
		lease_received(w, IB_TO_ROCE, 0);
		return w->inject[IB_TO_ROCE].taken;
	}
	if (mirroring(w))
		mirror_messages(w, r, n);
	forward(w, r, n, FROM_PORT);
	lease_received(w, IB_TO_ROCE, n);
	return n;
}

/* Forwards what was kept as if its shards were open. */
static __rte_noinline void forward_kept(struct worker *w, const struct ib_recv *r, unsigned n)
{
	struct lease_view *h = &w->lease;
	struct shards open = h->shards;
	for (unsigned i = 0; i < GROUP_WORDS; i++)
		h->shards.groups[i] |= h->release.groups[i];
	forward(w, r, n, FROM_KEPT);
	h->shards = open;
}

unsigned ib_to_roce_kept(struct worker *w)
{
	unsigned moved = 0;
	bool rest = true;
	for (unsigned i = 0; rest && i < KEPT_BURSTS; i++) {
		struct ib_recv r[BURST];
		unsigned n = take_kept(w, IB_TO_ROCE, r, &rest);
		if (n)
			forward_kept(w, r, n);
		moved += n;
	}
	if (!rest)
		lease_released(w, IB_TO_ROCE);
	return moved;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the routes of messages to RoCE, to one segment or to several, have in common. */
#ifndef CAUSEWAY_ROUTE_H
#define CAUSEWAY_ROUTE_H

#include "egress.h"
#include "group_actions.h"

/* Of what finds a route: besides drop reasons, or PASS, the route to a group of plain UDP. */
enum { PLAIN = DROP_COUNT };

/* drop_packet() for a message, whose descriptor is mirrored, too. */
static inline void count_message_drop(struct worker *w, enum drop reason, const struct ib_recv *r)
{
	w->counters.direction[IB_TO_ROCE].drops[reason]++;
	if (mirroring(w))
		mirror_drop_message(w, reason, r);
}

/* A message of an unknown node is dropped, or sent with the bridge's address. */
static inline enum drop route_from_unknown(struct worker *w, struct route *r)
{
	const struct datapath *dp = w->datapath;
	r->src_ip = r->six ? r->segment->own_ip6 : r->segment->own_ip4;
	if (!__atomic_load_n(&dp->bridge_unknown, __ATOMIC_RELAXED))
		return DROP_node_unknown;
	if (is_zero(r->src_ip))
		return DROP_node_no_ip;
	w->counters.direction[IB_TO_ROCE].events[EVENT_SOURCE_BRIDGED]++;
	return PASS;
}

/* The source address is the node's, of the destination's IP version. */
static inline enum drop route_from_node(const struct worker *w, const struct source_entry *s, struct route *r)
{
	mark_used(w->datapath, &s->used);
	r->src_ip = r->six ? s->ip6 : s->ip4;
	return unlikely(is_zero(r->src_ip)) ? DROP_node_no_ip : PASS;
}

static inline enum drop route_from(struct worker *w, const struct source_entry *s, struct route *r)
{
	r->six = !is_ipv4(r->to->ip);
	if (unlikely(!s))
		return route_from_unknown(w, r);
	if (unlikely(s->flags & NODE_BRIDGE))
		return DROP_loop_bridge;
	if (unlikely(!segment_reaches(r->segment, s->partition)))
		return DROP_wrong_partition;
	return route_from_node(w, s, r);
}

static inline enum drop apply_group_actions(struct worker *w, const struct mgid_entry *m, const struct message *msg)
{
	return group_actions(w, m->flags, msg->group, IB_TO_ROCE, msg->payload, msg->payload_len);
}

/* The partition that a message came in, by what it is for. */
static inline uint8_t partition_in(const void *to, bool group)
{
	return group ? ((const struct mgid_entry *)to)->flags >> GROUP_PARTITION_SHIFT
		     : ((const struct proxy_qpn_entry *)to)->partition;
}

#endif

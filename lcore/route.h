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

/* The source address of what a node sends: its own, of the destination's IP version, or the bridge's if no table has
 * the node. */
static inline const uint8_t *source_ip(const struct source_entry *from, const struct segment *to, bool six)
{
	if (unlikely(!from))
		return six ? to->own_ip6 : to->own_ip4;
	return six ? from->ip6 : from->ip4;
}

/* Why what a node sends does not go to a segment, or PASS. own is the partition of a group that has its own, by which
 * nodes reach it, too; else PARTITION_HEARD. */
static inline enum drop refuse_source(const struct datapath *dp, const struct source_entry *from,
				      const struct segment *to, uint8_t own, bool six)
{
	if (unlikely(!from && !__atomic_load_n(&dp->bridge_unknown, __ATOMIC_RELAXED)))
		return DROP_node_unknown;
	if (unlikely(from && (from->flags & NODE_BRIDGE)))
		return DROP_loop_bridge;
	if (unlikely(from && !segment_reaches(to, from->partition) && from->partition != own))
		return DROP_wrong_partition;
	return unlikely(is_zero(source_ip(from, to, six))) ? DROP_node_no_ip : PASS;
}

static inline enum drop route_from(struct worker *w, const struct source_entry *from, uint8_t own, struct route *r)
{
	r->six = !is_ipv4(r->to->ip);
	enum drop d = refuse_source(w->datapath, from, r->segment, own, r->six);
	if (unlikely(d))
		return d;
	r->src_ip = source_ip(from, r->segment, r->six);
	if (likely(from))
		mark_used(w->datapath, &from->used);
	else
		w->counters.direction[IB_TO_ROCE].events[EVENT_SOURCE_BRIDGED]++;
	return PASS;
}

/* Has a port of several decide on a message that would cross. */
static inline enum drop ask_port(struct worker *w, const struct egress *e, const struct message *msg)
{
	if (e->from != FROM_PORT) /* it has */
		return PASS;
	enum ib_arrival a = w->ib_port->arrived(w->ib_port->self, msg->recv);
	if (likely(a == IB_ARRIVAL_TAKEN))
		return PASS;
	return a == IB_ARRIVAL_STANDBY ? DROP_standby_port : DROP_duplicate;
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

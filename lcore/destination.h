/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a packet may go to its destination, a node or a group, and the proxy QP that sends it there. */
#ifndef CAUSEWAY_DESTINATION_H
#define CAUSEWAY_DESTINATION_H

#include "burst.h"
#include "group_actions.h"
#include "partition.h"

static inline enum drop check_group(const struct burst *b, unsigned i, const struct group_entry *g)
{
	if (unlikely(!g))
		return DROP_mc_unknown;
	if (unlikely(!(g->flags & GROUP_TO_IB)))
		return DROP_mc_direction;
	if (unlikely(b->send[i].dest_qkey != g->roce_qkey))
		return DROP_qkey;
	return unlikely(b->trim[i].payload_len > g->mtu) ? DROP_mtu_exceeded : PASS;
}

static inline enum drop check_node(const struct burst *b, unsigned i, const struct node_entry *n)
{
	if (unlikely(!n))
		return DROP_node_unknown;
	return unlikely(b->trim[i].payload_len > n->mtu) ? DROP_mtu_exceeded : PASS;
}

static inline enum drop apply_group_actions(struct worker *w, const struct group_entry *g, const struct burst *b,
					    unsigned i)
{
	const struct trim *trim = &b->trim[i];
	return group_actions(w, g->flags, g->id, ROCE_TO_IB,
			     rte_pktmbuf_mtod_offset(b->send[i].mbuf, const uint8_t *, trim->headers),
			     trim->payload_len);
}

/* Finds the proxy QP that sends packet i, its from_entry, whose destination is known: a look-up more unless that is in
 * the partition of the source's key. */
static inline enum drop find_proxy_qp(const struct datapath *dp, struct burst *b, unsigned i)
{
	if (likely(table_partition_of(b->lookup.to_entry[i]) == partition_of_key(&b->lookup.from[i])))
		return PASS;
	return find_in_partition(dp, b, i);
}

/* Whether packet i can be sent, as far as its destination tells, and finds its proxy QP if so. */
static __rte_always_inline enum drop check_destination(const struct datapath *dp, struct burst *b, unsigned i,
						       bool group)
{
	const void *to = b->lookup.to_entry[i];
	enum drop d = group ? check_group(b, i, to) : check_node(b, i, to);
	if (likely(!d))
		return find_proxy_qp(dp, b, i);
	b->lookup.from_entry[i] = NULL;
	return d;
}

#endif

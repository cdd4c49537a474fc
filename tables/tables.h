/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set of tables that management gives to a worker. Readers need this header alone.
 *
 * A worker registers once (rte_rcu_qsbr_thread_register, rte_rcu_qsbr_thread_online) and calls
 * rte_rcu_qsbr_quiescent(rcu, its number) once a loop, when it uses no entry any more.
 */
#ifndef CAUSEWAY_TABLES_H
#define CAUSEWAY_TABLES_H

#include <stdbool.h>

#include "table.h"

struct rte_rcu_qsbr;

struct tables {
	/* RoCE to IB */
	struct table hosts;
	struct table proxy_qps;
	struct table nodes;
	struct table groups;
	/* IB to RoCE */
	struct table proxy_qpns;
	struct table sources;
	struct table mgids;

	struct rte_rcu_qsbr *rcu;
	uint32_t max_readers; /* reader numbers are below it */

	/* Ids in the entries are below these: sizes for counters kept per object. */
	uint32_t max_hosts;
	uint32_t max_proxy_qps;
	uint32_t max_nodes;
	uint32_t max_groups;

	uint8_t *heard; /* elements atomic: the partition that a node was last heard in, by its id */
	bool view;      /* a reader that only looks (tables_view_new): it marks nothing */
};

/* The partition of a destination, a struct node_entry or group_entry, or PARTITION_HEARD. */
static inline uint8_t table_partition_of(const void *destination)
{
	return ((const struct group_entry *)destination)->partition;
}

/* The partition of a node without one of its own. */
static inline uint8_t table_heard_in(const struct tables *t, uint32_t node)
{
	return __atomic_load_n(&t->heard[node], __ATOMIC_RELAXED);
}

/* The id of a group. */
static inline uint32_t table_group_id(const struct mgid_entry *g)
{
	return g->id & ((UINT32_C(1) << GROUP_ID_BITS) - 1);
}

/* The shard of a group (shards.h). */
static inline uint32_t table_group_shard(const struct mgid_entry *g)
{
	return g->peer.qpn >> PLAIN_PORT_BITS;
}

/* The UDP port of a group of plain UDP. */
static inline uint16_t table_plain_port(const struct roce_peer *group)
{
	return (uint16_t)group->qpn;
}

/* Notes the partition of a message from a node. It writes only what changes, so that the cache line is rarely dirty. */
static inline void table_hear(const struct tables *t, uint32_t node, uint8_t partition)
{
	if (table_heard_in(t, node) != partition && !t->view)
		__atomic_store_n(&t->heard[node], partition, __ATOMIC_RELAXED);
}

/* Reads the l2 word of a host_entry or proxy_qpn_entry, which a move changes under the reader. */
static inline uint64_t table_l2(const uint64_t *l2)
{
	return __atomic_load_n(l2, __ATOMIC_RELAXED);
}

/* Whether a frame from this MAC address, the lower 48 bits of an l2 word, is from the host of a proxy QP. */
static inline bool table_is_from(const struct proxy_qp_entry *proxy_qp, uint64_t mac)
{
	uint64_t src = __atomic_load_n(&proxy_qp->src, __ATOMIC_RELAXED);
	return ((src ^ mac) << (64 - L2_MAC_BITS) == 0) | (src == 0);
}

/* Marks a proxy QP's entry as used. Its worker calls this for every packet; it writes only after management has cleared
 * the mark, so that the cache line is rarely dirty. */
static inline void table_mark_used(const struct tables *t, const uint8_t *used)
{
	if (!__atomic_load_n(used, __ATOMIC_RELAXED) && !t->view)
		__atomic_store_n((uint8_t *)(uintptr_t)used, 1, __ATOMIC_RELAXED);
}

#endif

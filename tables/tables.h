/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All shelves together: what management gives to a worker. Reading needs this header alone.
 *
 * A worker registers once (rte_rcu_qsbr_thread_register, rte_rcu_qsbr_thread_online) and says
 * rte_rcu_qsbr_quiescent(rcu, its number) once a loop, when it holds no entry any more.
 */
#ifndef CAUSEWAY_TABLES_H
#define CAUSEWAY_TABLES_H

#include "table.h"

struct rte_rcu_qsbr;

struct tables {
	/* RoCE to IB */
	struct table hosts;
	struct table standins;
	struct table nodes;
	struct table groups;
	/* IB to RoCE */
	struct table standin_qps;
	struct table sources;
	struct table mgids;

	struct rte_rcu_qsbr *rcu;
	uint32_t max_readers; /* reader numbers are below it */

	/* Ids in the entries are below these: sizes for counters kept per object. */
	uint32_t max_hosts;
	uint32_t max_standins;
	uint32_t max_nodes;
	uint32_t max_groups;
};

/* Reads the l2 word of a host_entry or standin_qp_entry, which a move changes under the reader. */
static inline uint64_t table_l2(const uint64_t *l2)
{
	return __atomic_load_n(l2, __ATOMIC_RELAXED);
}

/* Says that something has crossed by a stand-in's entry. Its worker calls it for every packet, and writes only after
 * management has looked, so that the cache line is rarely dirty. */
static inline void table_mark_used(const uint8_t *used)
{
	if (!__atomic_load_n(used, __ATOMIC_RELAXED))
		__atomic_store_n((uint8_t *)(uintptr_t)used, 1, __ATOMIC_RELAXED);
}

#endif

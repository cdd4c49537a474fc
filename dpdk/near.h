/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the EAL on the NUMA node of those who use it most. Where that node has none left, it comes from any other
 * node, and the shortage is noted: a bridge that is slower is better than none. A node is SOCKET_ID_ANY where it does
 * not matter, or is not known. */
#ifndef CAUSEWAY_NEAR_H
#define CAUSEWAY_NEAR_H

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_ring.h>

/* How often a node was short of memory. Weak, so that C that is linked without the rest of this folder has it, too. */
__attribute__((weak)) uint32_t near_short[RTE_MAX_NUMA_NODES];

static inline void near_note(int node)
{
	if (node >= 0 && node < RTE_MAX_NUMA_NODES)
		__atomic_fetch_add(&near_short[node], 1, __ATOMIC_RELAXED);
}

/* The node of a worker's lcore. 0 is none: the main lcore has no thread. */
static inline int near_lcore(unsigned lcore)
{
	return lcore > 0 && lcore < RTE_MAX_LCORE ? (int)rte_lcore_to_socket_id(lcore) : SOCKET_ID_ANY;
}

static inline void *near_zmalloc(const char *type, size_t size, int node)
{
	void *p = rte_zmalloc_socket(type, size, RTE_CACHE_LINE_SIZE, node);

	if (p || node == SOCKET_ID_ANY)
		return p;
	p = rte_zmalloc(type, size, RTE_CACHE_LINE_SIZE);
	if (p)
		near_note(node);
	return p;
}

/* Returns NULL and sets rte_errno. */
static inline struct rte_ring *near_ring(const char *name, unsigned size, int node, unsigned flags)
{
	struct rte_ring *r = rte_ring_create(name, size, node, flags);

	if (r || node == SOCKET_ID_ANY || rte_errno != ENOMEM)
		return r;
	r = rte_ring_create(name, size, SOCKET_ID_ANY, flags);
	if (r)
		near_note(node);
	return r;
}

/* Whether memory that this thread is the first to touch comes from a node: for what libraries make. Best effort: a
 * container may forbid it. */
static inline void near_prefer(int node, bool on)
{
	unsigned long nodes = node >= 0 && node < 64 ? 1ul << node : 0;

	if (rte_socket_count() < 2 || !nodes)
		return;
	if (on)
		syscall(SYS_set_mempolicy, MPOL_PREFERRED, &nodes, 8 * sizeof(nodes));
	else
		syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
}

#endif

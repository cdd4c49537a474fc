/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of tables: address space reserved at once, so that it never moves, and backed by pages as it is touched.
 */
#ifndef CAUSEWAY_TABLE_MAP_H
#define CAUSEWAY_TABLE_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_lcore.h>

enum {
	HUGE_PAGE = 2 << 20, /* a transparent huge page: spares the readers TLB misses */
};

/* Rounds up to pages, or to huge pages from one on. */
static inline size_t huge_len(size_t len)
{
	return len < HUGE_PAGE ? (len + 4095) & ~(size_t)4095 : (len + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
}

/* Reserves zeroed memory that costs nothing until it is touched. */
static inline void *map_new(size_t len)
{
	size_t want = huge_len(len), slack = want < HUGE_PAGE ? 0 : HUGE_PAGE;
	uint8_t *p = (uint8_t *)mmap(NULL, want + slack, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t head;

	if (p == MAP_FAILED)
		return NULL;
	if (slack == 0)
		return p;
	head = -(uintptr_t)p & (HUGE_PAGE - 1);
	if (head != 0)
		munmap(p, head);
	if (slack - head != 0)
		munmap(p + head + want, slack - head);
	madvise(p + head, want, MADV_HUGEPAGE); /* best effort: without huge pages it is only slower */
	return p + head;
}

/* Has the pages come from a NUMA node as long as it has any left. -1: any node. Best effort: a container may forbid it.
 * With MPOL_MF_MOVE those that are there already move: the kernel waits for all CPUs then (RCU), which took it up to a
 * minute, so that it is for the time before packets come. */
static inline void map_near(void *p, size_t len, int node, unsigned flags)
{
	unsigned long nodes = node >= 0 && node < 64 ? 1ul << node : 0;

	if (p && nodes && rte_socket_count() > 1)
		syscall(SYS_mbind, p, huge_len(len), MPOL_PREFERRED, &nodes, 8 * sizeof(nodes), flags);
}

static inline void unmap(void *p, size_t len)
{
	if (p)
		munmap(p, huge_len(len));
}

#endif

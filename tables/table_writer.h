/* SPDX-License-Identifier: Apache-2.0 */
/* The writer's state of a table, which readers do not see but for table_changes(). */
#ifndef CAUSEWAY_TABLE_WRITER_H
#define CAUSEWAY_TABLE_WRITER_H

#include "table.h"

struct rte_rcu_qsbr;

enum { ARRAYS = 32 }; /* arrays only double, so there are never more to retire */

struct retired_slot {
	uint64_t token;
	uint32_t slot;
};

struct retired_array {
	uint64_t token;
	uint64_t array;
};

struct table_writer {
	struct rte_rcu_qsbr *rcu;
	uint32_t slots;
	uint32_t entries;
	uint32_t touched; /* slots from here on were never used */
	unsigned log2_max;
	int node; /* NUMA, of what readers read; -1: any */

	uint32_t *free; /* a stack of slots */
	uint32_t free_n;

	struct retired_slot *retired; /* a ring of slots elements, oldest first: a slot is in it at most once */
	uint32_t retired_first;
	uint32_t retired_n;

	struct retired_array arrays[ARRAYS];
	unsigned arrays_n;

	uint64_t changes; /* atomic */
};

/* The parts of an array's word. */
static inline size_t array_len(uint64_t array)
{
	return sizeof(struct table_bucket) << (array & 63);
}

static inline struct table_bucket *array_buckets(uint64_t array)
{
	return (struct table_bucket *)(uintptr_t)(array & ~UINT64_C(63));
}

#endif

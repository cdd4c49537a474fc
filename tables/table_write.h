/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's side of a table. One thread writes; it never waits for readers: memory that readers may still use is
 * retired with a token of the rte_rcu_qsbr, and reused when every registered reader has been quiescent since.
 */
#ifndef CAUSEWAY_TABLE_WRITE_H
#define CAUSEWAY_TABLE_WRITE_H

#include "table.h"

struct rte_rcu_qsbr;

enum {
	TABLE_PUT = 1,    /* inserts the entry, or replaces the one of the same key */
	TABLE_DELETE = 2, /* only the key of the entry matters; a key that is not there is no error */
};

/* One change of one table, part of a list that takes effect as a whole or not at all. */
struct table_change {
	struct table *table;
	uint64_t entry[TABLE_ENTRY / 8]; /* one of entries.h */
	uint32_t old;                    /* scratch: the slot that was replaced */
	uint32_t what;
};

struct table_stats {
	uint32_t entries;
	uint32_t retired; /* entries that wait for readers */
	uint32_t free;
	uint32_t slots;  /* all three together */
	uint32_t arrays; /* bucket arrays that wait for readers */
	uint64_t buckets;
	uint64_t at[1 + TABLE_FURTHER]; /* entries that live so many steps from home */
};

/* Makes an empty table for at most slots entries, counting retired ones. seed is random. Returns 0 or -ENOMEM. */
int table_init(struct table *t, struct rte_rcu_qsbr *rcu, uint32_t slots, const uint64_t seed[TABLE_SEED]);

/* The memory that the table takes when it is full, bytes. */
uint64_t table_bytes(const struct table *t);

/* Frees everything; no reader may be left. Works on a zeroed table, too. */
void table_fini(struct table *t);

/* Has what readers read be on a NUMA node, now and when it grows, as long as that has memory left. */
void table_near(struct table *t, int node);

/* Makes n changes in order, those that put before those that delete. Readers see one after the other. If one of them
 * fails, those before it are undone. Returns 0, -ENOSPC (no free slot, or no bucket within reach) or -ENOMEM;
 * *failed is then the number of the change that failed. */
int table_apply(struct table_change *changes, unsigned n, unsigned *failed);

/* Frees retired memory that no reader can use any more; returns the number of entries. */
unsigned table_reclaim(struct table *t);

/* Counts. Walks the whole bucket array. */
struct table_stats table_stats(const struct table *t);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source and destination look-ups for a burst, in stages, so that cache misses of all packets overlap. Packets that are
 * dropped between the stages are moved out of the arrays.
 */
#ifndef CAUSEWAY_LOOKUP_H
#define CAUSEWAY_LOOKUP_H

#include "worker.h"

struct lookup {
	const struct table *from_table, *to_table, *to_group_table;
	unsigned groups; /* packets to a group */
	bool to_group[BURST];
	struct table_key from[BURST], to[BURST];
	struct table_step from_step[BURST], to_step[BURST];
	const void *from_entry[BURST], *to_entry[BURST]; /* or NULL */
};

static inline const struct table *lookup_table(const struct lookup *l, unsigned i)
{
	return l->to_group[i] ? l->to_group_table : l->to_table;
}

static inline void lookup_begin(struct lookup *l, unsigned n)
{
	table_begin_burst(l->from_table, l->from, n, l->from_step);
	if (likely(l->groups == 0))
		table_begin_burst(l->to_table, l->to, n, l->to_step);
	else
		for (unsigned i = 0; i < n; i++)
			table_begin(lookup_table(l, i), &l->to[i], &l->to_step[i]);
}

/* Of several tables. */
static __rte_noinline void lookup_finish_mixed(struct lookup *l, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		l->to_entry[i] = table_guess(lookup_table(l, i), &l->to_step[i]);
	for (unsigned i = 0; i < n; i++)
		l->to_entry[i] = table_settle(lookup_table(l, i), &l->to[i], &l->to_step[i], l->to_entry[i]);
}

/* Finds the entries of n packets, before there is any other work on them (table_finish_burst). */
static inline void lookup_finish(struct lookup *l, unsigned n)
{
	table_finish_burst(l->from_table, l->from, l->from_step, n, l->from_entry);
	if (likely(l->groups == 0))
		table_finish_burst(l->to_table, l->to, l->to_step, n, l->to_entry);
	else
		lookup_finish_mixed(l, n);
}

/* table_mark_used(), which is seldom needed. */
static inline void mark_used(const struct datapath *dp, const uint8_t *used)
{
	if (unlikely(!__atomic_load_n(used, __ATOMIC_RELAXED)))
		table_mark_used(dp->tables, used);
}

/* Moves a packet to a lower place. */
static inline void lookup_move(struct lookup *l, unsigned to, unsigned from)
{
	l->to_group[to] = l->to_group[from];
	l->from[to] = l->from[from];
	l->to[to] = l->to[from];
	l->from_step[to] = l->from_step[from];
	l->to_step[to] = l->to_step[from];
	l->from_entry[to] = l->from_entry[from];
	l->to_entry[to] = l->to_entry[from];
}

#endif

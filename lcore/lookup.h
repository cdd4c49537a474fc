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
	const void *from_entry[BURST], *to_entry[BURST]; /* after lookup_guess() most likely right */
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

/* Entries are fetched so many packets ahead: their cache misses overlap with the work on the packets before. More at a
 * time come later than they are needed: at 64 k entries, ahead of the whole burst, a packet took 1.3 times as long. */
enum { GUESS_AHEAD = 16 };

/* Guesses the entries of packets i to n - 1. */
static inline void lookup_guess(struct lookup *l, unsigned i, unsigned n)
{
	if (unlikely(i >= n))
		return;
	table_guess_burst(l->from_table, l->from_step + i, n - i, l->from_entry + i);
	if (likely(l->groups == 0))
		table_guess_burst(l->to_table, l->to_step + i, n - i, l->to_entry + i);
	else
		for (; i < n; i++)
			l->to_entry[i] = table_guess(lookup_table(l, i), &l->to_step[i]);
}

/* Packets are worked on in stretches: begins the one from i on, and returns where it ends. The first begins at 0. */
static inline unsigned lookup_stretch(struct lookup *l, unsigned i, unsigned n)
{
	if (i == 0)
		lookup_guess(l, 0, RTE_MIN(n, (unsigned)GUESS_AHEAD));
	lookup_guess(l, i + GUESS_AHEAD, RTE_MIN(n, i + 2 * GUESS_AHEAD));
	return RTE_MIN(n, i + GUESS_AHEAD);
}

/* table_mark_used(), which is seldom needed. */
static inline void mark_used(const struct datapath *dp, const uint8_t *used)
{
	if (unlikely(!__atomic_load_n(used, __ATOMIC_RELAXED)))
		table_mark_used(dp->tables, used);
}

static inline bool lookup_guessed(const struct table_key *k, const void *guess)
{
	return guess && table_key_equal((const struct table_key *)guess, k);
}

/* Where the guess was wrong; out of the way of those that were right. */
static __rte_noinline const void *lookup_anew(const struct table *t, const struct table_key *k, uint64_t hash)
{
	return table_find(t, hash, k);
}

/* The entries, or NULL. */
static inline const void *lookup_from(const struct lookup *l, unsigned i)
{
	const void *guess = l->from_entry[i];
	if (likely(lookup_guessed(&l->from[i], guess)))
		return guess;
	return lookup_anew(l->from_table, &l->from[i], l->from_step[i].hash);
}

static inline const void *lookup_to(const struct lookup *l, unsigned i)
{
	const void *guess = l->to_entry[i];
	if (likely(lookup_guessed(&l->to[i], guess)))
		return guess;
	return lookup_anew(lookup_table(l, i), &l->to[i], l->to_step[i].hash);
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time that packets spend in the bridge: from reception until they are given to the other port, by the time-stamp
 * counter. A histogram for each worker and direction; the worker is its only writer, any thread may read.
 *
 * One burst in LATENCY_EVERY is timed, and all that it sends counts with its time. Packets that leave the burst, for
 * another worker or to wait for a proxy QP, carry the time of their reception, and their wait counts.
 */
#ifndef CAUSEWAY_PROBE_LATENCY_H
#define CAUSEWAY_PROBE_LATENCY_H

#include <rte_branch_prediction.h>
#include <rte_cycles.h>
#include <stdint.h>

/* Non-empty bursts to each one timed, a power of two: two readings of the counter take some 20 ns. 0: none is, for
 * benchmarks that measure what timing costs. */
#ifndef LATENCY_EVERY
#define LATENCY_EVERY 16
#endif

enum {
	LATENCY_SUB_BITS = 5,  /* 32 buckets in each power of two: a bound is at most 1/32 above its values */
	LATENCY_TOP_BITS = 36, /* cycles, some ten seconds; longer times share the last bucket */
	LATENCY_BUCKETS = (LATENCY_TOP_BITS - LATENCY_SUB_BITS + 1) << LATENCY_SUB_BITS,

	LATENCY_STAMP_SHIFT = 4, /* stamps are in 16 cycles, so that 32 bits go as far as the buckets do */
	LATENCY_WAITED = 1,      /* instead of a burst's beginning: each of its packets has its own stamp */
};

/* One direction of one worker. */
struct latency {
	uint64_t sum;  /* cycles, over packets */
	uint64_t max;  /* cycles */
	uint32_t turn; /* bursts so far */
	uint64_t bucket[LATENCY_BUCKETS] __attribute__((aligned(64)));
} __attribute__((aligned(64)));

/* The bucket of so many cycles: each its own below 64, then 32 of equal width in each power of two. */
static inline unsigned latency_bucket(uint64_t cycles)
{
	if (cycles < 1u << LATENCY_SUB_BITS)
		return (unsigned)cycles;
	if (cycles >> LATENCY_TOP_BITS)
		return LATENCY_BUCKETS - 1;
	unsigned shift = 63 - (unsigned)__builtin_clzll(cycles) - LATENCY_SUB_BITS;
	return (shift << LATENCY_SUB_BITS) + (unsigned)(cycles >> shift);
}

/* When the burst began that has just been received; 0: it is not timed. */
static inline uint64_t latency_begin(struct latency *l)
{
	if (!LATENCY_EVERY || likely(l->turn++ & (LATENCY_EVERY - 1)))
		return 0;
	return rte_rdtsc();
}

/* latency.c: so many packets of a burst that began then have just been given to the other port. */
void latency_note(struct latency *l, uint64_t began, unsigned packets);

/* latency.c: the same for packets with stamps of their own. */
void latency_waited(struct latency *l, const uint32_t *stamp, unsigned packets);

static inline void latency_end(struct latency *l, uint64_t began, unsigned packets)
{
	if (unlikely(began > LATENCY_WAITED) && packets)
		latency_note(l, began, packets);
}

/* The stamp of a packet that leaves a burst which began then; 0: it is not timed. */
static inline uint32_t latency_stamp(uint64_t began)
{
	return began ? (uint32_t)(began >> LATENCY_STAMP_SHIFT) | 1 : 0;
}

#endif

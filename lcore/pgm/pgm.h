/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracks the PGM streams (RFC 3208) that pass a worker. It is passive: no packet is altered, delayed or dropped.
 *
 *   hash(TSI, group, direction) ─▶ set ─▶ ┌ tsi 0-3, where 0-3 ┐ one cache line
 *                                          │ stream 0           │ sequence ▪ window of 1024 bits ▪ counts
 *                                          │ …                  │
 *                                          └ stream 3           ┘
 *
 * Memory is allocated once. In a full set a new stream replaces one that has been idle for longer than config.idle,
 * else one of a single packet, else the one idle for longest: a flood of random names evicts its own streams first.
 *
 * One thread, the worker, writes. Any thread reads: a stream is copied whole, by its version (odd while it is being
 * written), and the worker never waits for that. All words that readers read are written atomically.
 */
#ifndef CAUSEWAY_PGM_H
#define CAUSEWAY_PGM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream.h"

struct pgm_config {
	uint32_t streams; /* room for so many; rounded up to a power of two */
	bool checksum;    /* check those of packets that have one */
	uint64_t idle;    /* TSC cycles without a packet after which a stream is removed; 0: never */
	uint64_t seed[2]; /* random: senders must not be able to choose sets */
};

struct pgm {
	struct pgm_config config;
	uint32_t mask;    /* of sets */
	uint32_t sweep;   /* packets so far */
	uint64_t streams; /* in the tracker */
	uint64_t begun;   /* since the start */
	uint64_t aged;    /* removed because idle */
	uint64_t evicted; /* removed to make room */
	struct pgm_totals totals[PGM_DIRECTIONS];
	struct pgm_set set[];
} __attribute__((aligned(64)));

/* The memory that pgm_init() needs, 64-byte aligned; 0 when there is to be room for no stream, or too many. */
size_t pgm_bytes(const struct pgm_config *c);

/* Makes a tracker in memory that the caller owns. */
struct pgm *pgm_init(void *memory, const struct pgm_config *c);

/* Looks at the payload of one message to a group; direction is below PGM_DIRECTIONS. The payload need not be valid. */
void pgm_see(struct pgm *p, const uint8_t *payload, uint32_t len, uint32_t group, uint8_t direction, uint64_t tsc);

/* How many places for streams there are. */
uint32_t pgm_places(const struct pgm *p);

enum pgm_read { PGM_NOTHING, PGM_READ, PGM_BUSY };

/* Copies the stream at a place, for any thread. PGM_BUSY: it changed again and again meanwhile; try later. */
enum pgm_read pgm_read(const struct pgm *p, uint32_t place, struct pgm_stream *s);

static inline uint32_t pgm_group(const struct pgm_stream *s)
{
	return (uint32_t)(s->where >> 32);
}

static inline uint32_t pgm_direction(const struct pgm_stream *s)
{
	return s->where >> 1 & 1;
}

/* names.c: symbols and sentences of count.def and fault.def. */
extern const char *const pgm_count_symbol[PGM_COUNTS], *const pgm_count_sentence[PGM_COUNTS];
extern const char *const pgm_fault_symbol[PGM_FAULTS];

#endif

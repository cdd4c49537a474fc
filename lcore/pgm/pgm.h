/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker knows of the PGM streams (RFC 3208) that pass it. It looks on: no packet is altered, held or dropped.
 *
 *   hash(TSI, group, direction) ─▶ set ─▶ ┌ tsi 0-3, where 0-3 ┐ one cache line
 *                                          │ stream 0           │ sequence ▪ window of 1024 bits ▪ counts
 *                                          │ …                  │
 *                                          └ stream 3           ┘
 *
 * Memory is taken once. A new stream in a full set takes the place of one that has been silent for long, else of one
 * of which a single packet came, else of the one that has been silent for longest: strangers with random names push
 * out each other first.
 *
 * One thread, the worker, writes. Any thread reads: a stream is copied whole, by its version (odd while it is being
 * written), and the worker never waits for that. All words that readers read are written atomically.
 */
#ifndef CAUSEWAY_PGM_H
#define CAUSEWAY_PGM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "packet.h"

enum {
	PGM_WAYS = 4,
	PGM_WINDOW = 1024,  /* sequence numbers behind the newest whose fate is known each */
	PGM_JUMP = 1 << 20, /* a step of more is no loss, but another sequence */
	PGM_PROOF = 4,      /* so many in a row, and a sequence begins anew there */
	PGM_DIRECTIONS = 2,
	PGM_SWEEP = 64, /* packets from one look at a set for silent streams to the next */
	PGM_STREAMS_MOST = 1 << 20,
};

enum pgm_count {
#define PGM_COUNT(symbol, sentence) PGM_COUNT_##symbol,
#include "count.def"
#undef PGM_COUNT
	PGM_COUNTS
};

enum pgm_flag {
	PGM_AGAIN = 1,    /* more than one packet has come */
	PGM_BEGUN = 2,    /* lead is known */
	PGM_SPM_SEEN = 4, /* spm is known */
	PGM_FINISHED = 8, /* the source said OPT_FIN */
	PGM_RESET = 16,   /* or OPT_RST */
};

/* Numbers that do not fit, while they follow each other. */
struct pgm_run {
	uint32_t next, n;
};

/* All numbers are in host order. */
struct pgm_stream {
	uint32_t version; /* odd: is being written */
	uint32_t lead;    /* the newest sequence number */
	uint32_t trail;   /* the oldest that the source still has */
	uint32_t depth;   /* how many numbers up to lead the window knows */
	uint64_t seen;    /* TSC */
	uint64_t tsi;
	uint64_t where; /* group 32, direction 1, 1; 0: nothing is here */
	struct pgm_run run;
	uint32_t flags;
	uint32_t dport;
	uint64_t since;                 /* TSC of the first packet */
	uint64_t bits[PGM_WINDOW / 64]; /* by number modulo PGM_WINDOW: it has come */
	uint64_t counts[PGM_COUNTS];
	uint32_t spm; /* the newest SPM's number */
	struct pgm_run spm_run;
	uint32_t options;      /* a bit for each known type that has come */
	uint32_t unknown_type; /* of the last unknown option */
	uint32_t afi;          /* of nla: 1 is IPv4, 2 is IPv6, 0: none */
	uint8_t nla[16];       /* where NAKs go to, from the last SPM; wire order */
} __attribute__((aligned(64)));

struct pgm_set {
	uint64_t tsi[PGM_WAYS];
	uint64_t where[PGM_WAYS];
	struct pgm_stream stream[PGM_WAYS];
} __attribute__((aligned(64)));

/* Sums that never go down, whatever becomes of streams. */
struct pgm_totals {
	uint64_t counts[PGM_COUNTS];
	uint64_t faults[PGM_FAULTS];
} __attribute__((aligned(64)));

struct pgm_config {
	uint32_t streams; /* room for so many; rounded up to a power of two */
	bool checksum;    /* check those of packets that have one */
	uint64_t idle;    /* TSC cycles of silence after which a stream is forgotten; 0: never */
	uint64_t seed[2]; /* random: whoever chooses names must not be able to choose sets */
};

struct pgm {
	struct pgm_config config;
	uint32_t mask;    /* of sets */
	uint32_t sweep;   /* packets so far */
	uint64_t streams; /* that are here */
	uint64_t begun;   /* since the start */
	uint64_t aged;    /* forgotten after silence */
	uint64_t evicted; /* forgotten for want of room */
	struct pgm_totals totals[PGM_DIRECTIONS];
	struct pgm_set set[];
} __attribute__((aligned(64)));

_Static_assert(offsetof(struct pgm_stream, bits) == 64, "the first cache line, and then the window");
_Static_assert(offsetof(struct pgm_set, stream) == 64, "keys are one cache line");

/* The memory that pgm_init() needs, 64-byte aligned; 0 when there is to be room for no stream, or too many. */
size_t pgm_bytes(const struct pgm_config *c);

/* Makes a tracker of memory, which stays the caller's. */
struct pgm *pgm_init(void *memory, const struct pgm_config *c);

/* Looks at the payload of one message to a group; direction is below PGM_DIRECTIONS. It may be anything. */
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
extern const char *const pgm_fault_symbol[PGM_FAULTS], *const pgm_fault_sentence[PGM_FAULTS];

#endif

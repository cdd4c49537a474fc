/* SPDX-License-Identifier: Apache-2.0 */
/* The state of one PGM stream, of a set of streams, and the totals of a direction. */
#ifndef CAUSEWAY_PGM_STREAM_H
#define CAUSEWAY_PGM_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "packet.h"

enum {
	PGM_WAYS = 4,
	PGM_WINDOW = 1024,  /* sequence numbers up to the newest that are tracked one by one */
	PGM_JUMP = 1 << 20, /* a step of more is no loss, but another sequence */
	PGM_PROOF = 4,      /* so many consecutive numbers restart the sequence there */
	PGM_DIRECTIONS = 2,
	PGM_SWEEP = 64, /* packets from one check of a set for idle streams to the next */
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
	PGM_FINISHED = 8, /* the source sent OPT_FIN */
	PGM_RESET = 16,   /* the source sent OPT_RST */
};

/* A run of consecutive numbers that do not fit. */
struct pgm_run {
	uint32_t next, n;
};

/* All numbers are in host order. */
struct pgm_stream {
	uint32_t version; /* odd: is being written */
	uint32_t lead;    /* the newest sequence number */
	uint32_t trail;   /* the oldest that the source still has */
	uint32_t depth;   /* how many numbers up to lead the window knows */
	uint64_t seen;    /* TSC of the last packet */
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
	uint8_t nla[16];       /* where receivers send NAKs, from the last SPM; wire order */
} __attribute__((aligned(64)));

struct pgm_set {
	uint64_t tsi[PGM_WAYS];
	uint64_t where[PGM_WAYS];
	struct pgm_stream stream[PGM_WAYS];
} __attribute__((aligned(64)));

/* Sums over all streams, removed ones included. */
struct pgm_totals {
	uint64_t counts[PGM_COUNTS];
	uint64_t faults[PGM_FAULTS];
} __attribute__((aligned(64)));

_Static_assert(offsetof(struct pgm_stream, bits) == 64, "the first cache line, and then the window");
_Static_assert(offsetof(struct pgm_set, stream) == 64, "keys are one cache line");

#endif

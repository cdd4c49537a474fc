/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker counts. One writer each: only the worker that owns a counter writes it; anybody reads.
 * At any quiet moment received = sent + the sum of drops holds in each direction, over all writers.
 */
#ifndef CAUSEWAY_COUNTERS_H
#define CAUSEWAY_COUNTERS_H

#include <stdint.h>

#include "drop.h"

/* Counts what every good packet is counted by. A benchmark defines it away, to see what that costs. */
#ifndef COUNT
#define COUNT(counter, n) ((counter) += (n))
#endif

enum direction { ROCE_TO_IB, IB_TO_ROCE, DIRECTIONS };

/* Things worth counting about packets that live. */
enum note {
	NOTE_ECN_CE,         /* came marked CE, or with FECN set */
	NOTE_RESERVED,       /* reserved bits were set; they are cleared on the way */
	NOTE_STANDIN_WAIT,   /* waited at management for a stand-in */
	NOTE_HANDED_OVER,    /* went to the worker that owns the stand-in */
	NOTE_SOURCE_BRIDGED, /* from an unknown source, sent with the bridge's own address */
	NOTE_COUNT
};

struct direction_counters {
	uint64_t received;
	uint64_t sent;
	uint64_t sent_bytes; /* payload */
	uint64_t drops[DROP_COUNT];
	uint64_t notes[NOTE_COUNT];
};

/* Frames that are management's: ARP, ND, IGMP, MLD, ICMP. */
struct odd_counters {
	uint64_t received; /* = handed + full */
	uint64_t handed;
	uint64_t full;
	uint64_t sent; /* frames of management's that went out */
	uint64_t refused;
};

/* All that a worker writes of a group: one cache line. */
struct group_counters {
	uint64_t packets[DIRECTIONS];
	uint64_t bytes[DIRECTIONS];
	uint32_t tokens[DIRECTIONS]; /* police.h */
} __attribute__((aligned(64)));

struct counters {
	struct direction_counters direction[DIRECTIONS];
	struct odd_counters odd;
	uint64_t loops;
	uint64_t busy; /* loops that moved something */
};

#endif

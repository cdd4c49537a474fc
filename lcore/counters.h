/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's counters. Only the worker writes them; any thread may read them.
 * When nothing moves, received = sent + the sum of drops in each direction, over all workers and management.
 */
#ifndef CAUSEWAY_COUNTERS_H
#define CAUSEWAY_COUNTERS_H

#include <stdint.h>

#include "drop.h"

/* Counts on the path of every good packet. A benchmark defines it away, to measure its cost. */
#ifndef COUNT
#define COUNT(counter, n) ((counter) += (n))
#endif

enum direction { ROCE_TO_IB, IB_TO_ROCE, DIRECTIONS };

/* What is counted of packets that are not dropped. */
enum packet_event {
	EVENT_ECN_CE,         /* received with ECN CE, or with FECN */
	EVENT_RESERVED,       /* reserved bits were set; the bridge clears them */
	EVENT_PROXY_QP_WAIT,  /* punted to wait for a proxy QP */
	EVENT_HANDOFF,        /* handed off to the worker that owns the proxy QP */
	EVENT_SOURCE_BRIDGED, /* from an unknown source, sent with the bridge's own address */
	EVENT_GROUP_COPIES,   /* of those received: copies for the further segments of a group */
	EVENT_COUNT
};

struct direction_counters {
	uint64_t received;
	uint64_t sent;
	uint64_t sent_bytes; /* payload */
	uint64_t drops[DROP_COUNT];
	uint64_t events[EVENT_COUNT];
};

/* Control frames to and from management: ARP, ND, IGMP, MLD, ICMP. */
struct punt_counters {
	uint64_t received; /* = handed + full */
	uint64_t handed;
	uint64_t full;
	uint64_t sent;     /* frames from management, transmitted */
	uint64_t rejected; /* frames from management that the port did not take */
	uint64_t fenced;   /* frames from management, from a shard's MAC address without a lease */
};

/* What a worker writes for a group: one cache line. */
struct group_counters {
	uint64_t packets[DIRECTIONS];
	uint64_t bytes[DIRECTIONS];
	uint32_t tokens[DIRECTIONS]; /* police.h */
} __attribute__((aligned(64)));

/* What is counted of one of several Ethernet ports. Towards InfiniBand its frames, and what became of them; towards
 * RoCE the messages that were routed to it, which it took or did not (eth_full). */
struct port_counters {
	struct direction_counters direction[DIRECTIONS];
};

struct counters {
	struct direction_counters direction[DIRECTIONS];
	struct punt_counters punt;
	uint64_t loops;
	uint64_t busy;      /* loops that moved something */
	uint64_t sleeps;    /* until it was woken (run.c) */
	uint64_t overslept; /* of those: packets had come, and nothing had woken the worker */
};

#endif

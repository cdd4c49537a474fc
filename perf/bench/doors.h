/* SPDX-License-Identifier: Apache-2.0 */
/* What the calls of an IB door cost: posting on one loop, polling on another, each beside the far side of the door. */
#ifndef CAUSEWAY_BENCH_DOORS_H
#define CAUSEWAY_BENCH_DOORS_H

#include <stdbool.h>
#include <stdint.h>

struct ib_door;
struct nullverbs;
struct door_end;
struct rte_mempool;

enum { DOOR_PEERS = 64 };

/* What a loop has spent, in time-stamp counts. */
struct door_cost {
	uint64_t messages;
	uint64_t calls; /* of post or poll, with those whose time does not count */
	uint64_t call;  /* post or poll, and free */
	uint64_t far;   /* the device, or who is at the rings' other end */
	uint64_t bells; /* doorbells of a verbs device */
	uint64_t dropped;
};

/* One door and how it is used. Exactly one of null and end is there. */
struct door_loop {
	struct ib_door *door;
	struct nullverbs *null;
	struct door_end *end;
	struct rte_mempool *pool;
	unsigned burst; /* messages in one call, at most 64 */
	unsigned qps;   /* that take turns, at most 64 */
	uint32_t payload;
	bool polls;
	uint64_t ns; /* how long */
	struct door_cost cost;
};

/* Runs a loop on an lcore for a while, after what fills the caches. 0 or a negative errno. */
int door_loop_run(struct door_loop *l, bool polls, unsigned lcore, uint64_t ns);

/* Counts of the time-stamp counter in a second. */
uint64_t door_counts(void);

#endif

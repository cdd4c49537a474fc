/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAUSEWAY_BENCH_PORTS_H
#define CAUSEWAY_BENCH_PORTS_H

#include <stdbool.h>
#include <stdint.h>

struct nullverbs;
struct rte_mempool;

enum { PORT_PEERS = 64 };

/* What a loop has spent, in cycles of the time-stamp counter. */
struct port_cost {
	uint64_t messages;
	uint64_t calls;  /* of post or poll, including those whose time does not count */
	uint64_t call;   /* post or poll, and free */
	uint64_t device; /* the null verbs device */
	uint64_t bells;  /* doorbells */
	uint64_t dropped;
};

/* How the port of a null verbs device is used. */
struct port_loop {
	struct nullverbs *null;
	struct rte_mempool *pool;
	unsigned burst; /* messages in one call, at most 64 */
	unsigned qps;   /* used in turn, at most 64 */
	uint32_t payload;
	bool polls;
	uint64_t ns; /* duration */
	struct port_cost cost;
};

/* Runs a loop on an lcore, after some rounds that fill the caches. 0 or a negative errno. */
int port_loop_run(struct port_loop *l, unsigned lcore);

/* Frequency of the time-stamp counter. */
uint64_t port_tsc_hz(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAUSEWAY_BENCH_PORTS_H
#define CAUSEWAY_BENCH_PORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "../../ibside/port.h"

enum { PORT_PEERS = 64 };

struct hca;
struct rte_mempool;

/* What a loop has spent, in cycles of the time-stamp counter. */
struct port_cost {
	uint64_t messages; /* whose time counts */
	uint64_t call;     /* post or poll, and free */
	uint64_t device;   /* the HCA's own work */
};

/* How a verbs port is used. */
struct port_loop {
	struct hca *hca;
	struct rte_mempool *pool;
	unsigned burst; /* messages in one call, at most 64 */
	unsigned qps;   /* used in random order: a power of 2 */
	uint32_t payload, qkey;
	bool polls;
	uint64_t ns; /* duration, of calls and HCA */
	uint64_t random;
	struct ib_ah peer[PORT_PEERS];
	struct port_cost cost;
	uint64_t shortest[2]; /* round, of calls and HCA, in cycles */
};

/* Runs a loop on an lcore, after a quarter of the time that does not count. 0 or a negative errno. */
int port_loop_run(struct port_loop *l, unsigned lcore);

#endif

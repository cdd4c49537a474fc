/* SPDX-License-Identifier: Apache-2.0 */
/* The whole way: an Ethernet ring port, a production worker, and the verbs port with an HCA made of memory. */
#ifndef CAUSEWAY_BENCH_WHOLE_H
#define CAUSEWAY_BENCH_WHOLE_H

#include <stdbool.h>
#include <stdint.h>

#include "../../ibside/port.h"
#include "../../ibside/verbs/mlx5mem/mlx5mem.h"

enum { WHOLE_BURST = 64 };

struct hca;
struct null_port;
struct rte_mempool;
struct rte_ring;
struct worker;

/* What a loop has spent, in cycles of the time-stamp counter. */
struct whole_cost {
	uint64_t packets; /* whose time counts */
	uint64_t worker;
	uint64_t device; /* the HCA's own work */
};

/* A worker, and what is at its two ports. */
struct whole {
	struct ib_port null; /* a port that costs nothing, for a worker without an HCA; self is this structure */
	struct hca *hca;     /* NULL: there is none */
	struct worker *worker;
	struct null_port *layout; /* what packets look like, and how their addresses change */
	struct rte_mempool *pool;
	struct rte_ring *ring; /* frames: the Ethernet port receives from here, or sends to here */
	uint32_t qkey, payload;
	bool to_ib;
	uint64_t ns; /* duration, of worker and HCA */
	struct whole_cost cost;
	uint64_t shortest[2]; /* round, of worker and HCA, in cycles */
	/* The rig's. */
	struct rte_mbuf *posted[WHOLE_BURST];
	struct ib_recv ready[WHOLE_BURST];
	unsigned posted_n, ready_n;
	uint32_t from, to; /* of the next message, changes of addresses so far, as struct step has them */
	/* For tests: the first sends that the HCA carries out are copied here; and so many frames stay in the ring. */
	struct mlx5mem_sent *record;
	unsigned record_n, record_max, keep;
};

struct whole *whole_new(void);
void whole_free(struct whole *x);

/* Writes the same bytes into all mbufs of a pool, where packets begin. They stay there. 0 or a negative errno. */
int whole_fill(struct rte_mempool *pool, const void *data, uint32_t len);

/* Runs the loop on an lcore, after a quarter of the time that does not count. 0 or a negative errno. */
int whole_run(struct whole *x, unsigned lcore);

#endif

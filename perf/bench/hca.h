/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs port of one worker (ibside/verbs), as a bridge has it: on the installed libmlx5, made by the calls that
 * management makes. The HCA is made of memory (ibside/verbs/mlx5mem).
 */
#ifndef CAUSEWAY_BENCH_HCA_H
#define CAUSEWAY_BENCH_HCA_H

#include <stdbool.h>
#include <stdint.h>

#include "../../ibside/port.h"

struct hca;
struct rte_mempool;

struct hca_sizes {
	unsigned qps, receives;
	uint32_t qkey; /* of the queue pairs */
	bool direct;   /* without the library */
};

/* What there was so far. */
struct hca_counts {
	uint64_t posted, sent, delivered;
	uint64_t dropped;
	uint64_t bells;   /* of sends */
	uint64_t asked;   /* for address handles: as many as peers were met */
	uint64_t evicted; /* address handles that others took the place of */
	uint64_t faults;  /* breaches of the device's rules, of all ports */
};

/* From now on the only HCA is made of memory. To be called before the EAL starts. */
bool hca_begin(void);

/* 0 or a positive errno; ENOTSUP: the port is not direct. free gives all mbufs back. */
int hca_new(struct rte_mempool *pool, const struct hca_sizes *s, struct hca **out);
int hca_free(struct hca *h);

struct ib_port *hca_port(struct hca *h);

/* Queue pairs are counted from 0. */
uint32_t hca_handle(unsigned qp);
uint32_t hca_qpn(const struct hca *h, unsigned qp);

/* Makes the address handle for messages to a peer, with a GRH. Without it, the first of them would wait. 0 or a
 * positive errno. */
int hca_meet(struct hca *h, const struct ib_ah *peer);

struct hca_counts hca_count(const struct hca *h);

#endif

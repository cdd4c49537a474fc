/* SPDX-License-Identifier: Apache-2.0 */
/* What bond.c and bond_receive.c share. */
#ifndef CAUSEWAY_BOND_PARTS_H
#define CAUSEWAY_BOND_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_ethdev.h>
#include <rte_ring.h>

#include "bond.h"
#include "bond_flows.h"
#include "dpdk.h"

/* How far a member is. Frames are received by all but those that are away, and sent by those that carry. */
enum stage { AWAY, JOINING, CARRYING, LEAVING };

/* Written by the worker of that queue. */
struct member_queue {
	uint64_t inactive;
	uint64_t slow_lost;
	uint64_t empty;
	bool extra; /* it is being polled by another member's callback */
} __rte_cache_aligned;

struct member {
	struct dpdk_bond *bond;
	uint16_t port;
	bool in;          /* written while no worker polls */
	enum stage stage; /* atomic */
	const struct rte_eth_rxtx_callback *callback[DPDK_MAX_QUEUES];
	struct member_queue queue[DPDK_MAX_QUEUES];
};

struct dpdk_bond {
	uint16_t port, n, queues;
	int fd;
	bool told; /* atomic: the eventfd was written since the last look at the ring */
	struct rte_ring *came, *to_send;
	struct bond_flows *flows; /* of each queue */
	struct member member[DPDK_BOND_MEMBERS];
};

static inline enum stage bond_stage(const struct member *m)
{
	return __atomic_load_n(&m->stage, __ATOMIC_RELAXED);
}

/* A worker's callback, with what its queue of a member has received. arg is the member. */
uint16_t bond_received(uint16_t port, uint16_t queue, struct rte_mbuf **m, uint16_t n, uint16_t most, void *arg);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other members of a fleet have forwarded of shards that pass to this one: a hash set of packets' ids
 * (handover.h). Management adds while workers look; an id is not 0.
 */
#ifndef CAUSEWAY_FORWARDED_H
#define CAUSEWAY_FORWARDED_H

#include "segment.h"

enum {
	FORWARDED_SLOTS = 131072, /* a quarter of them filled at most. A power of two */
	FORWARDED_MOST = FORWARDED_SLOTS / 4,
};

/* Adds ids; false: there is no room for all, and none is added. */
bool forwarded_add(struct datapath *dp, const uint64_t *id, unsigned n);

/* Forgets all, while no worker holds a shard. */
void forwarded_forget(struct datapath *dp);

/* Whether another member has forwarded a packet. */
bool forwarded_has(const struct datapath *dp, uint64_t id);

#endif

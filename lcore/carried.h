/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other members of a fleet have carried of shards that pass to this one: a hash set of packets' ids (handover.h).
 * Management adds while workers look; an id is not 0.
 */
#ifndef CAUSEWAY_CARRIED_H
#define CAUSEWAY_CARRIED_H

#include "segment.h"

enum {
	CARRIED_SLOTS = 131072, /* a quarter of them filled at most. A power of two */
	CARRIED_MOST = CARRIED_SLOTS / 4,
};

/* Adds ids; false: there is no room for all, and none is added. */
bool carried_add(struct datapath *dp, const uint64_t *id, unsigned n);

/* Forgets all, while no worker holds a shard. */
void carried_forget(struct datapath *dp);

/* Whether another member has carried a packet. */
bool carried_has(const struct datapath *dp, uint64_t id);

#endif

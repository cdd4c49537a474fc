/* SPDX-License-Identifier: Apache-2.0 */
#include "carried.h"

#include <string.h>

/* The slot of an id, or the free one that it would have. */
static uint64_t *slot(const struct lease *r, uint64_t id)
{
	unsigned i = (unsigned)(id & (CARRIED_SLOTS - 1));
	for (;; i = (i + 1) & (CARRIED_SLOTS - 1)) {
		uint64_t has = __atomic_load_n(&r->carried[i], __ATOMIC_RELAXED);
		if (has == id || has == 0)
			return &r->carried[i];
	}
}

bool carried_add(struct datapath *dp, const uint64_t *id, unsigned n)
{
	struct lease *r = &dp->lease;
	if (n > CARRIED_MOST - r->n_carried)
		return false;
	for (unsigned i = 0; i < n; i++)
		__atomic_store_n(slot(r, id[i]), id[i], __ATOMIC_RELAXED);
	r->n_carried += n;
	return true;
}

bool carried_has(const struct datapath *dp, uint64_t id)
{
	return *slot(&dp->lease, id) == id;
}

void carried_forget(struct datapath *dp)
{
	memset(dp->lease.carried, 0, CARRIED_SLOTS * sizeof *dp->lease.carried);
	dp->lease.n_carried = 0;
}

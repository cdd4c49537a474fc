/* SPDX-License-Identifier: Apache-2.0 */
#include "forwarded.h"

#include <string.h>

/* The slot of an id, or the free one that it would have. */
static uint64_t *slot(const struct lease *r, uint64_t id)
{
	unsigned i = (unsigned)(id & (FORWARDED_SLOTS - 1));
	for (;; i = (i + 1) & (FORWARDED_SLOTS - 1)) {
		uint64_t has = __atomic_load_n(&r->forwarded[i], __ATOMIC_RELAXED);
		if (has == id || has == 0)
			return &r->forwarded[i];
	}
}

bool forwarded_add(struct datapath *dp, const uint64_t *id, unsigned n)
{
	struct lease *r = &dp->lease;
	if (n > FORWARDED_MOST - r->n_forwarded)
		return false;
	for (unsigned i = 0; i < n; i++)
		__atomic_store_n(slot(r, id[i]), id[i], __ATOMIC_RELAXED);
	r->n_forwarded += n;
	return true;
}

bool forwarded_has(const struct datapath *dp, uint64_t id)
{
	return *slot(&dp->lease, id) == id;
}

void forwarded_forget(struct datapath *dp)
{
	memset(dp->lease.forwarded, 0, FORWARDED_SLOTS * sizeof *dp->lease.forwarded);
	dp->lease.n_forwarded = 0;
}

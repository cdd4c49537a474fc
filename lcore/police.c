/* SPDX-License-Identifier: Apache-2.0 */
#include "police.h"

#include <rte_common.h>
#include <rte_cycles.h>

bool police_refill(struct worker *w, uint32_t group, enum direction d)
{
	struct police *p = &w->datapath->police[group * DIRECTIONS + d];
	uint64_t interval = __atomic_load_n(&p->interval, __ATOMIC_RELAXED);
	uint64_t window = __atomic_load_n(&p->window, __ATOMIC_RELAXED);
	uint64_t now = rte_rdtsc(), used = __atomic_load_n(&p->used, __ATOMIC_RELAXED);
	if (interval == 0)
		return true;
	for (;;) {
		uint64_t from = used + window < now ? now - window : used;
		if (from + interval > now)
			return false;
		uint64_t there = (now - from) / interval, some = RTE_MIN(there / 8, (uint64_t)POLICE_MANY);
		uint64_t n = RTE_MIN(there, RTE_MAX(some, (uint64_t)POLICE_SOME));
		if (__atomic_compare_exchange_n(&p->used, &used, from + n * interval, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED)) {
			w->groups[group].tokens[d] = (uint32_t)(n - 1);
			return true;
		}
	}
}

/* The window is ten milliseconds, but at least a worker's burst. */
void police_set(struct police *p, uint64_t rate, uint64_t hz)
{
	uint64_t interval = rate ? RTE_MAX(hz / rate, UINT64_C(1)) : 0;
	__atomic_store_n(&p->window, RTE_MAX(hz / 100, BURST * interval), __ATOMIC_RELAXED);
	__atomic_store_n(&p->interval, interval, __ATOMIC_RELAXED);
}

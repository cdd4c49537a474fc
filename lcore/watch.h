/* SPDX-License-Identifier: Apache-2.0 */
/* What only some groups want to have done with their messages: a test of one byte for all others. */
#ifndef CAUSEWAY_WATCH_H
#define CAUSEWAY_WATCH_H

#include <rte_branch_prediction.h>
#include <rte_cycles.h>

#include "pgm/pgm.h"
#include "police.h"

/* flags and group are those of the group's entry. */
static inline enum drop watch(struct worker *w, uint8_t flags, uint32_t group, enum direction d, const uint8_t *payload,
			      uint32_t len)
{
	if (likely(!(flags & GROUP_WATCHED)))
		return PASS;
	if ((flags & GROUP_POLICED) && unlikely(!police(w, group, d)))
		return DROP_policed;
	if ((flags & GROUP_PGM) && w->pgm)
		pgm_see(w->pgm, payload, len, group, (uint8_t)d, rte_rdtsc());
	return PASS;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Rate limit and PGM tracking, which only some groups have: for all others a test of one byte. */
#ifndef CAUSEWAY_GROUP_ACTIONS_H
#define CAUSEWAY_GROUP_ACTIONS_H

#include <rte_branch_prediction.h>
#include <rte_cycles.h>

#include "pgm/pgm.h"
#include "police.h"

/* flags and group are from the group's table entry. */
static inline enum drop group_actions(struct worker *w, uint8_t flags, uint32_t group, enum direction d,
				      const uint8_t *payload, uint32_t len)
{
	if (likely(!(flags & GROUP_ACTIONS)))
		return PASS;
	if ((flags & GROUP_POLICED) && unlikely(!police(w, group, d)))
		return DROP_policed;
	if ((flags & GROUP_PGM) && w->pgm)
		pgm_see(w->pgm, payload, len, group, (uint8_t)d, rte_rdtsc());
	return PASS;
}

#endif

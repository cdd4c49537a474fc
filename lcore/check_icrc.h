/* SPDX-License-Identifier: Apache-2.0 */
/* The stage towards InfiniBand that drops packets whose ICRC is wrong. Look-ups begin beside it. */
#ifndef CAUSEWAY_CHECK_ICRC_H
#define CAUSEWAY_CHECK_ICRC_H

#include "exception.h"

/* A datagram of plain UDP has no ICRC, and its job no meaning. */
static bool has_icrc(const struct burst *b, unsigned i)
{
	return b->trim[i].fastpath || !b->parsed[i].plain;
}

static __rte_noinline void drop_wrong(struct worker *w, struct burst *b, const uint32_t *right)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < b->n; i++) {
		if (right[i] != load32(b->icrc[i].p + b->icrc[i].len) && has_icrc(b, i)) {
			drop_packet(w, ROCE_TO_IB, precise_drop(w->datapath, b, i, DROP_icrc), b->send[i].mbuf);
			continue;
		}
		if (unlikely(kept != i))
			burst_move(b, kept, i);
		kept++;
	}
	b->n = kept;
}

static inline bool all_right(const struct burst *b, const uint32_t *right)
{
	uint32_t wrong = 0;
	for (unsigned i = 0; i < b->n; i++)
		wrong |= right[i] ^ load32(b->icrc[i].p + b->icrc[i].len);
	return wrong == 0;
}

/* The whole burst at once, because the multiplications of several short packets overlap. */
static inline void check_icrc(struct worker *w, struct burst *b)
{
	uint32_t right[BURST];
	icrc_burst(b->icrc, b->n, right);
	if (unlikely(!all_right(b, right)))
		drop_wrong(w, b, right);
}

/* Buckets are fetched while the ICRCs are computed. Those of long packets read more than the first cache holds, and
 * would evict them again. */
static inline void check_and_look_up(struct worker *w, struct burst *b)
{
	enum { LONG = 512 };
	bool late = b->n && b->icrc[0].len > LONG;
	if (!late)
		lookup_begin(&b->lookup, b->n);
	check_icrc(w, b);
	if (late)
		lookup_begin(&b->lookup, b->n);
}

#endif

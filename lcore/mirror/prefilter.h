/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules out most packets that a filter by host, group or QPN does not want, by comparing a few words of each packet.
 * Never one that it wants: the others are compared with the filter itself (endpoints.h).
 *
 *   tables ── resolve, when they have changed ──▶ addresses and LIDs of the host
 *                                                   │ compare
 *   burst ── words of each packet ──────────────────┴──▶ packets that may be wanted, as bits
 */
#ifndef CAUSEWAY_MIRROR_PREFILTER_H
#define CAUSEWAY_MIRROR_PREFILTER_H

#include "../burst.h"
#include "packet.h"

/* Words of a burst's packets, up to three of each; 0 where a packet has none. */
struct words {
	uint32_t pair[BURST][2];
	uint32_t third[BURST];
};

struct mirror_words {
	bool with_qpns;       /* set before: whether a filter compares QPNs */
	bool with_third;      /* some packets have a third word */
	bool with_lids;       /* the source of some messages is known by their LID alone */
	struct words address; /* the last four bytes of each, as in the packet */
	struct words qpn;
	uint16_t lid[BURST];
};

void words_of_frames(struct mirror_words *w, struct rte_mbuf *const *m, unsigned n);
void words_of_messages(struct mirror_words *w, struct mirrors *all, const struct ib_recv *r, unsigned n);
void words_of_sends(struct mirror_words *w, const struct burst *b);

/* Returns which of n packets a filter may want, as bits. */
uint64_t prefilter(struct mirror_prefilter *p, const struct mirror_filter *f, const struct tables *t,
		   const struct mirror_words *w, unsigned n);

#endif

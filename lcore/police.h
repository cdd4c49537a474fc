/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rate limits of groups, per direction: a token for each packet. Tokens come from a store that all workers share, where
 * a group's state is one word, the time up to which its rate is used (the GCRA of ITU-T I.371 §5.4.4.2). A worker takes
 * several tokens at a time, so that it seldom writes the shared word; a rate can be exceeded by those it has left.
 */
#ifndef CAUSEWAY_POLICE_H
#define CAUSEWAY_POLICE_H

#include "worker.h"

/* Tokens that a worker takes at a time: an eighth of those there are, within these limits. */
enum { POLICE_SOME = 32, POLICE_MANY = 1024 };

/* A group's rate in one direction. */
struct police {
	uint64_t interval; /* TSC cycles a packet; 0: no limit. Atomic, written by management */
	uint64_t window;   /* cycles: tokens that are not used for longer are lost. Atomic, written by management */
	uint64_t used;     /* atomic, in TSC cycles; written by all workers */
} __attribute__((aligned(64)));

/* police.c: takes tokens from the shared store. False when there is none. */
bool police_refill(struct worker *w, uint32_t group, enum direction d);

/* police.c: sets a group's rate, packets a second; 0: no limit. hz is the TSC's. */
void police_set(struct police *p, uint64_t rate, uint64_t hz);

/* Whether a packet of the group may pass. */
static inline bool police(struct worker *w, uint32_t group, enum direction d)
{
	uint32_t *tokens = &w->groups[group].tokens[d];
	if (unlikely(*tokens == 0))
		return police_refill(w, group, d);
	--*tokens;
	return true;
}

#endif

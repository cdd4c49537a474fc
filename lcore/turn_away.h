/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets that do not go on from where they are: dropped by a name, or another's from here on, who has them come back
 * by its again ring: management, when there is no stand-in yet; the worker that owns it.
 */
#ifndef CAUSEWAY_TURN_AWAY_H
#define CAUSEWAY_TURN_AWAY_H

#include "burst.h"

/* False: there is no room for it. */
bool give_to_management(struct worker *w, enum sight_point p, enum drop reason, struct rte_mbuf *m);

/* Packet i is about to be dropped. If it is a plain one, the long way may find something wrong that comes before that.
 */
enum drop name_drop(const struct bench *b, struct burst *u, unsigned i, enum drop reason);

/* Hands what belongs to other workers over, to each all that is its own at once: its ring is shared, and expensive. */
void hand_over(struct worker *w, struct aside *a);

/* Packet i, which this worker does not send: d says why, or its stand-in is missing, or another worker's. */
void turn_away(struct worker *w, struct burst *b, unsigned i, enum drop d, bool again);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets that leave the burst: dropped, kept until their shard is this bridge's, punted to management because there is
 * no proxy QP yet or their host may have moved, or handed off to the worker that owns the proxy QP. The latter two come
 * back by a requeue ring.
 */
#ifndef CAUSEWAY_EXCEPTION_H
#define CAUSEWAY_EXCEPTION_H

#include <rte_ring.h>

#include "burst.h"
#include "punt.h"

/* Gives a frame to management, with what it needs to know (enum punt); false: the punt ring has no room for its
 * sender's. */
bool punt_frame(struct worker *w, enum mirror_point p, enum drop reason, struct rte_mbuf *m, uint32_t what,
		struct punter from);

/* Returns the drop reason of packet i, which is about to be dropped. If it came by the fast path, parse.c may find a
 * reason that comes earlier. */
enum drop precise_drop(const struct datapath *dp, struct burst *b, unsigned i, enum drop reason);

/* Hands packets off to other workers, all packets of one worker at once: its ring has many producers and is expensive.
 */
void send_handoffs(struct worker *w, struct handoff *h);

/* Drops, keeps, punts or hands off packet i: d is a drop reason, or else its proxy QP is missing or another worker's,
 * or its host is known by another MAC address. */
void exception_path(struct worker *w, struct burst *b, unsigned i, enum drop d, enum origin from);

#endif

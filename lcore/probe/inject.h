/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults on purpose, for tests and drills: what enters a direction is dropped, doubled, put behind its successor or
 * held up, by shares. It happens at the door, as if the network had done it, before anybody has looked at the packet:
 *
 *   port or door ─▶ drop ▶ double ▶ hold up ▶ reorder ─▶ the direction          held up ─▶ queue ─▶ the direction
 *
 * What is dropped counts as received and as dropped; a double counts as received; what is held, when it comes out.
 *
 * Settings are never changed, but replaced: management puts new ones into a slot, the worker takes them out. Whoever
 * takes one out of a slot owns it. The worker first lets out what the old ones hold.
 */
#ifndef CAUSEWAY_PROBE_INJECT_H
#define CAUSEWAY_PROBE_INJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "../counters.h"

struct rte_mbuf;
struct ib_recv;
struct inject;
struct worker;

enum {
	INJECT_HELD = 4096,    /* packets of one worker and direction that may be held at once */
	INJECT_POOL_PART = 8,  /* and all together no more than this part of their mempool */
	INJECT_REORDER_MS = 5, /* a packet waits no longer than this for one that overtakes it */
};

/* What is to be done. Shares are of 2^32. */
struct inject_settings {
	uint64_t drop, duplicate, reorder, delay_share;
	uint64_t delay;   /* TSC cycles */
	uint64_t seed;    /* the same seed and packets: the same choices */
	uint32_t workers; /* of the bench, who share the mempool */
};

/* One direction of a worker. */
struct injection {
	struct inject *live;  /* the worker's; NULL: nothing is injected */
	struct inject *next;  /* atomic: from management to the worker */
	struct inject *spent; /* atomic: a list, back to management, which frees them */
	unsigned taken;       /* how many the last call received, whatever came out */
};

/* For management. inject_new() makes settings of worker number id, NULL without memory; inject_put() has the worker
 * inject by them from its next round on. inject_discard() ends settings that were not put. */
struct inject *inject_new(const struct inject_settings *s, unsigned id, enum direction d);
void inject_put(struct worker *w, enum direction d, struct inject *x);
void inject_discard(struct inject *x);

/* Frees all there is. Only when the worker has stopped: what is still held is then counted as received and lost by
 * shutdown. */
void inject_end(struct worker *w);

/* For the worker. In place of rte_eth_rx_burst() and the door's poll(), while there are live settings: up to BURST
 * packets. */
unsigned inject_frames(struct worker *w, struct rte_mbuf **m);
unsigned inject_messages(struct worker *w, struct ib_recv *r);

/* Takes new settings out of their slots, when the old ones hold nothing any more. */
void inject_turn(struct worker *w);

/* Lets out what is held, with the next bursts, and lets nothing more in. */
void inject_leave(struct worker *w);

/* Whether there is something for inject_turn(). */
static inline bool inject_wanted(const struct injection *both)
{
	return (uintptr_t)__atomic_load_n(&both[ROCE_TO_IB].next, __ATOMIC_RELAXED) |
	       (uintptr_t)__atomic_load_n(&both[IB_TO_ROCE].next, __ATOMIC_RELAXED);
}

#endif

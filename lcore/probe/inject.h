/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault injection, for tests and drills: packets that enter a direction are dropped, duplicated, delayed or reordered,
 * by shares. It takes the place of receiving, as if the network had done it, before a packet is parsed:
 *
 *   port ─▶ drop ▶ duplicate ▶ delay ▶ reorder ─▶ the direction
 *                            └▶ queue ─▶ the direction
 *
 * A dropped packet counts as received and as dropped; a duplicate as received; a delayed packet when it is released.
 *
 * Settings are never changed, but replaced: management puts new ones into a slot, the worker takes them out. Whoever
 * takes settings out of a slot owns them. The worker first releases the packets that the old ones delay.
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
	INJECT_DELAYED = 4096, /* packets of one worker and direction that may be delayed at once */
	INJECT_POOL_PART = 8,  /* and all together no more than this part of their mempool */
	INJECT_REORDER_MS = 5, /* a packet waits no longer than this for one that overtakes it */
};

/* Shares are of 2^32. */
struct inject_settings {
	uint64_t drop, duplicate, reorder, delay_share;
	uint64_t delay;   /* TSC cycles */
	uint64_t seed;    /* the same seed and packets: the same choices */
	uint32_t workers; /* how many share the mempool */
};

/* One direction of a worker. */
struct injection {
	struct inject *live;  /* owned by the worker; NULL: nothing is injected */
	struct inject *next;  /* atomic: from management to the worker */
	struct inject *spent; /* atomic: a list, back to management, which frees them */
	unsigned taken;       /* packets that the last call received */
};

/* For management. inject_new() makes settings of worker number id, NULL without memory; inject_put() makes the worker
 * use them from its next iteration on. inject_discard() frees settings that were not put. */
struct inject *inject_new(const struct inject_settings *s, unsigned id, enum direction d);
void inject_put(struct worker *w, enum direction d, struct inject *x);
void inject_discard(struct inject *x);

/* Frees everything, when the worker has stopped: delayed packets count as received and dropped by shutdown. */
void inject_end(struct worker *w);

/* For the worker. In place of rte_eth_rx_burst() and the port's poll(), while there are live settings: up to BURST
 * packets. */
unsigned inject_frames(struct worker *w, unsigned port, struct rte_mbuf **m);
unsigned inject_messages(struct worker *w, struct ib_recv *r);

/* Takes new settings out of their slots, when the old ones delay no packet any more. */
void inject_update(struct worker *w);

/* Releases delayed packets with the next bursts, and receives no more. */
void inject_drain(struct worker *w);

/* Whether there is something for inject_update(). */
static inline bool inject_update_wanted(const struct injection *both)
{
	return (uintptr_t)__atomic_load_n(&both[ROCE_TO_IB].next, __ATOMIC_RELAXED) |
	       (uintptr_t)__atomic_load_n(&both[IB_TO_ROCE].next, __ATOMIC_RELAXED);
}

#endif

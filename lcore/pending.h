/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets that must not overtake older ones of their sender, which management has. A worker finds a proxy QP as soon as
 * it is in the table; what waited for it comes back a moment later:
 *
 *   1 ─ no proxy QP: punted ─▶ management makes it ─▶ requeued, or rejected ─┐
 *   2 ─ there is one: waits behind 1 ────────────────────────────────────────┴▶ 1, 2
 *
 * A sender is a (host, QPN), by one MAC address, so that nobody holds up another's packets by taking its address. It is
 * known by a keyed hash: two of one hash wait for each other, which is no harm, and so do its packets to several
 * partitions. Of more senders than there is room for, as in a flood, the order is not kept.
 */
#ifndef CAUSEWAY_PENDING_H
#define CAUSEWAY_PENDING_H

#include "burst.h"
#include "lease.h"

enum {
	PENDING_SETS = 512, /* of senders. A power of two */
	PENDING_WAYS = 4,
	BEHIND_MOST = 1024, /* packets that wait behind others. A power of two */
	BEHIND_BURSTS = 4,  /* that are sent of them in a turn: more than come meanwhile */
};

struct pending_sender {
	uint32_t tag;    /* of its hash; the lower bits choose the set */
	uint32_t away;   /* atomic: packets that management has. Only the worker adds to it */
	uint32_t behind; /* packets that wait behind those */
	uint32_t turn;   /* the last turn in which it was found to wait */
};

/* One worker's. */
struct pending {
	uint32_t away; /* atomic: of all senders */
	uint32_t turn;
	unsigned first, behind; /* behind is atomic */
	struct rte_mbuf *packet[BEHIND_MOST];
	struct pending_sender sender[PENDING_SETS * PENDING_WAYS] __attribute__((aligned(64)));
};

/* Packet i of a burst is about to be punted, to wait. */
void pending_punt(struct worker *w, const struct burst *b, unsigned i);

/* Management has it no more: it has come back, was rejected, or was not punted. Any thread. */
void pending_end(struct worker *w, struct rte_mbuf *m);

/* A packet for another worker's requeue ring has not been at management. */
static inline void pending_none(struct rte_mbuf *m)
{
	m->tx_offload = 0; /* who receives an mbuf has it for himself until he sends it */
}

/* Whether there is any sender with something to wait for. */
static inline bool pending_any(const struct worker *w)
{
	const struct pending *p = w->pending;
	return __atomic_load_n(&p->away, __ATOMIC_RELAXED) | p->behind;
}

/* Whether nothing waits behind others. Any thread. */
static inline bool pending_nothing_behind(const struct worker *w)
{
	return __atomic_load_n(&w->pending->behind, __ATOMIC_RELAXED) == 0;
}

/* The sender of packet i. */
static inline uint64_t pending_sender_of(const struct burst *b, unsigned i)
{
	uint64_t h = (b->lookup.from_step[i].hash ^ source_mac(b->send[i].mbuf)) * SHARE_GOLDEN;
	return h ^ h >> 32;
}

static inline struct pending_sender *pending_set(struct worker *w, uint64_t sender)
{
	return &w->pending->sender[(sender >> 32) % PENDING_SETS * PENDING_WAYS];
}

/* Whether packet i may have to wait: seldom, even while many do. */
static inline bool pending_may_keep(struct worker *w, const struct burst *b, unsigned i)
{
	uint64_t sender = pending_sender_of(b, i);
	const struct pending_sender *s = pending_set(w, sender);
	bool may = false;
	for (unsigned k = 0; k < PENDING_WAYS; k++)
		may |= s[k].tag == (uint32_t)sender;
	return may;
}

/* Keeps packet i if it has to wait behind others of its sender; when too many do, it is dropped. False: it need not. */
bool pending_keeps(struct worker *w, const struct burst *b, unsigned i, enum origin from);

/* Takes at most a burst of what need not wait any more. */
unsigned pending_take(struct worker *w, struct rte_mbuf **m);

/* Drops all that waits behind others, at the worker's end. */
void pending_drop(struct worker *w);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The way from a worker to a watcher: fixed slots, one producer, one consumer, and what was staged. */
#ifndef CAUSEWAY_SIGHT_RING_H
#define CAUSEWAY_SIGHT_RING_H

#include "sight.h"

struct worker;

struct sight_ring {
	uint32_t slots;                             /* a power of two */
	uint32_t slot;                              /* bytes of one, a multiple of 64 */
	uint32_t snap;                              /* bytes copied of a packet, at most */
	uint64_t head __attribute__((aligned(64))); /* the producer's; slots filled */
	uint64_t missed;                            /* sights for which there was no slot */
	uint64_t staged_missed;                     /* bits, by place in the burst */
	uint32_t staged;
	uint64_t tail __attribute__((aligned(64))); /* the consumer's; slots read */
	uint8_t data[] __attribute__((aligned(64)));
};

/* Makes a ring, all of whose pages are there; NULL when there is no memory. slots becomes a power of two. */
struct sight_ring *sight_ring_new(uint32_t slots, uint32_t snap);
void sight_ring_free(struct sight_ring *r);

/* The consumer's: the oldest sight, or NULL; and done with it. */
const struct sight *sight_ring_peek(const struct sight_ring *r);
void sight_ring_pop(struct sight_ring *r);
uint64_t sight_ring_missed(const struct sight_ring *r);

/* The producer's: a slot behind those staged already, or NULL; and all that are staged are there. */
struct sight *sight_ring_slot(struct sight_ring *r);
void sight_ring_publish(struct sight_ring *r, uint32_t n);

static inline uint8_t *sight_data(struct sight *s)
{
	return (uint8_t *)(s + 1);
}

/* Registers the field of mbufs that holds a packet's number. Before anybody watches; 0 or a negative errno. */
int sight_prepare(void);

/* The same for who has no EAL: where in an mbuf there are eight bytes to spare. */
void sight_prepare_at(int offset);

/* Has a worker see by s, or NULL, from its next burst on; returns what it had. */
struct sights *sight_exchange(struct worker *w, struct sights *s);

/* A grace period: passed() of the token is true when no worker uses what was exchanged before. */
uint64_t sight_token(const struct worker *w);
bool sight_passed(const struct worker *w, uint64_t token);

#endif

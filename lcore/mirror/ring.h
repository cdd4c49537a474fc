/* SPDX-License-Identifier: Apache-2.0 */
/* The ring from a worker to a mirror: fixed slots, one producer, one consumer; and the slots that are staged. */
#ifndef CAUSEWAY_MIRROR_RING_H
#define CAUSEWAY_MIRROR_RING_H

#include "packet.h"

struct worker;

struct mirror_ring {
	uint32_t slots;                             /* a power of two */
	uint32_t slot;                              /* bytes of one, a multiple of 64 */
	uint32_t snap;                              /* bytes copied of a packet, at most */
	uint64_t head __attribute__((aligned(64))); /* the producer's; slots filled */
	uint64_t missed;                            /* mirrored packets for which there was no slot */
	uint64_t staged_missed;                     /* bits, by place in the burst */
	uint32_t staged;
	uint64_t tail __attribute__((aligned(64))); /* the consumer's; slots read */
	uint8_t data[] __attribute__((aligned(64)));
};

/* Makes a ring and touches all its pages; NULL when there is no memory. slots is rounded up to a power of two. */
struct mirror_ring *mirror_ring_new(uint32_t slots, uint32_t snap);
void mirror_ring_free(struct mirror_ring *r);

/* For the consumer: the oldest mirrored packet, or NULL; then frees its slot. */
const struct mirrored_packet *mirror_ring_peek(const struct mirror_ring *r);
void mirror_ring_pop(struct mirror_ring *r);
uint64_t mirror_ring_missed(const struct mirror_ring *r);

/* For the producer: the slot behind those staged, or NULL; then publishes those staged. */
struct mirrored_packet *mirror_ring_slot(struct mirror_ring *r);
void mirror_ring_publish(struct mirror_ring *r, uint32_t n);

static inline uint8_t *mirror_data(struct mirrored_packet *s)
{
	return (uint8_t *)(s + 1);
}

/* Replaces a worker's mirrors, by NULL for none, from its next burst on; returns the old ones. */
struct mirrors *mirror_exchange(struct worker *w, struct mirrors *s);

/* A grace period: mirror_passed() of the token is true when no worker uses mirrors that were replaced before. */
uint64_t mirror_token(const struct worker *w);
bool mirror_passed(const struct worker *w, uint64_t token);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "ring.h"

#include <rte_common.h>
#include <rte_rcu_qsbr.h>
#include <stdlib.h>
#include <string.h>

#include "../worker.h"

struct mirror_ring *mirror_ring_new(uint32_t slots, uint32_t snap)
{
	slots = rte_align32pow2(RTE_MAX(slots, 1u));
	uint32_t slot = RTE_ALIGN_CEIL((uint32_t)sizeof(struct mirrored_packet) + snap, 64u);
	size_t size = sizeof(struct mirror_ring) + (size_t)slots * slot;
	struct mirror_ring *r = aligned_alloc(64, RTE_ALIGN_CEIL(size, (size_t)64));
	if (!r)
		return NULL;
	memset(r, 0, size); /* so that the worker takes no page faults */
	r->slots = slots;
	r->slot = slot;
	r->snap = snap;
	return r;
}

void mirror_ring_free(struct mirror_ring *r)
{
	free(r);
}

static struct mirrored_packet *slot_at(const struct mirror_ring *r, uint64_t i)
{
	const uint8_t *p = r->data + (i & (r->slots - 1)) * r->slot;
	return (struct mirrored_packet *)(uintptr_t)p;
}

const struct mirrored_packet *mirror_ring_peek(const struct mirror_ring *r)
{
	if (__atomic_load_n(&r->head, __ATOMIC_ACQUIRE) == r->tail)
		return NULL;
	return slot_at(r, r->tail);
}

void mirror_ring_pop(struct mirror_ring *r)
{
	__atomic_store_n(&r->tail, r->tail + 1, __ATOMIC_RELEASE);
}

uint64_t mirror_ring_missed(const struct mirror_ring *r)
{
	return __atomic_load_n(&r->missed, __ATOMIC_RELAXED);
}

struct mirrored_packet *mirror_ring_slot(struct mirror_ring *r)
{
	uint64_t next = r->head + r->staged;
	if (next - __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE) >= r->slots)
		return NULL;
	return slot_at(r, next);
}

void mirror_ring_publish(struct mirror_ring *r, uint32_t n)
{
	__atomic_store_n(&r->head, r->head + n, __ATOMIC_RELEASE);
	r->staged = 0;
}

struct mirrors *mirror_exchange(struct worker *w, struct mirrors *s)
{
	return __atomic_exchange_n(&w->mirrors, s, __ATOMIC_ACQ_REL);
}

uint64_t mirror_token(const struct worker *w)
{
	return rte_rcu_qsbr_start(w->datapath->tables->rcu);
}

bool mirror_passed(const struct worker *w, uint64_t token)
{
	return rte_rcu_qsbr_check(w->datapath->tables->rcu, token, false) == 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's cache of address handles: sets of VERBS_AH_WAYS entries. The worker alone changes it. A handle
 * that is missing is asked from management, because creating one may block for a second.
 */
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_ring.h>

#include "door.h"

/* What does not matter on the link is zero: one handle for all that differ in it. Keys are compared as bytes,
 * so the padding is zero too. */
static void make_key(const struct verbs_worker *w, struct ah_key *k, const struct ib_ah *ah, bool global)
{
	memset(k, 0, sizeof(*k));
	k->global = global || w->dev->ethernet; /* RoCE has no other address */
	k->ah.sl = ah->sl;
	if (!w->dev->ethernet)
		k->ah.dlid = ah->dlid;
	if (!k->global)
		return;
	memcpy(k->ah.dgid, ah->dgid, sizeof(k->ah.dgid));
	k->ah.hop_limit = ah->hop_limit;
	k->ah.tclass = ah->tclass;
	k->ah.source = ah->source;
	k->ah.flow_label = ah->flow_label;
}

_Static_assert(sizeof(struct ah_key) == 32, "a key is four words");

static unsigned set_of(const struct verbs_worker *w, const struct ah_key *k)
{
	uint64_t word[4], h = 0;

	memcpy(word, k, sizeof(word));
	for (int i = 0; i < 4; i++) {
		h = (h ^ word[i]) * 0x9e3779b97f4a7c15;
		h ^= h >> 32;
	}
	return (unsigned)h & (w->ah_sets - 1);
}

/* Returns an entry to use anew: an empty one, else one that was not used since the last look. */
static struct ah_entry *make_room(struct verbs_worker *w, struct ah_entry *set)
{
	for (int i = 0; i < VERBS_AH_WAYS; i++)
		if (set[i].state == AH_EMPTY)
			return &set[i];
	for (int i = 0; i < 2 * VERBS_AH_WAYS; i++) {
		struct ah_entry *e = &set[i % VERBS_AH_WAYS];
		if (e->state != AH_READY)
			continue;
		if (e->used) {
			e->used = false;
			continue;
		}
		if (rte_ring_sp_enqueue(w->retired, e->ah))
			return NULL;
		e->state = AH_EMPTY;
		w->counters.evicted++;
		return e;
	}
	return NULL;
}

struct ah_entry *verbs_ah_find(struct verbs_worker *w, const struct ib_ah *ah, bool global)
{
	struct ah_key k;

	make_key(w, &k, ah, global);
	struct ah_entry *set = &w->ahs[(size_t)set_of(w, &k) * VERBS_AH_WAYS];
	for (int i = 0; i < VERBS_AH_WAYS; i++)
		if (set[i].state != AH_EMPTY && memcmp(&set[i].key, &k, sizeof(k)) == 0) {
			set[i].used = true;
			return &set[i];
		}
	if (rte_ring_full(w->asks))
		return NULL;
	struct ah_entry *e = make_room(w, set);
	if (unlikely(!e))
		return NULL;
	*e = (struct ah_entry){.key = k, .state = AH_PENDING, .used = true};
	w->counters.asked++;
	rte_ring_sp_enqueue(w->asks, e);
	return e;
}

/* An answer to a pending entry is its handle or none; to a failed one, that it may be forgotten. */
bool verbs_ah_answers(struct verbs_worker *w)
{
	void *p;
	bool any = false;

	while (rte_ring_sc_dequeue(w->answers, &p) == 0) {
		struct ah_entry *e = p;
		any = true;
		if (e->state == AH_FAILED) {
			e->state = AH_EMPTY;
			continue;
		}
		e->ah = e->answer;
		e->state = e->ah ? AH_READY : AH_FAILED;
	}
	return any;
}

/* The next message that wants it asks anew. */
void verbs_ah_retire(struct verbs_worker *w, struct ah_entry *e)
{
	if (e->state == AH_READY && rte_ring_sp_enqueue(w->retired, e->ah) == 0)
		e->state = AH_EMPTY;
}

void verbs_ah_flush(struct verbs_worker *w)
{
	uint32_t asked = atomic_load_explicit(&w->flush_asked, memory_order_acquire);

	if (likely(asked == w->flushed))
		return;
	w->flushed = asked;
	for (size_t i = 0; i < (size_t)w->ah_sets * VERBS_AH_WAYS; i++)
		verbs_ah_retire(w, &w->ahs[i]);
}

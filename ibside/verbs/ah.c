/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's cache of address handles: sets of VERBS_AH_WAYS entries. The worker alone changes it. A missing handle is
 * requested from management, because creating one may block for a second.
 */
#include <stddef.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_ring.h>

#include "worker.h"

_Static_assert(sizeof(struct ah_key) == 32 && offsetof(struct ah_key, ah.dlid) == 16 &&
		       offsetof(struct ah_key, ah.static_rate) == 22 && offsetof(struct ah_key, ah.flow_label) == 24 &&
		       offsetof(struct ah_key, grh) == 28 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "a key is the four words that make_key makes");

/* A key, in registers: a key written to memory in pieces and read back as words would stall the read. */
struct words {
	uint64_t w0, w1, w2, w3;
};

static inline uint64_t word(const void *p, size_t at)
{
	uint64_t w;

	memcpy(&w, (const char *)p + at, sizeof(w));
	return w;
}

/*
 * What does not matter on the link is zero: one handle for all that differ in it; and so is the padding. Senders choose
 * header fields, so a field must not be part of the key without need, or one sender could fill the cache:
 *
 *   Ethernet    everything counts but the LID: routers count the hop limit down, and the flow label is the UDP source
 *               port, by which they spread flows.
 *   InfiniBand  the flow label is 0, because only routers look at it, as a hint. The hop limit is not the frame's,
 *               but the path's or the group's. The traffic class crosses to whoever receives.
 */
static inline struct words make_key(const struct verbs_worker *w, const struct ib_ah *ah, bool wanted)
{
	enum { DLID = 0xffff, SL = 0xff << 16 };
	const uint64_t rate = 0xffull << 48;  /* of the third word: it paces without a GRH, too */
	const uint64_t path = 0xffffff000000; /* hop limit, traffic class, source */
	uint64_t grh = wanted || __atomic_load_n(&w->dev->grh, __ATOMIC_RELAXED);
	uint64_t all = 0 - grh;
	struct words k = {
		.w0 = word(ah->dgid, 0) & all,
		.w1 = word(ah->dgid, 8) & all,
		.w2 = word(ah, offsetof(struct ib_ah, dlid)) & (DLID | SL | rate | (path & all)),
		.w3 = grh << 32,
	};

	if (w->dev->ethernet) {
		k.w2 &= ~(uint64_t)DLID;
		k.w3 |= ah->flow_label;
	}
	return k;
}

static inline uint64_t folded(uint64_t a, uint64_t b)
{
	unsigned __int128 p = (unsigned __int128)a * b;

	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/* Two multiplications side by side; the upper halves carry all bits of a key to the low ones. */
static inline unsigned set_of(const struct verbs_worker *w, const struct words *k)
{
	uint64_t h = folded(k->w0 ^ w->ah_seed[0], k->w1 ^ w->ah_seed[1]) ^
		     folded(k->w2 ^ w->ah_seed[2], k->w3 ^ w->ah_seed[3]);

	return (unsigned)(h ^ h >> 32) & (w->ah_sets - 1);
}

static inline bool same(const struct ah_entry *e, const struct words *k)
{
	return ((word(&e->key, 0) ^ k->w0) | (word(&e->key, 8) ^ k->w1) | (word(&e->key, 16) ^ k->w2) |
		(word(&e->key, 24) ^ k->w3)) == 0;
}

/* Returns an entry to reuse: an empty one, else one not used since the last search (clock replacement). */
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

struct ah_entry *verbs_ah_find(struct verbs_worker *w, struct verbs_qp *q, const struct ib_ah *ah, bool grh)
{
	struct words k = make_key(w, ah, grh);

	struct ah_entry *set = &w->ahs[(size_t)set_of(w, &k) * VERBS_AH_WAYS];
	for (int i = 0; i < VERBS_AH_WAYS; i++)
		if (set[i].state != AH_EMPTY && same(&set[i], &k)) {
			set[i].used = true;
			return &set[i];
		}
	if (unlikely(q->pending_ahs >= VERBS_AHS_PENDING_PER_QP || rte_ring_full(w->requests)))
		return NULL;
	struct ah_entry *e = make_room(w, set);
	if (unlikely(!e))
		return NULL;
	*e = (struct ah_entry){.state = AH_PENDING, .used = true, .requester = q->handle};
	memcpy(&e->key, &k, sizeof(k));
	q->pending_ahs++;
	w->counters.asked++;
	rte_ring_sp_enqueue(w->requests, e);
	return e;
}

static void take_answer(struct verbs_worker *w, struct ah_entry *e)
{
	struct verbs_qp *q = verbs_qp_of(w, e->requester);

	if (e->state == AH_FAILED) {
		e->state = AH_EMPTY;
		return;
	}
	e->ah = e->answer;
	e->state = e->ah ? AH_READY : AH_FAILED;
	if (likely(q && q->pending_ahs))
		q->pending_ahs--;
}

/* The next message that needs it requests it again. */
void verbs_ah_retire(struct verbs_worker *w, struct ah_entry *e)
{
	if (e->state == AH_READY && rte_ring_sp_enqueue(w->retired, e->ah) == 0)
		e->state = AH_EMPTY;
}

/* An answer to a pending entry is its handle or none; an answer to a failed one allows its removal. flush_wanted is
 * read first: then all answers from before it was set are in the ring, and are dropped, too. */
bool verbs_ah_answers(struct verbs_worker *w)
{
	uint32_t flush = __atomic_load_n(&w->flush_wanted, __ATOMIC_ACQUIRE);
	void *e;
	bool any = false;

	for (; rte_ring_sc_dequeue(w->answers, &e) == 0; any = true)
		take_answer(w, e);
	if (likely(flush == w->flushed))
		return any;
	w->flushed = flush;
	for (size_t i = 0; i < (size_t)w->ah_sets * VERBS_AH_WAYS; i++)
		verbs_ah_retire(w, &w->ahs[i]);
	return any;
}

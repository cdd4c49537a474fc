/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader's side of a table: buckets of tags and indexes, a cache line each, and a flat arena of entries.
 *
 *   struct table ─ array ─▶ bucket[0] bucket[1] …                      64 bytes each, 2^n of them
 *        │                  ┌──────────────── tags ────────────────┬──────────── index ────────────┐
 *        │                  │ t0  t1  t2  t3  t4  t5  t6 │ further │ i0  i1  i2  i3  i4  i5  i6  - │
 *        │                  └──────────────────────────────────────┴───────────────────────────────┘
 *        └─ arena ─▶ entry[0] entry[1] …                               64 bytes each, never moves
 *
 * The upper bits of a key's hash choose its home bucket, the lower 32 are its tag (odd, so 0 = empty). A
 * key whose home is full is placed d steps further, a step being its tag: two keys of one home take different
 * steps, so a full bucket does not fill its neighbours. The home's word "further" counts, in the d-th of eight
 * nibbles, its keys that are d steps away: a reader looks only where there is one.
 *
 * Readers: any number of threads, each registered with the writer's rte_rcu_qsbr. They take no lock and
 * write nothing. An entry that a reader found stays as it was until that reader calls
 * rte_rcu_qsbr_quiescent(), even if it is deleted meanwhile. An entry never moves between two lanes of an array, so a
 * key that is not deleted is always found; a new, larger array is complete when it is published.
 *
 * This header is all a reader needs: nothing inline here calls into table.c.
 */
#ifndef CAUSEWAY_TABLE_H
#define CAUSEWAY_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rte_branch_prediction.h>

#include "table_hash.h"

enum {
	TABLE_LANES = 7,    /* keys a bucket: eight 4-byte lanes less the word "further" */
	TABLE_FURTHER = 8,  /* buckets tried beyond the home: eight nibbles in 32 bits */
	TABLE_BULK = 64,    /* keys in a stage of table_find_bulk: more prefetches than a core keeps in flight */
	TABLE_ENTRY = 64,   /* bytes an entry */
	TABLE_LOG2_MIN = 4, /* 16 buckets: more than 1 + TABLE_FURTHER, so that no walk meets a bucket twice */
};

/* All words are atomic. Written by the one writer: index before tag, tag before further. */
struct table_bucket {
	uint32_t tags[TABLE_LANES + 1];  /* 0 = empty; the last one is "further" */
	uint32_t index[TABLE_LANES + 1]; /* of the entry in the arena; the last one is not used */
} __attribute__((aligned(64)));

struct table_writer; /* table.c */

/* One cache line, written only when the bucket array grows. */
struct table {
	struct table_hash hash;
	uint8_t *arena;
	uint64_t array; /* atomic: address of bucket[0]; low six bits: log2 of their number, so that both change at once
			 */
	struct table_writer *writer;
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct table_bucket) == 64, "one cache line");
_Static_assert(sizeof(struct table) == 64, "one cache line");
_Static_assert(sizeof(struct table_key) == 24, "three words, compared as such");

/* Returns the keyed hash of a key. */
static inline uint64_t table_hash(const struct table *t, const struct table_key *key)
{
#ifdef CAUSEWAY_X86
	if (likely(t->hash.aes != 0))
		return table_hash_aes(t->hash.seed, key);
#endif
	return table_hash_fold(t->hash.seed, key);
}

static inline uint32_t table_tag(uint64_t hash)
{
	return (uint32_t)hash | 1;
}

static inline uint64_t table_array(const struct table *t)
{
	return __atomic_load_n(&t->array, __ATOMIC_ACQUIRE);
}

/* Returns the bucket d steps from the home of hash. */
static inline struct table_bucket *table_bucket(uint64_t array, uint64_t hash, unsigned d)
{
	unsigned log2 = array & 63;
	uint64_t home = hash >> (64 - log2);
	uint64_t mask = (UINT64_C(1) << log2) - 1;

	return (struct table_bucket *)(uintptr_t)(array & ~UINT64_C(63)) +
	       ((home + (uint64_t)d * table_tag(hash)) & mask);
}

/* The home bucket. A shift takes its count modulo 64, which -log2 and 64 - log2 are the same. */
static inline struct table_bucket *table_home(uint64_t array, uint64_t hash)
{
	return (struct table_bucket *)(uintptr_t)((array & ~UINT64_C(63)) +
						  (hash >> (-array & 63)) * sizeof(struct table_bucket));
}

/* Returns the lanes that hold tag, as bits 0 to 6. A lane's index that is read afterwards is at least as new as
 * its tag: a stale index could be of an entry that the writer is just writing. */
#ifndef CAUSEWAY_X86
static inline unsigned table_match(const struct table_bucket *b, uint32_t tag)
{
	unsigned lanes = 0;

	for (unsigned i = 0; i < TABLE_LANES; i++)
		lanes |= (unsigned)(__atomic_load_n(&b->tags[i], __ATOMIC_ACQUIRE) == tag) << i;
	return lanes;
}
#else
/* Two 16-byte loads: each 4-byte lane is read whole, and x86 does not reorder loads, so the fence costs nothing. */
static inline unsigned table_match(const struct table_bucket *b, uint32_t tag)
{
	const __m128i *tags = (const __m128i *)(const void *)b->tags;
	__m128i want = _mm_set1_epi32((int)tag);
	__m128i lo = _mm_cmpeq_epi32(_mm_load_si128(&tags[0]), want);
	__m128i hi = _mm_cmpeq_epi32(_mm_load_si128(&tags[1]), want);

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	lo = _mm_packs_epi32(lo, hi);
	return (unsigned)_mm_movemask_epi8(_mm_packs_epi16(lo, lo)) & 0x7f;
}
#endif

static inline uint32_t table_further(const struct table_bucket *b)
{
	return __atomic_load_n(&b->tags[TABLE_LANES], __ATOMIC_ACQUIRE);
}

/* Returns the entry that a lane names. */
static inline const void *table_entry(const struct table *t, const struct table_bucket *b, unsigned lane)
{
	uint32_t i = __atomic_load_n(&b->index[lane], __ATOMIC_ACQUIRE);

	return t->arena + (size_t)i * TABLE_ENTRY;
}

/* Compares without a branch a word. Word by word, because compilers copy an array to the stack first. */
static inline int table_key_equal(const struct table_key *a, const struct table_key *b)
{
	return ((table_word(a, 0) ^ table_word(b, 0)) | (table_word(a, 1) ^ table_word(b, 1)) |
		(a->number ^ b->number)) == 0;
}

/* Looks for key in one bucket. */
static inline const void *table_find_in(const struct table *t, const struct table_bucket *b, uint32_t tag,
					const struct table_key *key)
{
	for (unsigned lanes = table_match(b, tag); lanes != 0; lanes &= lanes - 1) {
		const void *e = table_entry(t, b, (unsigned)__builtin_ctz(lanes));

		if (likely(table_key_equal((const struct table_key *)e, key)))
			return e;
	}
	return NULL;
}

/* Returns the entry of key, or NULL; hash is table_hash(t, key). The entry may be read until the reader's next
 * rte_rcu_qsbr_quiescent(). */
static inline const void *table_find(const struct table *t, uint64_t hash, const struct table_key *key)
{
	uint64_t array = table_array(t);
	const struct table_bucket *home = table_bucket(array, hash, 0);
	const void *e = table_find_in(t, home, table_tag(hash), key);

	for (uint32_t further = table_further(home); !e && further != 0;) {
		unsigned d = (unsigned)__builtin_ctz(further) / 4;

		e = table_find_in(t, table_bucket(array, hash, d + 1), table_tag(hash), key);
		further &= ~(UINT32_C(15) << 4 * d);
	}
	return e;
}

/* A look-up between its stages. */
struct table_step {
	uint64_t hash;
	const struct table_bucket *home;
};

/* A look-up in three stages, each for all keys of a burst, so that the burst's cache misses overlap. The first fetches
 * the home bucket; */
static inline void table_begin(const struct table *t, const struct table_key *key, struct table_step *s)
{
	s->hash = table_hash(t, key);
	s->home = table_home(table_array(t), s->hash);
	__builtin_prefetch(s->home);
}

/* the second fetches the entry that it most likely is, and returns it, or NULL; */
static inline const void *table_guess(const struct table *t, const struct table_step *s)
{
	unsigned lanes = table_match(s->home, table_tag(s->hash));
	const void *e = NULL;

	if (likely(lanes != 0)) {
		e = table_entry(t, s->home, (unsigned)__builtin_ctz(lanes));
		__builtin_prefetch(e);
	}
	return e;
}

/* the third returns the entry, or NULL. */
static inline const void *table_settle(const struct table *t, const struct table_key *key, const struct table_step *s,
				       const void *guess)
{
	if (likely(guess && table_key_equal((const struct table_key *)guess, key)))
		return guess;
	return table_find(t, s->hash, key);
}

/* The first stage of n keys. The array is read once: a key that is put meanwhile need not be found, and what a reader
 * got from an array that has been replaced stays valid until it is quiescent. */
static inline void table_begin_burst(const struct table *t, const struct table_key *keys, unsigned n,
				     struct table_step *s)
{
	const struct table local = {.hash = t->hash, .array = table_array(t)};

	for (unsigned i = 0; i < n; i++)
		table_begin(&local, &keys[i], &s[i]);
}

/* The first bucket beyond its home where the key of a look-up may be, or NULL. */
static inline const struct table_bucket *table_beyond(uint64_t array, const struct table_step *s)
{
	uint32_t further = table_further(s->home);

	return further ? table_bucket(array, s->hash, (unsigned)__builtin_ctz(further) / 4 + 1) : NULL;
}

/* The second stage of n keys, TABLE_BULK at most. One key in fifty of a full table is beyond its home: those buckets
 * are fetched together, too. */
static inline void table_guess_burst(const struct table *t, const struct table_step *s, unsigned n, const void **out)
{
	const struct table local = {.arena = t->arena, .array = table_array(t)};
	const struct table_bucket *bucket[TABLE_BULK];
	unsigned beyond = 0;
	uint8_t at[TABLE_BULK];

	for (unsigned i = 0; i < n; i++) {
		out[i] = table_guess(&local, &s[i]);
		if (unlikely(!out[i]) && (bucket[beyond] = table_beyond(local.array, &s[i]))) {
			__builtin_prefetch(bucket[beyond]);
			at[beyond++] = (uint8_t)i;
		}
	}
	for (unsigned i = 0; i < beyond; i++) {
		const struct table_step step = {.hash = s[at[i]].hash, .home = bucket[i]};
		out[at[i]] = table_guess(&local, &step);
	}
}

/* The second and the third stage of n keys, TABLE_BULK at most: the entries, or NULL. Entries are read here, by loops
 * that do little else, so that the misses of many overlap: a prefetch is lost when more are under way than a core can
 * have, and a read amid the work on a packet overlaps with those of the next two or three. Those of a large table come
 * from memory: they are first read by a loop of a few instructions a key, of which more are in the core's window than
 * of one that compares keys. */
static inline void table_finish_burst(const struct table *t, const struct table_key *keys, const struct table_step *s,
				      unsigned n, const void **out)
{
	enum { LARGE = 16 }; /* log2 of the buckets */
	unsigned far = (table_array(t) & 63) > LARGE ? n : 0;

	table_guess_burst(t, s, n, out);
	for (unsigned i = 0; i < far; i++)
		__asm__ volatile("" : : "r"(*(const uint64_t *)(out[i] ? out[i] : (const void *)keys)));
	for (unsigned i = 0; i < n; i++)
		out[i] = table_settle(t, &keys[i], &s[i], out[i]);
}

static inline void table_find_stage(const struct table *t, const struct table_key *keys, unsigned n, const void **out)
{
	struct table_step step[TABLE_BULK];

	table_begin_burst(t, keys, n, step);
	table_finish_burst(t, keys, step, n, out);
}

/* Looks n keys up: out[i] is the entry of keys[i], or NULL. All buckets are fetched, then all entries, then the keys
 * are compared, so that the cache misses of a burst overlap. */
static inline void table_find_bulk(const struct table *t, const struct table_key *keys, unsigned n, const void **out)
{
	for (; n > TABLE_BULK; n -= TABLE_BULK, keys += TABLE_BULK, out += TABLE_BULK)
		table_find_stage(t, keys, TABLE_BULK, out);
	table_find_stage(t, keys, n, out);
}

/* Returns how many changes the table has had, for readers that keep what they looked up: when the number is the same as
 * it was before the look-ups, these would give the same again. */
uint64_t table_changes(const struct table *t);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's side of a table: places keys, grows the bucket array, and keeps retired memory until no reader uses it.
 * Stores that readers may see are releases, in the order given in table.h.
 */
#include <errno.h>
#include <stdbool.h>

#include <rte_rcu_qsbr.h>

#include "table_map.h"
#include "table_write.h"
#include "table_writer.h"

enum {
	NIBBLE_MAX = 15, /* keys of one home that may be d steps from it */
	LOG2_SPARE = 3,  /* doublings beyond what the entries need, before giving up on a key */
};

#define NO_SLOT UINT32_MAX /* nothing was replaced */

/* Where a key is, or may be placed. */
struct place {
	struct table_bucket *home, *bucket;
	unsigned lane, d;
};

/* Returns the word for a new, empty array of 2^log2 buckets, or 0. */
static uint64_t array_new(unsigned log2, int node)
{
	void *p = map_new(sizeof(struct table_bucket) << log2);

	map_near(p, sizeof(struct table_bucket) << log2, node, 0);
	return p ? (uint64_t)(uintptr_t)p | log2 : 0;
}

static void array_free(uint64_t array)
{
	unmap(array_buckets(array), array_len(array));
}

/* Keys that an array may hold before it doubles: three lanes in four, which leaves a key of a full home room one or
 * two steps away. */
static uint64_t array_keys(unsigned log2)
{
	return (UINT64_C(3) * TABLE_LANES << log2) / 4;
}

int table_init(struct table *t, struct rte_rcu_qsbr *rcu, uint32_t slots, const uint64_t seed[TABLE_SEED])
{
	struct table_writer *w = (struct table_writer *)map_new(sizeof(*w));

	memset(t, 0, sizeof(*t));
	if (!w)
		return -ENOMEM;
	memcpy(t->hash.seed, seed, sizeof(t->hash.seed));
	t->hash.seed[2] |= 1; /* so that different numbers stay different */
	t->hash.aes = (uint64_t)table_has_aes();
	t->writer = w;
	w->rcu = rcu;
	w->node = -1;
	w->slots = slots;
	for (w->log2_max = TABLE_LOG2_MIN; array_keys(w->log2_max) < slots;)
		w->log2_max++;
	w->log2_max += LOG2_SPARE;
	w->free = (uint32_t *)map_new(slots * sizeof(w->free[0]));
	w->retired = (struct retired_slot *)map_new(slots * sizeof(w->retired[0]));
	t->arena = (uint8_t *)map_new((size_t)slots * TABLE_ENTRY);
	t->array = array_new(TABLE_LOG2_MIN, w->node);
	if (!w->free || !w->retired || !t->arena || t->array == 0) {
		table_fini(t);
		return -ENOMEM;
	}
	return 0;
}

uint64_t table_bytes(const struct table *t)
{
	const struct table_writer *w = t->writer;
	uint64_t each = TABLE_ENTRY + sizeof(w->free[0]) + sizeof(w->retired[0]);

	return w->slots * each + (sizeof(struct table_bucket) << (w->log2_max - LOG2_SPARE));
}

void table_near(struct table *t, int node)
{
	t->writer->node = node;
	map_near(array_buckets(t->array), array_len(t->array), node, MPOL_MF_MOVE);
	map_near(t->arena, (size_t)t->writer->slots * TABLE_ENTRY, node, MPOL_MF_MOVE);
}

void table_fini(struct table *t)
{
	struct table_writer *w = t->writer;

	if (!w)
		return;
	for (unsigned i = 0; i < w->arrays_n; i++)
		array_free(w->arrays[i].array);
	if (t->array != 0)
		array_free(t->array);
	unmap(t->arena, (size_t)w->slots * TABLE_ENTRY);
	unmap(w->retired, w->slots * sizeof(w->retired[0]));
	unmap(w->free, w->slots * sizeof(w->free[0]));
	unmap(w, sizeof(*w));
	memset(t, 0, sizeof(*t));
}

unsigned table_reclaim(struct table *t)
{
	struct table_writer *w = t->writer;
	unsigned n = 0, kept = 0;

	for (; w->retired_n > 0; n++) {
		struct retired_slot *r = &w->retired[w->retired_first];

		if (!rte_rcu_qsbr_check(w->rcu, r->token, false))
			break;
		w->free[w->free_n++] = r->slot;
		w->retired_first = w->retired_first + 1 == w->slots ? 0 : w->retired_first + 1;
		w->retired_n--;
	}
	for (unsigned i = 0; i < w->arrays_n; i++) {
		if (rte_rcu_qsbr_check(w->rcu, w->arrays[i].token, false))
			array_free(w->arrays[i].array);
		else
			w->arrays[kept++] = w->arrays[i];
	}
	w->arrays_n = kept;
	return n;
}

/* Retires a slot that readers may still use. It must not be in the array any more: the token is taken now. */
static void retire(struct table_writer *w, uint32_t slot)
{
	uint64_t at = (uint64_t)w->retired_first + w->retired_n++;

	w->retired[at % w->slots] = (struct retired_slot){.token = rte_rcu_qsbr_start(w->rcu), .slot = slot};
}

static bool take_slot(struct table *t, uint32_t *slot)
{
	struct table_writer *w = t->writer;

	if (w->free_n == 0 && w->touched == w->slots)
		table_reclaim(t);
	if (w->free_n > 0)
		*slot = w->free[--w->free_n];
	else if (w->touched < w->slots)
		*slot = w->touched++;
	else
		return false;
	return true;
}

static unsigned nibble(const struct table_bucket *home, unsigned d)
{
	return home->tags[TABLE_LANES] >> 4 * (d - 1) & 15;
}

static void add_further(struct place *p, int n)
{
	uint32_t *word = &p->home->tags[TABLE_LANES];

	if (p->d > 0)
		__atomic_store_n(word, *word + ((uint32_t)n << 4 * (p->d - 1)), __ATOMIC_RELEASE);
}

/* Finds the place of a key. */
static bool locate(const struct table *t, uint64_t hash, const struct table_key *key, struct place *p)
{
	p->home = table_bucket(t->array, hash, 0);
	for (p->d = 0; p->d <= TABLE_FURTHER; p->d++) {
		unsigned lanes = 0;

		p->bucket = table_bucket(t->array, hash, p->d);
		if (p->d == 0 || nibble(p->home, p->d) > 0)
			lanes = table_match(p->bucket, table_tag(hash));
		for (; lanes != 0; lanes &= lanes - 1) {
			p->lane = (unsigned)__builtin_ctz(lanes);
			if (table_key_equal((const struct table_key *)table_entry(t, p->bucket, p->lane), key))
				return true;
		}
	}
	return false;
}

/* Finds the nearest empty lane for a key of this hash. */
static bool find_room(uint64_t array, uint64_t hash, struct place *p)
{
	p->home = table_bucket(array, hash, 0);
	for (p->d = 0; p->d <= TABLE_FURTHER; p->d++) {
		unsigned lanes;

		p->bucket = table_bucket(array, hash, p->d);
		lanes = table_match(p->bucket, 0);
		if (lanes != 0 && (p->d == 0 || nibble(p->home, p->d) < NIBBLE_MAX)) {
			p->lane = (unsigned)__builtin_ctz(lanes);
			return true;
		}
	}
	return false;
}

static void occupy(struct place *p, uint64_t hash, uint32_t slot)
{
	__atomic_store_n(&p->bucket->index[p->lane], slot, __ATOMIC_RELEASE);
	__atomic_store_n(&p->bucket->tags[p->lane], table_tag(hash), __ATOMIC_RELEASE);
	add_further(p, 1);
}

static void vacate(struct place *p)
{
	__atomic_store_n(&p->bucket->tags[p->lane], 0, __ATOMIC_RELEASE);
	add_further(p, -1);
}

/* Places every key of the table in an empty array; false if one finds no room. */
static bool refill(const struct table *t, uint64_t array)
{
	const struct table_bucket *from = array_buckets(t->array);

	for (uint64_t i = 0; i < UINT64_C(1) << (t->array & 63); i++) {
		for (unsigned lane = 0; lane < TABLE_LANES; lane++) {
			uint64_t hash;
			struct place p;

			if (from[i].tags[lane] == 0)
				continue;
			hash = table_hash(t, (const struct table_key *)table_entry(t, &from[i], lane));
			if (!find_room(array, hash, &p))
				return false;
			occupy(&p, hash, from[i].index[lane]);
		}
	}
	return true;
}

/* Publishes a larger array. Returns 0, -ENOMEM, or -ENOSPC: as large as it may become. */
static int grow(struct table *t)
{
	struct table_writer *w = t->writer;
	uint64_t array;

	for (unsigned log2 = (t->array & 63) + 1; log2 <= w->log2_max; log2++) {
		array = array_new(log2, w->node);
		if (array == 0)
			return -ENOMEM;
		if (!refill(t, array)) {
			array_free(array);
			continue;
		}
		w->arrays[w->arrays_n].array = t->array;
		__atomic_store_n(&t->array, array, __ATOMIC_RELEASE);
		w->arrays[w->arrays_n++].token = rte_rcu_qsbr_start(w->rcu);
		return 0;
	}
	return -ENOSPC;
}

/* Gives a new key a lane. Growing early is a matter of speed, and may fail; having no lane is not. */
static int insert(struct table *t, uint64_t hash, uint32_t slot)
{
	struct table_writer *w = t->writer;
	struct place p;
	int err = 0;

	if (w->entries >= array_keys(t->array & 63))
		(void)grow(t);
	while (!find_room(t->array, hash, &p)) {
		err = grow(t);
		if (err != 0)
			return err;
	}
	occupy(&p, hash, slot);
	w->entries++;
	return 0;
}

static int put(struct table_change *c)
{
	struct table *t = c->table;
	const struct table_key *key = (const struct table_key *)c->entry;
	uint64_t hash = table_hash(t, key);
	uint32_t slot;
	struct place p;
	int err;

	if (!take_slot(t, &slot))
		return -ENOSPC;
	memcpy(t->arena + (size_t)slot * TABLE_ENTRY, c->entry, TABLE_ENTRY);
	if (locate(t, hash, key, &p)) {
		c->old = p.bucket->index[p.lane];
		__atomic_store_n(&p.bucket->index[p.lane], slot, __ATOMIC_RELEASE);
		return 0;
	}
	c->old = NO_SLOT;
	err = insert(t, hash, slot);
	if (err != 0)
		t->writer->free[t->writer->free_n++] = slot; /* no reader has seen it */
	return err;
}

/* Removes a key. */
static void remove_key(struct table *t, const struct table_key *key)
{
	struct place p;
	uint32_t slot;

	if (!locate(t, table_hash(t, key), key, &p))
		return;
	slot = p.bucket->index[p.lane];
	vacate(&p);
	t->writer->entries--;
	retire(t->writer, slot);
}

/* Undoes a put. The array may have grown since, so the key is looked up again. */
static void undo(struct table_change *c)
{
	struct table *t = c->table;
	const struct table_key *key = (const struct table_key *)c->entry;
	uint32_t slot;
	struct place p;

	if (c->old == NO_SLOT) {
		remove_key(t, key);
		return;
	}
	(void)locate(t, table_hash(t, key), key, &p); /* put() placed it */
	slot = p.bucket->index[p.lane];
	__atomic_store_n(&p.bucket->index[p.lane], c->old, __ATOMIC_RELEASE);
	retire(t->writer, slot);
}

/* Counted after the change, so that a reader that has counted it sees it. */
static void count_change(struct table *t)
{
	__atomic_store_n(&t->writer->changes, t->writer->changes + 1, __ATOMIC_RELEASE);
}

uint64_t table_changes(const struct table *t)
{
	return __atomic_load_n(&t->writer->changes, __ATOMIC_ACQUIRE);
}

int table_apply(struct table_change *changes, unsigned n, unsigned *failed)
{
	unsigned i;
	int err;

	for (i = 0; i < n && changes[i].what == TABLE_PUT; i++) {
		err = put(&changes[i]);
		if (err == 0)
			continue;
		*failed = i;
		while (i > 0) {
			undo(&changes[--i]);
			count_change(changes[i].table);
		}
		return err;
	}
	for (i = 0; i < n; i++) {
		struct table_change *c = &changes[i];

		if (c->what == TABLE_DELETE)
			remove_key(c->table, (const struct table_key *)c->entry);
		else if (c->old != NO_SLOT)
			retire(c->table->writer, c->old);
		count_change(c->table);
	}
	return 0;
}

struct table_stats table_stats(const struct table *t)
{
	const struct table_writer *w = t->writer;
	const struct table_bucket *b = array_buckets(t->array);
	struct table_stats s = {.entries = w->entries, .retired = w->retired_n, .slots = w->slots};

	s.free = w->free_n + w->slots - w->touched;
	s.arrays = w->arrays_n;
	s.buckets = UINT64_C(1) << (t->array & 63);
	s.at[0] = w->entries;
	for (uint64_t i = 0; i < s.buckets; i++) {
		for (unsigned d = 1; d <= TABLE_FURTHER; d++) {
			s.at[d] += nibble(&b[i], d);
			s.at[0] -= nibble(&b[i], d);
		}
	}
	return s;
}

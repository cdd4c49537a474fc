/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One writer and three readers on one table, for the sanitizers: race_test.go builds this with table.c and runs it.
 *
 * The writer inserts, replaces, deletes, fails, undoes, grows and reclaims without pause. The readers check that
 *   - a permanent key is found every time, and its replacements never go backwards;
 *   - whatever they find is the entry of that key, whole, as its check word says;
 *   - it stays so until they say that they are quiescent.
 * Entries are read with plain loads, so that a store that is not ordered against them is reported as a race.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rte_rcu_qsbr.h>

#include "../table_write.h"

enum {
	READERS = 3,
	PERMANENT = 256,
	TRANSIENT = 20000,
	SLOTS = 9000, /* fewer than the keys: the table is full now and then */
	ROUNDS = 4,
	OPS = 60000,
	ROUND_MS = 400, /* at most: on busy cores readers come late, and the table is full until they do */
	BURST = 32,
};

struct entry {
	struct table_key key;
	uint64_t version;
	uint64_t fill[3];
	uint64_t check;
};

_Static_assert(sizeof(struct entry) == TABLE_ENTRY, "an entry");

static struct table table, tiny; /* tiny is full: a change that touches it fails */
static struct rte_rcu_qsbr *rcu;
static bool stop;

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 31) * UINT64_C(0x7fb5d329728ea185);
	return x ^ x >> 27;
}

static uint64_t next(uint64_t *state)
{
	return mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

static struct table_key key_of(uint64_t i)
{
	struct table_key k = {.number = i};

	for (unsigned b = 0; b < sizeof(k.addr); b++)
		k.addr[b] = (uint8_t)(mix(i + b) >> 8);
	return k;
}

static uint64_t check_of(const struct entry *e)
{
	uint64_t w[7], sum = 1;

	memcpy(w, e, sizeof(w));
	for (unsigned i = 0; i < 7; i++)
		sum = mix(sum + w[i]);
	return sum;
}

static struct table_change change(struct table *t, uint32_t what, uint64_t i, uint64_t version)
{
	struct entry e = {.key = key_of(i), .version = version, .fill = {i, version, i ^ version}};
	struct table_change c = {.table = t, .what = what};

	e.check = check_of(&e);
	memcpy(c.entry, &e, sizeof(e));
	return c;
}

static void fail(const char *what, uint64_t i)
{
	fprintf(stderr, "race: key %" PRIu64 ": %s\n", i, what);
	abort();
}

static void check_entry(const struct entry *e, const struct table_key *key, uint64_t i)
{
	if (!table_key_equal(&e->key, key))
		fail("found the entry of another key", i);
	if (e->check != check_of(e))
		fail("found an entry that is not whole", i);
}

/* Chooses a permanent key: every other time one of eight, so that readers meet replacements that are quite new. */
static uint64_t permanent(uint64_t r)
{
	return r % 2 == 0 ? (r >> 1) % 8 : (r >> 1) % PERMANENT;
}

static void read_burst(uint64_t *random, uint64_t *seen, unsigned reader)
{
	struct table_key keys[BURST];
	const void *found[BURST];
	uint64_t i[BURST];

	for (unsigned n = 0; n < BURST; n++) {
		i[n] = n % 2 == 0 ? permanent(next(random)) : PERMANENT + next(random) % TRANSIENT;
		keys[n] = key_of(i[n]);
	}
	if (next(random) % 2 == 0)
		table_find_bulk(&table, keys, BURST, found);
	else
		for (unsigned n = 0; n < BURST; n++)
			found[n] = table_find(&table, table_hash(&table, &keys[n]), &keys[n]);
	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned n = 0; n < BURST; n++) {
			const struct entry *e = (const struct entry *)found[n];

			if (!e && i[n] < PERMANENT)
				fail("a permanent key was not found", i[n]);
			if (e)
				check_entry(e, &keys[n], i[n]);
		}
	}
	for (unsigned n = 0; n < BURST; n += 2) {
		const struct entry *e = (const struct entry *)found[n];
		const struct entry *now =
			(const struct entry *)table_find(&table, table_hash(&table, &keys[n]), &keys[n]);

		if (e->version < seen[i[n]] || !now || now->version < e->version)
			fail("a replaced entry came back", i[n]);
		seen[i[n]] = e->version;
	}
	rte_rcu_qsbr_quiescent(rcu, reader);
}

static void *read_all(void *arg)
{
	unsigned reader = (unsigned)(uintptr_t)arg;
	uint64_t random = reader + 1;
	uint64_t seen[PERMANENT] = {0};

	rte_rcu_qsbr_thread_register(rcu, reader);
	rte_rcu_qsbr_thread_online(rcu, reader);
	do
		read_burst(&random, seen, reader);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED));
	rte_rcu_qsbr_thread_offline(rcu, reader);
	rte_rcu_qsbr_thread_unregister(rcu, reader);
	return NULL;
}

/* Makes one random change; returns 0 or -ENOSPC. */
static int write_one(uint64_t *random, uint64_t version)
{
	uint64_t r = next(random), i = PERMANENT + (r >> 8) % TRANSIENT;
	struct table_change c[3];
	unsigned n = 1, failed;

	switch (r % 8) {
	case 0:
	case 1:
		c[0] = change(&table, TABLE_PUT, permanent(r >> 8), version);
		break;
	case 2:
	case 3:
		c[0] = change(&table, TABLE_DELETE, i, 0);
		break;
	case 4: /* is taken back: tiny has no room */
		c[0] = change(&table, TABLE_PUT, i, version);
		c[1] = change(&table, TABLE_PUT, i + 1, version);
		c[2] = change(&tiny, TABLE_PUT, i, version);
		if (table_apply(c, 3, &failed) == 0)
			fail("a full table took an entry", i);
		return 0;
	default:
		c[0] = change(&table, TABLE_PUT, i, version);
	}
	return table_apply(c, n, &failed);
}

static void set_up(const uint64_t seed[TABLE_SEED])
{
	unsigned failed;

	if (table_init(&table, rcu, SLOTS, seed) != 0 || table_init(&tiny, rcu, 1, seed) != 0)
		fail("no memory", 0);
	for (uint64_t i = 0; i < PERMANENT; i++) {
		struct table_change c = change(&table, TABLE_PUT, i, 0);

		if (table_apply(&c, 1, &failed) != 0)
			fail("the table is full too early", i);
	}
	struct table_change c = change(&tiny, TABLE_PUT, 0, 0);
	if (table_apply(&c, 1, &failed) != 0)
		fail("tiny is full too early", 0);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Changes without pause until the round is over; returns how often the table was full. */
static uint64_t write_all(uint64_t random, uint64_t *reclaimed)
{
	uint64_t full = 0, end = now_ms() + ROUND_MS;

	for (uint64_t op = 1; op <= OPS && now_ms() < end; op++) {
		if (write_one(&random, op) != 0) {
			full++;
			sched_yield(); /* the table never waits, but two cores have four threads to run */
		}
		if (op % 64 == 0)
			*reclaimed += table_reclaim(&table);
	}
	return full;
}

static void run_round(uint64_t round)
{
	uint64_t random = round << 32, full = 0, reclaimed = 0;
	uint64_t seed[TABLE_SEED] = {next(&random), next(&random), next(&random)};
	pthread_t reader[READERS];
	struct table_stats s;

	set_up(seed);
	__atomic_store_n(&stop, false, __ATOMIC_RELAXED);
	for (uintptr_t r = 0; r < READERS; r++)
		pthread_create(&reader[r], NULL, read_all, (void *)r);
	full = write_all(random, &reclaimed);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned r = 0; r < READERS; r++)
		pthread_join(reader[r], NULL);
	reclaimed += table_reclaim(&table);
	s = table_stats(&table);
	if (s.entries + s.free != SLOTS || s.retired != 0 || s.arrays != 0)
		fail("slots or arrays were lost", 0);
	printf("round %" PRIu64 ": %u entries, %" PRIu64 " buckets, %" PRIu64 " reclaimed, %" PRIu64 " times full\n",
	       round, s.entries, s.buckets, reclaimed, full);
	table_fini(&table);
	table_fini(&tiny);
}

int main(void)
{
	size_t len = rte_rcu_qsbr_get_memsize(READERS);

	rcu = (struct rte_rcu_qsbr *)aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(len, RTE_CACHE_LINE_SIZE));
	if (!rcu || rte_rcu_qsbr_init(rcu, READERS) != 0)
		fail("no rcu", 0);
	for (uint64_t round = 1; round <= ROUNDS; round++)
		run_round(round);
	free(rcu);
	return 0;
}

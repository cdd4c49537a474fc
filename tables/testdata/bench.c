/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a lookup and that of rte_hash, in one process, in turn: bench_test.go builds this with table.c and runs
 * it.
 *
 *   bench <entries>      prints: ours <ns> rte_hash <ns>, per lookup, the best of many short turns
 *
 * Bursts of 64 keys drawn evenly from all, and a word of each entry is read, as a worker would. The same 64-byte
 * entries and 24-byte keys on both sides; rte_hash has its default hash (CRC32C) and gives a pointer to the entry.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_hash.h>
#include <rte_memory.h>
#include <rte_rcu_qsbr.h>

#include "../table_write.h"

enum {
	BURST = 64,
	TURNS = 300,
	LOOKUPS = 1 << 15, /* a turn: shorter than a time slice, so that a busy machine leaves some turns alone */
	KEYS = 1 << 20,
};

struct entry {
	struct table_key key;
	uint64_t word[5];
};

static uint32_t entries;
static struct table table;
static struct rte_hash *hash;
static struct table_key *keys; /* in the order they are asked for */
static volatile uint64_t sink;

static void fail(const char *what)
{
	fprintf(stderr, "bench: %s\n", what);
	exit(1);
}

static uint64_t next(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	return x ^ x >> 27;
}

static struct table_key key_of(uint64_t i)
{
	struct table_key k = {.addr = {[10] = 0xff, 0xff, 10, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i},
			      .number = i};

	return k;
}

/* Asks for huge pages on both sides: otherwise --no-huge would give rte_hash small ones. */
static int advise(const struct rte_memseg_list *list, void *arg)
{
	(void)arg;
	madvise(list->base_va, list->len, MADV_HUGEPAGE);
	return 0;
}

static void set_up(void)
{
	struct rte_hash_parameters p = {
		.name = "bench", .entries = entries + entries / 4 + 8, .key_len = sizeof(struct table_key)};
	uint64_t seed[TABLE_SEED] = {UINT64_C(0x243f6a8885a308d3), UINT64_C(0x13198a2e03707344),
				     UINT64_C(0xa4093822299f31d0)};
	struct rte_rcu_qsbr *rcu = (struct rte_rcu_qsbr *)aligned_alloc(64, rte_rcu_qsbr_get_memsize(1));
	struct entry *flat =
		(struct entry *)aligned_alloc(2 << 20, RTE_ALIGN_CEIL((size_t)entries * sizeof(*flat), 2 << 20));
	unsigned failed;

	hash = rte_hash_create(&p);
	if (!hash || !rcu || !flat || rte_rcu_qsbr_init(rcu, 1) != 0 || table_init(&table, rcu, entries, seed) != 0)
		fail("no memory");
	madvise(flat, (size_t)entries * sizeof(*flat), MADV_HUGEPAGE);
	for (uint32_t i = 0; i < entries; i++) {
		struct table_change c = {.table = &table, .what = TABLE_PUT};

		flat[i] = (struct entry){.key = key_of(i), .word = {i}};
		memcpy(c.entry, &flat[i], sizeof(flat[i]));
		if (table_apply(&c, 1, &failed) != 0 || rte_hash_add_key_data(hash, &flat[i].key, &flat[i]) != 0)
			fail("a table is full");
		table_reclaim(&table);
	}
}

static double ns(uint64_t cycles)
{
	return (double)cycles * 1e9 / (double)rte_get_tsc_hz() / LOOKUPS;
}

/* Prefetches the keys of a round, so that the first of the two does not pay for both. */
static void warm(const struct table_key *ask)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < LOOKUPS; i++)
		sum += ask[i].number;
	sink = sum;
}

static double turn_ours(const struct table_key *ask)
{
	uint64_t start, sum = 0;

	warm(ask);
	start = rte_rdtsc_precise();
	for (unsigned i = 0; i < LOOKUPS; i += BURST) {
		const void *out[BURST];

		table_find_bulk(&table, &ask[i], BURST, out);
		for (unsigned j = 0; j < BURST; j++)
			sum += ((const struct entry *)out[j])->word[0];
	}
	sink = sum;
	return ns(rte_rdtsc_precise() - start);
}

static double turn_rte_hash(const struct table_key *from)
{
	uint64_t start, sum = 0;

	warm(from);
	start = rte_rdtsc_precise();
	for (unsigned i = 0; i < LOOKUPS; i += BURST) {
		const void *ask[BURST];
		void *out[BURST];
		uint64_t hits;

		for (unsigned j = 0; j < BURST; j++)
			ask[j] = &from[i + j];
		if (rte_hash_lookup_bulk_data(hash, ask, BURST, &hits, out) != BURST)
			fail("rte_hash lost a key");
		for (unsigned j = 0; j < BURST; j++)
			sum += ((const struct entry *)out[j])->word[0];
	}
	sink = sum;
	return ns(rte_rdtsc_precise() - start);
}

int main(int argc, char **argv)
{
	char *eal[] = {argv[0], "--no-huge", "--no-shconf", "--no-telemetry", "--no-pci", "-m",
		       "512",   "--lcores",  "0",           "--log-level",    "4",        NULL};
	double ours = 1e9, theirs = 1e9;
	uint64_t random = 1, sum;

	if (argc != 2 || (entries = (uint32_t)strtoul(argv[1], NULL, 10)) == 0)
		fail("usage: bench <entries>");
	if (rte_eal_init((int)RTE_DIM(eal) - 1, eal) < 0)
		fail("rte_eal_init");
	rte_memseg_list_walk(advise, NULL);
	set_up();
	keys = (struct table_key *)malloc(KEYS * sizeof(keys[0]));
	for (unsigned i = 0; keys && i < KEYS; i++)
		keys[i] = key_of(next(&random) % entries);
	for (unsigned i = 0; keys && i < TURNS; i++) {
		const struct table_key *ask = &keys[i * LOOKUPS % KEYS];

		ours = RTE_MIN(ours, turn_ours(ask));
		sum = sink;
		theirs = RTE_MIN(theirs, turn_rte_hash(ask));
		if (sink != sum)
			fail("the two do not find the same");
	}
	printf("ours %.2f rte_hash %.2f\n", ours, theirs);
	return 0;
}

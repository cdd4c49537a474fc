/* SPDX-License-Identifier: Apache-2.0 */
/* rte_vect_set_max_simd_bitwidth(3) is not promised to stay as it is. */
#define ALLOW_EXPERIMENTAL_API
#include "parts.h"

#include <errno.h>
#include <rte_cpuflags.h>
#include <rte_errno.h>
#include <rte_hash.h>
#include <rte_memory.h>
#include <rte_net_crc.h>
#include <rte_vect.h>
#include <sys/mman.h>

#include "../../lcore/icrc.h"
#include "loops.h"
#include "../../tables/x86.h"

enum { BURST = 64 };

/* The same packet, in the first-level cache, in bursts as the workers do. */
int icrc_ours(void *arg)
{
	struct loop *l = arg;
	struct icrc_job jobs[BURST];
	uint32_t out[BURST];
	for (unsigned i = 0; i < BURST; i++)
		jobs[i] = (struct icrc_job){.p = l->parts->packet, .len = l->parts->len, .kind = ICRC_IPV4};
	while (!l->stop) {
		icrc_burst(jobs, BURST, out);
		l->sink = out[0];
		l->done += BURST;
	}
	return 0;
}

/* The same number of bytes. Masking and seeding are left out, which is less work. */
int icrc_dpdk(void *arg)
{
	struct loop *l = arg;
	const struct parts *p = l->parts;
	while (!l->stop) {
		uint32_t out[BURST];
		for (unsigned i = 0; i < BURST; i++)
			out[i] = rte_net_crc_calc(p->packet, p->len, RTE_NET_CRC32_ETH);
		l->sink = out[0];
		l->done += BURST;
	}
	return 0;
}

/* The second word of a node's key; the others are zero. */
static inline uint64_t node_word(const struct parts *p, uint32_t i)
{
	return (uint64_t)__builtin_bswap32(p->base + i) << 32 | 0xffff0000;
}

/* The next burst of keys, drawn evenly from all; its cost is in both loops. Words are stored as wide as they are
 * loaded, for store forwarding. */
static inline void draw(const struct parts *p, struct table_key *keys, uint64_t *state)
{
	uint64_t x = *state;
	for (unsigned i = 0; i < BURST; i++) {
		x += 0x9e3779b97f4a7c15u; /* splitmix64, half of it: no step waits for the one before */
		uint64_t drawn = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
		uint64_t word = node_word(p, (uint32_t)(drawn >> 40) & (p->entries - 1));
		memcpy(keys[i].addr + 8, &word, sizeof word);
	}
	*state = x;
}

/* Reads the first field of each entry that a worker reads. */
static inline uint64_t read_entries(const void *const *e)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < BURST; i++)
		sum += ((const struct node_entry *)e[i])->id;
	return sum;
}

int table_ours(void *arg)
{
	struct loop *l = arg;
	struct table_key keys[BURST] = {0};
	const void *found[BURST];
	uint64_t state = 1;
	while (!l->stop) {
		draw(l->parts, keys, &state);
		table_find_bulk(l->parts->nodes, keys, BURST, found);
		l->sink = read_entries(found);
		l->done += BURST;
	}
	return 0;
}

/* What no look-up can do without: for each key a bucket and an entry, of the same memory, the entry's address known
 * only when the bucket has come. Which they are is drawn; nothing is hashed or compared. */
int table_fetches(void *arg)
{
	struct loop *l = arg;
	const struct table *t = l->parts->nodes;
	const uint64_t array = table_array(t);
	struct table_key keys[BURST] = {0};
	const struct table_bucket *bucket[BURST];
	const void *found[BURST];
	uint64_t state = 1;
	while (!l->stop) {
		draw(l->parts, keys, &state);
		for (unsigned i = 0; i < BURST; i++) {
			bucket[i] = table_home(array, table_word(&keys[i], 1) * 0x9e3779b97f4a7c15u);
			__builtin_prefetch(bucket[i]);
		}
		for (unsigned i = 0; i < BURST; i++) {
			uint32_t zero = bucket[i]->index[TABLE_LANES];
			uint32_t entry = (__builtin_bswap32((uint32_t)(table_word(&keys[i], 1) >> 32)) + zero) &
					 (l->parts->entries - 1);
			found[i] = t->arena + (size_t)entry * TABLE_ENTRY;
			__builtin_prefetch(found[i]);
		}
		l->sink = read_entries(found);
		l->done += BURST;
	}
	return 0;
}

int table_dpdk(void *arg)
{
	struct loop *l = arg;
	struct table_key keys[BURST] = {0};
	const void *ask[BURST];
	void *found[BURST];
	uint64_t state = 1, hits;
	for (unsigned i = 0; i < BURST; i++)
		ask[i] = &keys[i];
	while (!l->stop) {
		draw(l->parts, keys, &state);
		if (rte_hash_lookup_bulk_data(l->parts->hash, ask, BURST, &hits, found) != BURST)
			return -ENOENT; /* the count stops, which is an error */
		l->sink = read_entries((const void *const *)found);
		l->done += BURST;
	}
	return 0;
}

const char *parts_use_avx512(void)
{
#ifdef CAUSEWAY_X86
	bool has = rte_cpu_get_flag_enabled(RTE_CPUFLAG_AVX512F) > 0 &&
		   rte_cpu_get_flag_enabled(RTE_CPUFLAG_VPCLMULQDQ) > 0;
	if (has && rte_vect_set_max_simd_bitwidth(RTE_VECT_SIMD_512) == 0) {
		rte_net_crc_set_alg(RTE_NET_CRC_AVX512);
		return "AVX-512";
	}
	rte_net_crc_set_alg(RTE_NET_CRC_SSE42);
	return "SSE4.2";
#else
	rte_net_crc_set_alg(RTE_NET_CRC_NEON);
	return "NEON";
#endif
}

int parts_hash(struct parts *p)
{
	struct rte_hash_parameters params = {
		.name = "bench", .entries = p->entries + p->entries / 4 + 8, .key_len = sizeof(struct table_key)};
	p->hash = rte_hash_create(&params);
	if (!p->hash)
		return -rte_errno;
	for (uint32_t i = 0; i < p->entries; i++) {
		struct table_key k = {0};
		uint64_t word = node_word(p, i);
		memcpy(k.addr + 8, &word, sizeof word);
		const void *e = table_find(p->nodes, table_hash(p->nodes, &k), &k);
		int rc = e ? rte_hash_add_key_data(p->hash, &k, (void *)(uintptr_t)e) : -ENOENT;
		if (rc)
			return rc;
	}
	return 0;
}

void parts_free(struct parts *p)
{
	rte_hash_free(p->hash);
	p->hash = NULL;
}

static int advise(const struct rte_memseg_list *list, void *arg)
{
	(void)arg;
	madvise(list->base_va, list->len, MADV_HUGEPAGE); /* best effort */
	return 0;
}

int parts_advise(void)
{
	return rte_memseg_list_walk(advise, NULL);
}

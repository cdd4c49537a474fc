/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keyed hash of a key. Senders choose keys, but must not be able to choose buckets, so the seed is random; and the
 * number is multiplied by a secret before it is combined with the address, so that the two cannot cancel out.
 */
#ifndef CAUSEWAY_TABLE_HASH_H
#define CAUSEWAY_TABLE_HASH_H

#include <stdint.h>
#include <string.h>

#include "entries.h"
#include "x86.h"

enum { TABLE_SEED = 3 /* words */ };

struct table_hash {
	uint64_t seed[TABLE_SEED];
	uint64_t aes; /* the CPU has AES instructions; constant for a table */
};

__extension__ typedef unsigned __int128 table_u128;

static inline uint64_t table_word(const struct table_key *key, unsigned i)
{
	uint64_t word;

	memcpy(&word, key->addr + 8 * i, sizeof(word));
	return word;
}

/* Multiplies and folds both halves of the product together. */
static inline uint64_t table_fold(uint64_t a, uint64_t b)
{
	table_u128 p = (table_u128)a * b;

	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/* The constant is 2^64 divided by the golden ratio; that last multiplication spreads runs of numbers (QPNs, LIDs),
 * which the fold alone keeps in line for an unlucky seed. */
static inline uint64_t table_hash_fold(const uint64_t *seed, const struct table_key *key)
{
	uint64_t x = table_fold(table_word(key, 0) ^ seed[0] ^ key->number * seed[2], table_word(key, 1) ^ seed[1]);

	return (x ^ x >> 32) * UINT64_C(0x9e3779b97f4a7c15);
}

#ifdef CAUSEWAY_X86
/* Three rounds of AES. After two each bit depends on all bytes, but keys that differ in two bytes alone (IPv4 addresses
 * of one network) still give a XOR of what either byte gives, and unlucky seeds crowd some buckets. In assembly,
 * because a function that compilers let use these instructions is one that they do not inline. */
static inline uint64_t table_hash_aes(const uint64_t *seed, const struct table_key *key)
{
	__m128i k = _mm_loadu_si128((const __m128i *)(const void *)seed);
	__m128i x = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)key->addr), k);

	x = _mm_xor_si128(x, _mm_cvtsi64_si128((long long)(key->number * seed[2])));
	__asm__("aesenc %1, %0\n\taesenc %1, %0\n\taesenc %1, %0" : "+x"(x) : "x"(k));
	return (uint64_t)_mm_cvtsi128_si64(x);
}
#endif

static inline int table_has_aes(void)
{
#ifdef CAUSEWAY_X86
	__builtin_cpu_init();
	return __builtin_cpu_supports("aes") != 0;
#else
	return 0;
#endif
}

#endif

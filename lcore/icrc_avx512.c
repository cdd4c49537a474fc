// SPDX-License-Identifier: Apache-2.0

/* The ICRC with 512-bit carry-less multiplication. icrc_version.h tells the method. */
#include <rte_branch_prediction.h>

#include "icrc_version.h"

#ifdef CAUSEWAY_X86

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,vpclmulqdq,pclmul")))

/* v | mask, then ^ seed, as a truth table over (v, mask, seed). */
#define OR_XOR 0x56

/* Unrolled, so that sums stay in registers. */
#define EACH_OF_FOUR(k) _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++)

/* a ^ b ^ c. */
#define XOR3 0x96

/* ~(a ^ b), whatever c. */
#define XNOR2 0xc3

TARGET static inline __m512i product(__m512i v, __m512i words)
{
	return _mm512_xor_si512(_mm512_clmulepi64_epi128(v, words, 0x00), _mm512_clmulepi64_epi128(v, words, 0x11));
}

TARGET static inline __m512i add_product(__m512i t, __m512i v, __m512i words)
{
	return _mm512_ternarylogic_epi64(t, _mm512_clmulepi64_epi128(v, words, 0x00),
					 _mm512_clmulepi64_epi128(v, words, 0x11), XOR3);
}

/* Returns the first 64 bytes of the packet, masked and seeded, and zeros behind its end. */
TARGET static inline __m512i load_headers(enum icrc_kind kind, const uint8_t *p, uint32_t len)
{
	__m512i mask = _mm512_load_si512(icrc_mask[kind] + ICRC_PAD);
	__m512i seed = _mm512_load_si512(icrc_seed + ICRC_PAD);
	if (likely(len >= 64))
		return _mm512_ternarylogic_epi64(_mm512_loadu_si512(p), mask, seed, OR_XOR);

	__mmask64 in = ~(~0ull << len);
	__m512i v = _mm512_maskz_loadu_epi8(in, p);
	return _mm512_maskz_mov_epi8(in, _mm512_ternarylogic_epi64(v, mask, seed, OR_XOR));
}

/* Returns four parts of T. The headers are one block, cut from the front so that masks and seed need no moving.
 * What follows is cut from the end so that its constants need no moving; its first block is the ragged one, whose
 * bytes that belong to the headers are read as zeros. */
TARGET static inline __m512i sum(enum icrc_kind kind, const uint8_t *p, uint32_t len)
{
	int32_t behind = (int32_t)len - 64;
	const uint64_t *w = icrc_words[behind & 7] + ICRC_WORDS_END - 8 - (behind >> 3);
	__m512i t = product(load_headers(kind, p, len), _mm512_loadu_si512(w));
	if (behind <= 0)
		return t;

	uint32_t n = ((uint32_t)behind + 63) / 64;
	p += len - 64 * n;
	w = icrc_words[0] + ICRC_WORDS_END - 8 * n;
	__m512i v = _mm512_maskz_loadu_epi8(~0ull << (64 * n - behind), p);
	t = add_product(t, v, _mm512_load_si512(w));
	for (uint32_t i = 1; i < n; i++)
		t = add_product(t, _mm512_loadu_si512(p + 64 * i), _mm512_load_si512(w + 8 * i));
	return t;
}

TARGET uint32_t icrc_avx512(enum icrc_kind kind, const uint8_t *p, uint32_t len)
{
	if (!icrc_is_fast(len))
		return icrc_table(kind, p, len);

	const __m128i c = _mm_set_epi64x(ICRC_P, (int64_t)ICRC_MU);
	__m512i t = sum(kind, p, len);
	__m256i t2 = _mm256_xor_si256(_mm512_castsi512_si256(t), _mm512_extracti64x4_epi64(t, 1));
	__m128i t1 = _mm_xor_si128(_mm256_castsi256_si128(t2), _mm256_extracti128_si256(t2, 1));
	__m128i q = _mm_clmulepi64_si128(t1, c, 0x00);
	__m128i qp = _mm_clmulepi64_si128(q, c, 0x10);
	return ~(uint32_t)_mm_extract_epi32(_mm_xor_si128(t1, qp), 2);
}

/* Returns the sums of lanes 0 and 1, and of 2 and 3, of a; then those of b. */
TARGET static inline __m512i add_lanes(__m512i a, __m512i b)
{
	return _mm512_xor_si512(_mm512_shuffle_i64x2(a, b, 0x88), _mm512_shuffle_i64x2(a, b, 0xdd));
}

/* sum() of four packets of one length, which share each load of constants: these are half of all loads. */
TARGET static inline void four_sums(const struct icrc_job *j, __m512i t[4])
{
	int32_t behind = (int32_t)j[0].len - 64;
	__m512i w = _mm512_loadu_si512(icrc_words[behind & 7] + ICRC_WORDS_END - 8 - (behind >> 3));
	EACH_OF_FOUR(k)
	t[k] = product(load_headers(j[k].kind, j[k].p, j[k].len), w);
	if (behind <= 0)
		return;

	uint32_t n = ((uint32_t)behind + 63) / 64;
	const uint64_t *words = icrc_words[0] + ICRC_WORDS_END - 8 * n;
	const uint8_t *p[4];
	w = _mm512_load_si512(words);
	EACH_OF_FOUR(k)
	{
		p[k] = j[k].p + j[k].len - 64 * n;
		t[k] = add_product(t[k], _mm512_maskz_loadu_epi8(~0ull << (64 * n - behind), p[k]), w);
	}
	/* Without unrolling, a seventh of the time that 4 KiB take is counting. */
	_Pragma("GCC unroll 2") for (uint32_t i = 1; i < n; i++)
	{
		w = _mm512_load_si512(words + 8 * i);
		EACH_OF_FOUR(k)
		t[k] = add_product(t[k], _mm512_loadu_si512(p[k] + 64 * i), w);
	}
}

static inline int are_of_one_length(const struct icrc_job *j)
{
	return (j[0].len == j[1].len) & (j[0].len == j[2].len) & (j[0].len == j[3].len);
}

/* Computes four ICRCs with one reduction, a packet a lane. */
TARGET static inline void four(const struct icrc_job *j, uint32_t *out)
{
	const __m512i c = _mm512_broadcast_i32x4(_mm_set_epi64x(ICRC_P, (int64_t)ICRC_MU));
	const __m512i dword2 = _mm512_setr_epi32(2, 6, 10, 14, 2, 6, 10, 14, 2, 6, 10, 14, 2, 6, 10, 14);
	__m512i sums[4];
	if (likely(are_of_one_length(j)))
		four_sums(j, sums);
	else
		EACH_OF_FOUR(k)
	sums[k] = sum(j[k].kind, j[k].p, j[k].len);
	__m512i t = add_lanes(add_lanes(sums[0], sums[1]), add_lanes(sums[2], sums[3]));
	__m512i q = _mm512_clmulepi64_epi128(t, c, 0x00);
	__m512i r = _mm512_ternarylogic_epi64(t, _mm512_clmulepi64_epi128(q, c, 0x10), t, XNOR2);
	_mm_storeu_si128((__m128i *)out, _mm512_castsi512_si128(_mm512_permutexvar_epi32(dword2, r)));
}

static inline int four_are_fast(const struct icrc_job *j)
{
	return icrc_is_fast(j[0].len) & icrc_is_fast(j[1].len) & icrc_is_fast(j[2].len) & icrc_is_fast(j[3].len);
}

TARGET void icrc_avx512_burst(const struct icrc_job *j, unsigned n, uint32_t *out)
{
	for (; n >= 4; n -= 4, j += 4, out += 4) {
		if (likely(four_are_fast(j)))
			four(j, out);
		else
			for (int i = 0; i < 4; i++)
				out[i] = icrc_avx512(j[i].kind, j[i].p, j[i].len);
	}
	for (; n > 0; n--, j++, out++)
		*out = icrc_avx512(j->kind, j->p, j->len);
}

#endif

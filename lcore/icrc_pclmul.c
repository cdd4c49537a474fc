// SPDX-License-Identifier: Apache-2.0

/* The ICRC with 128-bit carry-less multiplication, for x86 since 2010. icrc_version.h tells the method. */
#include "icrc_version.h"

#ifdef CAUSEWAY_X86

#define TARGET __attribute__((target("pclmul,sse4.1")))

/* Lanes that may hold masked bits: 53 bytes behind up to 15 leading zeros. */
#define MASKED_LANES 5u

uint64_t icrc_words[8][ICRC_WORDS_END + 8];

void icrc_words_init(void)
{
	uint32_t r = 0x80000000; /* x^0 */
	for (int bit = 32 - 8 * 64; bit < 0; bit++)
		r = r & 0x80000000 ? (r ^ ICRC_POLY) << 1 | 1 : r << 1; /* divide by x */
	for (int w = ICRC_WORDS_END + 7; w >= 0; w--)
		for (int f = 0; f < 8; f++) {
			icrc_words[f][w] = (uint64_t)r << 1;
			for (int bit = 0; bit < 8; bit++)
				r = r >> 1 ^ (r & 1 ? ICRC_POLY : 0);
		}
}

/* A window of 16 bytes that starts 16-k bytes in moves a lane up by k bytes and puts zeros in front. */
static const uint8_t move_up[32] = {
	0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
	0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,
};

static inline __m128i load(const void *p)
{
	return _mm_loadu_si128(p);
}

TARGET static inline __m128i add_product(__m128i t, __m128i v, const uint64_t *words)
{
	__m128i c = _mm_load_si128((const __m128i *)words);
	t = _mm_xor_si128(t, _mm_clmulepi64_si128(v, c, 0x00));
	return _mm_xor_si128(t, _mm_clmulepi64_si128(v, c, 0x11));
}

/* Returns T mod P, inverted. */
TARGET static inline uint32_t reduce(__m128i t)
{
	const __m128i c = _mm_set_epi64x(ICRC_P, (int64_t)ICRC_MU);
	__m128i q = _mm_clmulepi64_si128(t, c, 0x00);
	__m128i qp = _mm_clmulepi64_si128(q, c, 0x10);
	return ~(uint32_t)_mm_extract_epi32(_mm_xor_si128(t, qp), 2);
}

/* The first lane is the ragged one: up to 15 zeros go in front of the packet, where they change nothing as long
 * as the seed, too, stands behind them. */
TARGET static inline uint32_t crc(enum icrc_kind kind, const uint8_t *p, uint32_t len)
{
	uint32_t n = (len + 15) / 16, k = n * 16 - len;
	const uint64_t *words = icrc_words[0] + ICRC_WORDS_END - 2 * n;
	const uint8_t *mask = icrc_mask[kind] + ICRC_PAD - k, *seed = icrc_seed + ICRC_PAD - k;
	uint32_t masked = n < MASKED_LANES ? n : MASKED_LANES, i;

	__m128i v = _mm_shuffle_epi8(load(p), load(move_up + 16 - k));
	v = _mm_xor_si128(_mm_or_si128(v, load(mask)), load(seed));
	__m128i t = add_product(_mm_setzero_si128(), v, words);

	p -= k;
	v = _mm_xor_si128(_mm_or_si128(load(p + 16), load(mask + 16)), load(seed + 16));
	t = add_product(t, v, words + 2);
	for (i = 2; i < masked; i++)
		t = add_product(t, _mm_or_si128(load(p + 16 * i), load(mask + 16 * i)), words + 2 * i);
	for (; i < n; i++)
		t = add_product(t, load(p + 16 * i), words + 2 * i);
	return reduce(t);
}

TARGET uint32_t icrc_pclmul(enum icrc_kind kind, const uint8_t *p, uint32_t len)
{
	return icrc_is_fast(len) ? crc(kind, p, len) : icrc_table(kind, p, len);
}

TARGET void icrc_pclmul_burst(const struct icrc_job *jobs, unsigned n, uint32_t *out)
{
	for (unsigned i = 0; i < n; i++)
		out[i] = icrc_pclmul(jobs[i].kind, jobs[i].p, jobs[i].len);
}

#endif

// SPDX-License-Identifier: Apache-2.0

/* What the versions of the ICRC share among themselves; the packet path includes icrc.h only. */
#ifndef CAUSEWAY_LCORE_ICRC_VERSION_H
#define CAUSEWAY_LCORE_ICRC_VERSION_H

#include "icrc.h"

#define CAUSEWAY_X86_ALL
#include "../tables/x86.h"

/* One version. fn and burst may be called after icrc_init and only if runs_here. */
struct icrc_version {
	const char *name;
	icrc_fn fn;
	icrc_burst_fn burst;
	int runs_here;
};

/* All versions built for this architecture, fastest first; the last one runs everywhere. */
extern struct icrc_version icrc_versions[];
extern const unsigned icrc_nversions;

/* The CRC register after eight bytes of ones, starting from all ones, bit 0 being the coefficient of x^31. */
#define ICRC_SEED 0xDEBB20E3u

/* The CRC-32 polynomial without x^32, bit 0 being the coefficient of x^31. */
#define ICRC_POLY 0xEDB88320u

/* Zeros in front of the masks: a window that starts k bytes before the first header byte fits a packet with k
 * zeros in front. A multiple of 64, so that the first header byte is aligned for any vector. */
#define ICRC_PAD 64u

/* A mask with the zeros in front of it and those behind, which allow windows to run past the 53rd byte. */
#define ICRC_MASK_LEN (ICRC_PAD + 2 * 64)

/* Bits read as ones, per kind, from the first byte of the network header on. */
extern const uint8_t icrc_mask[ICRC_KINDS][ICRC_MASK_LEN] __attribute__((aligned(64)));

/* The seed in the first four bytes, to be laid over the packet by XOR. */
extern const uint8_t icrc_seed[ICRC_MASK_LEN] __attribute__((aligned(64)));

void icrc_table_init(void);
uint32_t icrc_table(enum icrc_kind kind, const uint8_t *p, uint32_t len);
void icrc_table_burst(const struct icrc_job *jobs, unsigned n, uint32_t *out);

#ifdef CAUSEWAY_X86

/* The ICRC as a dot product.
 *
 * A packet is a sum of 64-bit words w times x^e, e being the number of bits behind the word. Its CRC is the sum of
 * w * (x^(e+32) mod P), mod P. Every product is one carry-less multiplication of at most 96 bits and depends on no
 * other, so that the sum T of all of them has no chain through it; one reduction of T ends the work.
 *
 * In registers the coefficient of the highest power stands in bit 0. The 33-bit constants are shifted left by one,
 * which puts x^95 of T into bit 0 and x^0 into bit 95.
 *
 * The work is bounded by the multiplier: two multiplications per 16, or with AVX-512 per 64, bytes. */

/* icrc_words[f][ICRC_WORDS_END - 1 - i] is the constant of a word with 8*i + f bytes behind it. So the line of f = 0,
 * read up to ICRC_WORDS_END, has the constants of a packet cut into words from its end; and a vector of any line
 * has those of eight words that lie anywhere. Behind ICRC_WORDS_END i is negative: those words stick out over the
 * end of the packet and are zero there. */
#define ICRC_WORDS_END (ICRC_FAST_MAX / 8)
extern uint64_t icrc_words[8][ICRC_WORDS_END + 8] __attribute__((aligned(64)));

/* floor(x^96 / P) without its lowest coefficient, and P. Multiplying the upper 64 coefficients of T by the first
 * gives the quotient T / P in the lower half; multiplying that by the second gives its 32 lowest coefficients in
 * bits 64..95, where those of T stand. */
#define ICRC_MU 0xB4E5B025F7011641ull
#define ICRC_P 0x1DB710641ull

void icrc_words_init(void);
uint32_t icrc_pclmul(enum icrc_kind kind, const uint8_t *p, uint32_t len);
void icrc_pclmul_burst(const struct icrc_job *jobs, unsigned n, uint32_t *out);
uint32_t icrc_avx512(enum icrc_kind kind, const uint8_t *p, uint32_t len);
void icrc_avx512_burst(const struct icrc_job *jobs, unsigned n, uint32_t *out);

#endif

/* Lengths that the vector versions take. */
static inline int icrc_is_fast(uint32_t len)
{
	return len - ICRC_FAST_MIN <= ICRC_FAST_MAX - ICRC_FAST_MIN;
}

#endif

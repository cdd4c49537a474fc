// SPDX-License-Identifier: Apache-2.0

/* The ICRC by table look-up, eight bytes a step, for any CPU that C knows. */
#include <string.h>

#include "icrc_version.h"

/* Bytes from the network header on that may hold masked bits, for every kind, in whole steps. */
#define MASKED_BYTES 56u

/* slice[i][b] is the register after byte b and i further zero bytes, starting from zero. */
static uint32_t slice[8][256];

void icrc_table_init(void)
{
	for (unsigned b = 0; b < 256; b++) {
		uint32_t r = b;
		for (int bit = 0; bit < 8; bit++)
			r = r >> 1 ^ (r & 1 ? ICRC_POLY : 0);
		slice[0][b] = r;
	}
	for (unsigned i = 1; i < 8; i++)
		for (unsigned b = 0; b < 256; b++) {
			uint32_t r = slice[i - 1][b];
			slice[i][b] = r >> 8 ^ slice[0][r & 0xff];
		}
}

/* Returns the eight bytes at p, the first one lowest. */
static inline uint64_t load_le64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof v);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap64(v);
#endif
	return v;
}

/* Feeds the eight bytes of v, lowest first. */
static inline uint32_t step8(uint32_t r, uint64_t v)
{
	v ^= r;
	return slice[7][v & 0xff] ^ slice[6][v >> 8 & 0xff] ^ slice[5][v >> 16 & 0xff] ^ slice[4][v >> 24 & 0xff] ^
	       slice[3][v >> 32 & 0xff] ^ slice[2][v >> 40 & 0xff] ^ slice[1][v >> 48 & 0xff] ^ slice[0][v >> 56];
}

static inline uint32_t step1(uint32_t r, uint8_t b)
{
	return r >> 8 ^ slice[0][(r ^ b) & 0xff];
}

uint32_t icrc_table(enum icrc_kind kind, const uint8_t *p, uint32_t len)
{
	const uint8_t *mask = icrc_mask[kind] + ICRC_PAD;
	uint32_t r = ICRC_SEED, i = 0;

	for (; i < MASKED_BYTES && i + 8 <= len; i += 8)
		r = step8(r, load_le64(p + i) | load_le64(mask + i));
	if (i < MASKED_BYTES) {
		for (; i < len; i++)
			r = step1(r, p[i] | mask[i]);
		return ~r;
	}
	for (; len - i >= 8; i += 8)
		r = step8(r, load_le64(p + i));
	for (; i < len; i++)
		r = step1(r, p[i]);
	return ~r;
}

void icrc_table_burst(const struct icrc_job *jobs, unsigned n, uint32_t *out)
{
	for (unsigned i = 0; i < n; i++)
		out[i] = icrc_table(jobs[i].kind, jobs[i].p, jobs[i].len);
}

// SPDX-License-Identifier: Apache-2.0

#include "pattern.h"

uint32_t crc32_ieee(const uint8_t *b, size_t n)
{
	uint32_t crc = ~0u;
	for (size_t i = 0; i < n; i++) {
		crc ^= b[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

/* A byte that differs from its neighbours and from those of other messages: the
 * finalizer of MurmurHash3 over both numbers. */
static uint8_t noise(uint32_t seq, uint32_t i)
{
	uint32_t h = seq * 0x9e3779b1u + i;
	h = (h ^ h >> 16) * 0x85ebca6bu;
	h = (h ^ h >> 13) * 0xc2b2ae35u;
	return h ^ h >> 16;
}

static void put32(uint8_t *b, uint32_t v)
{
	b[0] = v >> 24;
	b[1] = v >> 16;
	b[2] = v >> 8;
	b[3] = v;
}

static uint32_t get32(const uint8_t *b)
{
	return (uint32_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
}

void pattern_write(uint8_t *b, size_t n, uint32_t seq)
{
	if (n < PATTERN_STAMP) {
		for (size_t i = 0; i < n; i++)
			b[i] = noise(n, i);
		return;
	}
	for (size_t i = PATTERN_STAMP; i < n; i++)
		b[i] = noise(seq, i);
	put32(b + 4, seq);
	put32(b, crc32_ieee(b + 4, n - 4));
}

bool pattern_check(const uint8_t *b, size_t n, uint32_t *seq)
{
	bool stamped = n >= PATTERN_STAMP, same = true;
	uint32_t key = stamped ? get32(b + 4) : n;
	for (size_t i = stamped ? PATTERN_STAMP : 0; i < n; i++)
		same &= b[i] == noise(key, i);
	*seq = stamped ? key : 0;
	return same && (!stamped || get32(b) == crc32_ieee(b + 4, n - 4));
}

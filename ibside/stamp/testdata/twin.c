/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lines "stream number time seed size", and writes for each the message in hex, and for how many of the messages
 * with one changed bit stamp_intact returns true. */
#include "../stamp.h"

#include <inttypes.h>
#include <stdio.h>

static unsigned accepted(uint8_t *b, size_t n)
{
	struct stamp s;
	unsigned count = 0;
	for (size_t bit = 0; bit < 8 * n; bit++) {
		b[bit / 8] ^= (uint8_t)(1 << bit % 8);
		count += stamp_intact(b, n, &s);
		b[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	return count;
}

int main(void)
{
	static uint8_t b[4096];
	struct stamp s = {0}, got;
	size_t n;
	while (scanf("%" SCNu32 " %" SCNu64 " %" SCNu64 " %" SCNu16 " %zu", &s.stream, &s.number, &s.time, &s.seed,
		     &n) == 5) {
		s.length = (uint16_t)n;
		stamp_message(b, n, s.number, s.time);
		if (n >= STAMP_LEN) {
			stamp_fill(b, n, s.seed);
			stamp_put(b, s);
		}
		if (!stamp_intact(b, n, &got) || (n >= STAMP_LEN && (got.number != s.number || got.time != s.time)))
			return 1;
		for (size_t i = 0; i < n; i++)
			printf("%02x", b[i]);
		printf(" %u\n", accepted(b, n));
	}
	return 0;
}

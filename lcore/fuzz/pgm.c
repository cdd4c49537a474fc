/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the PGM tracker: packets of a small tracker, so that streams give way to others, and its readers.
 *
 *   input: (length, low byte 1 | options 1 | packet)...
 */
#include "../pgm/pgm.h"

#include <stdlib.h>
#include <string.h>

#include "rig.h"

enum {
	SIGN = 1, /* make the checksum right */
	DIRECTION = 2,
	GROUP = 4,
	TIME_SHIFT = 3, /* three bits: cycles until the next packet */
	TIME = 7,
	LENGTH_SHIFT = 6, /* two bits: of the length, above its low byte */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Makes the checksum right, which no fuzzer finds by trying. */
static void sign(uint8_t *p, size_t len)
{
	uint32_t sum = 0;
	if (len < 16)
		return;
	memset(p + 6, 0, 2);
	for (size_t i = 0; i < len; i++)
		sum += i & 1 ? p[i] : p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	sum = (~sum & 0xffff) ? ~sum : 0xffff;
	p[6] = (uint8_t)(sum >> 8);
	p[7] = (uint8_t)sum;
}

static void read_all(const struct pgm *tracker)
{
	struct pgm_stream s;
	uint64_t streams = 0;
	for (uint32_t i = 0; i < pgm_places(tracker); i++)
		streams += pgm_read(tracker, i, &s) == PGM_READ;
	CHECK(streams == tracker->streams);
	CHECK(tracker->streams + tracker->aged + tracker->evicted == tracker->begun);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pgm_config config = {.streams = 8, .checksum = true, .idle = 100, .seed = {1, 2}};
	void *memory = aligned_alloc(64, pgm_bytes(&config));
	struct pgm *tracker = pgm_init(memory, &config);
	for (uint64_t tsc = 1; size >= 2;) {
		uint8_t options = data[1];
		size_t len = RTE_MIN(data[0] | (size_t)(options >> LENGTH_SHIFT) << 8, size - 2);
		uint8_t *p = malloc(len); /* of exactly its size */
		memcpy(p, data + 2, len);
		if (options & SIGN)
			sign(p, len);
		pgm_see(tracker, p, (uint32_t)len, options & GROUP, options & DIRECTION ? 1 : 0, tsc);
		free(p);
		tsc += options >> TIME_SHIFT & TIME;
		data += 2 + len;
		size -= 2 + len;
	}
	read_all(tracker);
	free(memory);
	return 0;
}

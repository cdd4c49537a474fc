/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the ICRC: every version that this CPU can run, alone and in a burst, is compared with a bitwise one.
 *
 *   input: kind 1 | packet
 */
#include "../icrc_version.h"

#include <stdlib.h>
#include <string.h>

#include "rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t fastpath(enum icrc_kind kind, const uint8_t *p, uint32_t len)
{
	uint32_t crc = ICRC_SEED;
	for (uint32_t i = 0; i < len; i++) {
		crc ^= i < ICRC_MASK_LEN - ICRC_PAD ? p[i] | icrc_mask[kind][ICRC_PAD + i] : p[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? ICRC_POLY : 0);
	}
	return ~crc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { BURST_MOST = 7 };
	if (size < 2)
		return 0;
	icrc_init();
	enum icrc_kind kind = data[0] % ICRC_KINDS;
	uint32_t len = (uint32_t)size - 1, out[BURST_MOST];
	uint8_t *p = malloc(len); /* of exactly its size */
	memcpy(p, data + 1, len);
	uint32_t right = fastpath(kind, p, len);
	struct icrc_job jobs[BURST_MOST];
	for (unsigned i = 0; i < BURST_MOST; i++)
		jobs[i] = (struct icrc_job){.p = p, .len = len, .kind = kind};
	for (unsigned v = 0; v < icrc_nversions; v++) {
		if (!icrc_versions[v].runs_here)
			continue;
		CHECK(icrc_versions[v].fn(kind, p, len) == right);
		unsigned n = 1 + data[0] / ICRC_KINDS % BURST_MOST;
		icrc_versions[v].burst(jobs, n, out);
		for (unsigned i = 0; i < n; i++)
			CHECK(out[i] == right);
	}
	free(p);
	return 0;
}

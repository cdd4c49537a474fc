// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause

/* The two checksums of a packet (7.8). */

#include "shca.h"
#include <linux/crc32.h>

/* Longest part of a packet that holds fields which count as ones: LRH, GRH, and the BTH up to its reserved byte. */
enum { MASKED_LEN = LRH_LEN + GRH_LEN + 5 };

static u16 variant_table[256];

void crc_init(void)
{
	for (int i = 0; i < 256; i++) {
		u16 crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0xd008 : crc >> 1;
		variant_table[i] = crc;
	}
}

u16 crc_variant(const u8 *packet, u32 length)
{
	u16 crc = 0xffff;

	for (u32 i = 0; i < length; i++)
		crc = crc >> 8 ^ variant_table[(u8)crc ^ packet[i]];
	return ~crc;
}

/* Fields that a switch or a router may change count as ones: with a GRH the whole LRH, and of the GRH all but version,
 * length, next header and GIDs; without one, the VL alone. */
u32 crc_invariant(const u8 *packet, u32 length)
{
	u8 masked[MASKED_LEN];
	u32 n = min_t(u32, length, sizeof(masked)), crc;
	bool global = (packet[1] & 3) == LNH_GLOBAL;
	u32 bth = LRH_LEN + (global ? GRH_LEN : 0);

	memcpy(masked, packet, n);
	if (global && n == sizeof(masked)) {
		u8 *grh = masked + LRH_LEN;

		memset(masked, 0xff, LRH_LEN);
		grh[0] |= 0x0f;
		grh[1] = grh[2] = grh[3] = 0xff;
		grh[7] = 0xff;
	} else {
		masked[0] |= 0xf0;
	}
	if (n > bth + 4)
		masked[bth + 4] = 0xff;
	crc = crc32_le(~0, masked, n);
	return ~crc32_le(crc, packet + n, length - n);
}

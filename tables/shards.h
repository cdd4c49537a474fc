/* SPDX-License-Identifier: Apache-2.0 */
/* The shards into which a fleet divides its work: fleet/shards, shard.go. */
#ifndef CAUSEWAY_SHARES_H
#define CAUSEWAY_SHARES_H

#include <stdint.h>
#include <string.h>

static const uint64_t SHARE_GOLDEN = 0x9e3779b97f4a7c15;

/* The shard of a station, by its MAC address, the lower 48 bits of an l2 word. */
static inline unsigned host_shard(uint64_t mac)
{
	return (unsigned)(__builtin_bswap64(mac << 16) * SHARE_GOLDEN >> 58);
}

/* The shard of a group, by its MGID. */
static inline unsigned group_shard(const uint8_t *mgid)
{
	uint64_t half[2], key;

	memcpy(half, mgid, sizeof(half));
	key = __builtin_bswap64(half[0]) * SHARE_GOLDEN ^ __builtin_bswap64(half[1]);
	key ^= key >> 32;
	return (unsigned)(key * SHARE_GOLDEN >> 52);
}

#endif

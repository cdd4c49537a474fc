/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and stores of header fields. load and store keep the byte order of the frame, on a little-endian CPU. Wide
 * stores save work; a wide load of what was stored in pieces stalls until all of them are in the cache. */
#ifndef CAUSEWAY_BYTEORDER_H
#define CAUSEWAY_BYTEORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t load64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

static inline uint32_t load32(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

static inline void store64(uint8_t *p, uint64_t v)
{
	memcpy(p, &v, sizeof v);
}

static inline void store32(uint8_t *p, uint64_t v)
{
	uint32_t low = (uint32_t)v;
	memcpy(p, &low, sizeof low);
}

static inline uint16_t be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t be32(const uint8_t *p)
{
	return __builtin_bswap32(load32(p));
}

/* A number, in network byte order. */
static inline uint64_t net16(uint32_t v)
{
	return __builtin_bswap16((uint16_t)v);
}

static inline uint64_t net32(uint32_t v)
{
	return __builtin_bswap32(v);
}

/* A MAC address as a number, first byte highest. Reads 8 bytes. */
static inline uint64_t mac48(const uint8_t *p)
{
	return __builtin_bswap64(load64(p)) >> 16;
}

static inline bool is_ipv4(const uint8_t *ip16)
{
	return load64(ip16) == 0 && load32(ip16 + 8) == 0xffff0000; /* 00 00 ff ff as stored */
}

static inline bool is_zero(const uint8_t *ip16)
{
	return (load64(ip16) | load64(ip16 + 8)) == 0;
}

/* Adds the upper half to the lower one and the lower to the upper, each with the other's carry: what then stands in the
 * upper half is the sum of both in ones' complement. From a sum of 32-bit words, that of its 16-bit words. */
static inline uint32_t ones_sum(uint64_t sum)
{
	uint32_t half = (uint32_t)((sum + (sum >> 32 | sum << 32)) >> 32);
	return (half + (half >> 16 | half << 16)) >> 16;
}

/* The sum over a 20-byte IPv4 header; 0xffff when its checksum is right, and the complement of the checksum
 * when that field is zero. In the byte order of the header. */
static inline uint32_t ipv4_header_sum(const uint8_t *ip)
{
	return ones_sum((uint64_t)load32(ip) + load32(ip + 4) + load32(ip + 8) + load32(ip + 12) + load32(ip + 16));
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test messages whose every byte a receiver can check: the layout and its reasons are in stamp.go. It needs nothing
 * but the C library, so that programs outside of this tree's build can include it. Both must be little-endian.
 */
#ifndef CAUSEWAY_STAMP_H
#define CAUSEWAY_STAMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a stamp is copied from a struct");

enum { STAMP_LEN = 32 }; /* bytes */

static const uint32_t STAMP_MAGIC = 0x32747743; /* "Cwt2" */

struct stamp {
	uint32_t magic;
	uint32_t stream; /* one sender's run or flow */
	uint64_t number; /* counts up within a stream */
	uint64_t time;   /* when it was sent, by the sender's clock */
	uint16_t length; /* of the whole message */
	uint16_t seed;   /* of the pattern */
	uint32_t check;  /* of what is before it */
};

_Static_assert(sizeof(struct stamp) == STAMP_LEN, "a stamp has no gaps");

static inline uint32_t stamp_check(const struct stamp *s)
{
	uint64_t h = ((uint64_t)s->magic << 32 | s->stream) * 0x9e3779b97f4a7c15;
	h = (h ^ h >> 29 ^ s->number) * 0xbf58476d1ce4e5b9;
	h = (h ^ h >> 32 ^ s->time) * 0x94d049bb133111eb;
	h = (h ^ h >> 29 ^ ((uint32_t)s->seed << 16 | s->length)) * 0x9e3779b97f4a7c15;
	return (uint32_t)(h >> 32);
}

/* Writes a stamp before the pattern of s.seed; it fills magic and check in. */
static inline void stamp_put(uint8_t *message, struct stamp s)
{
	s.magic = STAMP_MAGIC;
	s.check = stamp_check(&s);
	memcpy(message, &s, sizeof s);
}

/* Reads the stamp of a message of STAMP_LEN bytes or more; false: there is none, or it is damaged. */
static inline bool stamp_get(const uint8_t *message, struct stamp *s)
{
	memcpy(s, message, sizeof *s);
	return s->magic == STAMP_MAGIC && s->check == stamp_check(s);
}

/* Byte i of the pattern of a seed. */
static inline uint8_t stamp_pattern(uint16_t seed, size_t i)
{
	uint64_t h = (((uint64_t)seed << 16) + i / 8 + 1) * 0x9e3779b97f4a7c15;
	h = (h ^ h >> 32) * 0xbf58476d1ce4e5b9;
	return (uint8_t)((h ^ h >> 32) >> i % 8 * 8);
}

/* Writes the pattern of a seed over all of b, the stamp's place included. */
static inline void stamp_fill(uint8_t *b, size_t n, uint16_t seed)
{
	for (size_t i = 0; i < n; i++)
		b[i] = stamp_pattern(seed, i);
}

/* Makes a message of n bytes, at most 65535; one shorter than a stamp is a pattern alone, and has no number. */
static inline void stamp_message(uint8_t *b, size_t n, uint64_t number, uint64_t time)
{
	struct stamp s = {.number = number, .time = time, .length = (uint16_t)n, .seed = (uint16_t)number};
	stamp_fill(b, n, n < STAMP_LEN ? s.length : s.seed);
	if (n >= STAMP_LEN)
		stamp_put(b, s);
}

/* Is the message as it was sent? *s is its stamp, or all zero where it has none. */
static inline bool stamp_intact(const uint8_t *b, size_t n, struct stamp *s)
{
	bool stamped = n >= STAMP_LEN && stamp_get(b, s);
	if (!stamped)
		*s = (struct stamp){.length = (uint16_t)n, .seed = (uint16_t)n};
	if (s->length != n || stamped != (n >= STAMP_LEN))
		return false;
	for (size_t i = stamped ? STAMP_LEN : 0; i < n; i++)
		if (b[i] != stamp_pattern(s->seed, i))
			return false;
	return true;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stamp at the beginning of every payload that the generator sends, in host order: it never leaves the host. It
 * says which message this is and when it was made, and its check value tells when it was changed on the way.
 */
#ifndef CAUSEWAY_GEN_STAMP_H
#define CAUSEWAY_GEN_STAMP_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { GEN_STAMP = 32 }; /* bytes */

static const uint32_t GEN_MAGIC = 0xca05e3a9;

struct gen_stamp {
	uint32_t magic;
	uint32_t flow;
	uint64_t seq; /* of the flow, from 0 in each trial */
	uint64_t tsc; /* when it was made, time-stamp counter */
	uint32_t trial;
	uint32_t check;
};

_Static_assert(sizeof(struct gen_stamp) == GEN_STAMP, "a stamp has no gaps");

/* One changed bit anywhere changes about half of the result's (a multiplication carries upwards, the shift brings the
 * upper half down). */
static inline uint32_t gen_stamp_check(const struct gen_stamp *s)
{
	uint64_t h = ((uint64_t)s->magic << 32 | s->flow) * 0x9e3779b97f4a7c15;
	h = (h ^ h >> 29 ^ s->seq) * 0xbf58476d1ce4e5b9;
	h = (h ^ h >> 32 ^ s->tsc) * 0x94d049bb133111eb;
	h = (h ^ h >> 29 ^ s->trial) * 0x9e3779b97f4a7c15;
	return (uint32_t)(h >> 32);
}

static inline void gen_stamp_put(uint8_t *payload, uint32_t flow, uint64_t seq, uint64_t tsc, uint32_t trial)
{
	struct gen_stamp s = {.magic = GEN_MAGIC, .flow = flow, .seq = seq, .tsc = tsc, .trial = trial};
	s.check = gen_stamp_check(&s);
	memcpy(payload, &s, sizeof s);
}

/* Reads a stamp; false: there is none, or it was changed. */
static inline bool gen_stamp_get(const uint8_t *payload, struct gen_stamp *s)
{
	memcpy(s, payload, sizeof *s);
	return s->magic == GEN_MAGIC && s->check == gen_stamp_check(s);
}

#endif

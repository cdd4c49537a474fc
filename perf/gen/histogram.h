/* SPDX-License-Identifier: Apache-2.0 */
/* A histogram in the manner of HdrHistogram: buckets of equal width within each power of two, so that a value is
 * known to better than 1 %, whatever it is, and recording one is an increment. */
#ifndef CAUSEWAY_GEN_HISTOGRAM_H
#define CAUSEWAY_GEN_HISTOGRAM_H

#include <stdint.h>

enum {
	GEN_SUB_BITS = 7, /* 128 buckets in each power of two */
	GEN_BUCKETS = (64 - GEN_SUB_BITS + 1) << GEN_SUB_BITS,
};

static inline unsigned gen_bucket(uint64_t v)
{
	if (v < 1u << GEN_SUB_BITS)
		return (unsigned)v;
	unsigned shift = 63 - (unsigned)__builtin_clzll(v) - GEN_SUB_BITS;
	return ((shift + 1) << GEN_SUB_BITS) + (unsigned)(v >> shift) - (1u << GEN_SUB_BITS);
}

/* The middle of a bucket. */
static inline uint64_t gen_bucket_value(unsigned bucket)
{
	if (bucket < 1u << (GEN_SUB_BITS + 1))
		return bucket;
	unsigned shift = (bucket >> GEN_SUB_BITS) - 1;
	uint64_t sub = (bucket & ((1u << GEN_SUB_BITS) - 1)) + (1u << GEN_SUB_BITS);
	return (sub << shift) + ((uint64_t)1 << shift) / 2;
}

#endif

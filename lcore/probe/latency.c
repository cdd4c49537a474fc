/* SPDX-License-Identifier: Apache-2.0 */
#include "latency.h"

static void note(struct latency *l, uint64_t cycles, unsigned packets)
{
	l->bucket[latency_bucket(cycles)] += packets;
	l->sum += cycles * packets;
	if (cycles > l->max)
		l->max = cycles;
}

void latency_note(struct latency *l, uint64_t began, unsigned packets)
{
	note(l, rte_rdtsc() - began, packets);
}

/* Stamps are another CPU's, perhaps, whose counter may be a little ahead: that is no time at all, not a very long one.
 */
void latency_waited(struct latency *l, const uint32_t *stamp, unsigned packets)
{
	const uint32_t ahead = 1u << 16;
	uint32_t now = (uint32_t)(rte_rdtsc() >> LATENCY_STAMP_SHIFT);
	for (unsigned i = 0; i < packets; i++) {
		uint32_t took = now - stamp[i];
		if (stamp[i])
			note(l, took > UINT32_MAX - ahead ? 0 : (uint64_t)took << LATENCY_STAMP_SHIFT, 1);
	}
}

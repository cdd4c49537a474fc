/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of a loop in which others had the CPU, by their time alone. */
#ifndef CAUSEWAY_PREEMPTED_H
#define CAUSEWAY_PREEMPTED_H

#include <rte_common.h>
#include <rte_cycles.h>
#include <stdbool.h>

/* Whether a part of a round was: it took so long as a scheduler has another thread run, and several times as long as
 * the shortest before it, because on a slow machine each may take that long. *shortest begins with 0. */
static inline bool preempted(uint64_t *shortest, uint64_t cycles, uint64_t least_us)
{
	enum { TIMES = 4 };
	if (*shortest == 0 || cycles < *shortest)
		*shortest = cycles;
	return cycles > RTE_MAX(rte_get_tsc_hz() / 1000000 * least_us, TIMES * *shortest);
}

/* What a call of many nanoseconds a packet takes, and what a device made of memory does. */
enum { CALLS_US = 100, DEVICE_US = 1000 };

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The ICRC and the table alone, and DPDK's code for the same. */
#ifndef CAUSEWAY_BENCH_PARTS_H
#define CAUSEWAY_BENCH_PARTS_H

#include <stdint.h>

struct rte_hash;
struct table;

/* What the loops of parts.c work on. */
struct parts {
	const uint8_t *packet; /* from the IPv4 header on, without ICRC */
	uint32_t len;
	const struct table *nodes;
	struct rte_hash *hash; /* the same keys, each with the address of its entry in nodes */
	uint32_t base;         /* the first node's IPv4 address, host order; its low bits are zero */
	uint32_t entries;      /* a power of 2 */
};

/* Makes DPDK use AVX-512 for its CRC if the CPU has it; returns which it uses. */
const char *parts_use_avx512(void);

/* Makes a hash with the keys of nodes. 0 or a negative errno. */
int parts_hash(struct parts *p);
void parts_free(struct parts *p);

/* Asks the kernel for transparent huge pages under DPDK's memory. 0, or -1: DPDK has no memory. */
int parts_advise(void);

#endif

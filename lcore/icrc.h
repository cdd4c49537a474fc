// SPDX-License-Identifier: Apache-2.0

/* The invariant CRC of InfiniBand and RoCE packets, for the packet path.
 *
 * The ICRC is the CRC-32 of Ethernet over the packet from its network header up to the ICRC itself,
 * with the fields that routers may rewrite read as ones, and with eight bytes of ones fed first where
 * RoCE has no LRH (IBTA vol 1 §7.8.1, Annex A16 and A17).
 *
 * The packet is read once and never written: masked fields are ORed in registers on their way into the CRC.
 * All functions here may be called by any number of threads at once. */
#ifndef CAUSEWAY_LCORE_ICRC_H
#define CAUSEWAY_LCORE_ICRC_H

#include <stdint.h>

/* What stands in front of the BTH. It says which bits are read as ones. */
enum icrc_kind {
	ICRC_IPV4, /* RoCEv2: IPv4 header without options, and UDP; 28 bytes */
	ICRC_IPV6, /* RoCEv2: IPv6 header without extensions, and UDP; 48 bytes */
	ICRC_GRH,  /* RoCEv1: a GRH; 40 bytes */
	ICRC_KINDS
};

/* Computes the ICRC of the len bytes at p, that is from the network header up to and without the ICRC field.
 * No byte outside [p, p+len) is read; any len is safe, and those from ICRC_FAST_MIN to ICRC_FAST_MAX are fast.
 * The value is as stored by a little-endian 32-bit store. */
typedef uint32_t (*icrc_fn)(enum icrc_kind kind, const uint8_t *p, uint32_t len);

/* One packet of a burst. */
struct icrc_job {
	const uint8_t *p;
	uint32_t len;
	enum icrc_kind kind;
};

/* Computes out[i] = ICRC of jobs[i] for i < n. */
typedef void (*icrc_burst_fn)(const struct icrc_job *jobs, unsigned n, uint32_t *out);

/* The largest len for which the vector versions keep constants: a 4096-byte payload behind IPv6, UDP, BTH,
 * DETH, ImmDt and pad, rounded up to whole 64-byte blocks. Longer input goes by the table version. */
#define ICRC_FAST_MAX 4288u

/* The smallest len that the vector versions take: one whole lane and more. */
#define ICRC_FAST_MIN 20u

/* The versions that icrc_init chose. Before its first call they point to functions that call it. */
extern icrc_fn icrc;
extern icrc_burst_fn icrc_burst;

/* Chooses the fastest version that this CPU can run and returns its name: "avx512", "pclmul" or "table".
 * Later calls change nothing and return the same name. */
const char *icrc_init(void);

#endif

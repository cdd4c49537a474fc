/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By which member of a bond the other end sends a flow.
 *
 * It may have a flow leave a member for reasons of its own: it has lost the carrier, or LACPDUs. Linux sends no marker
 * then (IEEE 802.1AX §6.5), so that only the flow's first frame by another member tells. What still waits in the queue
 * of the member that it has left is older.
 */
#ifndef CAUSEWAY_BOND_FLOWS_H
#define CAUSEWAY_BOND_FLOWS_H

#include <stdint.h>
#include <string.h>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mbuf.h>

enum {
	BOND_FLOWS = 4096, /* a power of two; flows that share a place cost polls, and may lose the sign */
	BOND_PORTS = 4,    /* bytes of source and destination port, in UDP as in TCP */
};

/* A queue's: the member of each flow and one, 0 before its first frame. Written by the worker of that queue. */
struct bond_flows {
	uint8_t by[BOND_FLOWS];
};

static inline uint64_t bond_mix(uint64_t h, const uint8_t *bytes, unsigned n)
{
	for (uint64_t word; n > 0; bytes += 4, n -= 4) {
		word = 0;
		memcpy(&word, bytes, 4);
		h = (h ^ word) * 0x9e3779b97f4a7c15;
		h ^= h >> 32;
	}
	return h;
}

/* The place of a frame's flow: MAC addresses and, where it has them, a VLAN tag, IP addresses and ports. */
static inline unsigned bond_flow(const struct rte_mbuf *m)
{
	const uint8_t *data = rte_pktmbuf_mtod(m, const uint8_t *), *end = data + rte_pktmbuf_data_len(m);
	uint64_t h = bond_mix(0, data, 2 * RTE_ETHER_ADDR_LEN);
	const uint8_t *ip = data + RTE_ETHER_HDR_LEN;
	if (data[12] == 0x81 && data[13] == 0) {
		h = bond_mix(h, ip - 2, RTE_VLAN_HLEN);
		ip += RTE_VLAN_HLEN;
	}
	if (ip + sizeof(struct rte_ipv6_hdr) + BOND_PORTS > end)
		return h & (BOND_FLOWS - 1);
	if (ip[-2] == 0x08 && ip[-1] == 0)
		h = bond_mix(h, ip + 12, 8 + BOND_PORTS); /* with options, what is at the ports' place is as steady */
	else if (ip[-2] == 0x86 && ip[-1] == 0xdd)
		h = bond_mix(h, ip + 8, 32 + BOND_PORTS);
	return h & (BOND_FLOWS - 1);
}

/* Notes that these frames came by a member. Returns the members that their flows have left for it, a bit each. */
static inline unsigned bond_flows_came(struct bond_flows *f, unsigned member, struct rte_mbuf *const *m, unsigned n)
{
	unsigned left = 0;

	for (unsigned i = 0; i < n; i++) {
		uint8_t *by = &f->by[bond_flow(m[i])], was = *by;
		*by = (uint8_t)(member + 1);
		if (unlikely(was != 0 && was != member + 1))
			left |= 1u << (was - 1);
	}
	return left;
}

#endif

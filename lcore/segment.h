/* SPDX-License-Identifier: Apache-2.0 */
/* Which segment a frame or an entry belongs to. */
#ifndef CAUSEWAY_SEGMENT_H
#define CAUSEWAY_SEGMENT_H

#include <rte_branch_prediction.h>
#include <rte_mbuf.h>
#include <string.h>

#include "byteorder.h"
#include "proto.h"
#include "worker.h"

/* The index of the port that a frame came by. */
static inline unsigned port_index(const struct datapath *dp, const struct rte_mbuf *m)
{
	return m->port & dp->port_mask;
}

/* A segment by its number. Compilers are kept from computing the address anew at each use. */
static inline const struct segment *segment_at(const struct datapath *dp, unsigned number)
{
	const struct segment *s = &dp->segment[number];
	__asm__("" : "+r"(s));
	return s;
}

/* The number of the segment of a VLAN id of a port, or SEGMENT_NONE. One may come or go at any time. */
static inline unsigned segment_number(const struct datapath *dp, unsigned port, uint16_t vid)
{
	return __atomic_load_n(&dp->segment_of[port][vid], __ATOMIC_ACQUIRE);
}

/* The segments of a VLAN id of whatever port, as bits by their numbers. */
static inline unsigned segments_on_vlan(const struct datapath *dp, uint16_t vid)
{
	unsigned segments = 0, ports = __atomic_load_n(&dp->ports, __ATOMIC_RELAXED) & PORTS_ALL;
	for (; ports; ports &= ports - 1)
		segments |= 1u << segment_number(dp, (unsigned)__builtin_ctz(ports), vid);
	return segments;
}

/* The segment of a VLAN id of a port; NULL: none's. */
static inline const struct segment *segment_of_vlan(const struct datapath *dp, unsigned port, uint16_t vid)
{
	unsigned i = segment_number(dp, port, vid);
	return likely(i != SEGMENT_NONE) ? &dp->segment[i] : NULL;
}

/* The only segment, when it is number 0, of an only port; else NULL. */
static inline const struct segment *only_segment(const struct datapath *dp)
{
	return likely(__atomic_load_n(&dp->segments, __ATOMIC_RELAXED) == 1) ? &dp->segment[0] : NULL;
}

/* The segment that a frame, of which len bytes are at eth, says it is of. The only one it is, or none's: what reads the
 * frame finds that out. */
static inline const struct segment *segment_of_frame(const struct datapath *dp, const struct rte_mbuf *m,
						     const uint8_t *eth, uint32_t len)
{
	const struct segment *only = only_segment(dp);
	if (likely(only))
		return only;
	unsigned i = SEGMENT_NONE;
	if (likely(len >= ETH_LEN + VLAN_LEN))
		i = segment_number(dp, port_index(dp, m), be16(eth + 12) == TYPE_VLAN ? be16(eth + 14) & 0xfff : 0);
	return &dp->segment[i];
}

/* The segment of the key of a host, a proxy QP or a group. */
static inline unsigned segment_of_key(const struct table_key *k)
{
	return (unsigned)(k->number >> SEGMENT_SHIFT);
}

/* The partition in the key of a proxy QP. */
static inline uint8_t partition_of_key(const struct table_key *k)
{
	return (uint8_t)(k->number >> PARTITION_SHIFT & PARTITION_MASK);
}

/* Whether messages of a segment may go to, and come from, a node or group of a partition. */
static inline bool segment_reaches(const struct segment *s, uint8_t partition)
{
	if (likely(s->partition == PARTITION_ANY))
		return true;
	return partition == PARTITION_HEARD || partition == s->partition;
}

/* Whether an address, 16 bytes and IPv4-mapped if it is one, is the bridge's own in a segment. */
static inline bool is_own(const struct segment *s, const uint8_t *addr16)
{
	for (unsigned i = 0; i < s->addresses; i++)
		if (memcmp(s->address[i], addr16, 16) == 0)
			return true;
	return false;
}

/* Whether a group's partition is its own, whatever the segment's is: the configuration says which segments it has. */
static inline bool group_is_shared(const struct group_entry *g)
{
	return g->flags & GROUP_SHARED;
}

#endif

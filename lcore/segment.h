/* SPDX-License-Identifier: Apache-2.0 */
/* Which segment a frame or an entry belongs to. */
#ifndef CAUSEWAY_SEGMENT_H
#define CAUSEWAY_SEGMENT_H

#include <rte_branch_prediction.h>

#include "byteorder.h"
#include "proto.h"
#include "worker.h"

/* The number of the segment of a VLAN id, or SEGMENT_NONE. One may come or go at any time. */
static inline unsigned segment_number(const struct datapath *dp, uint16_t vid)
{
	return __atomic_load_n(&dp->segment_of[vid], __ATOMIC_ACQUIRE);
}

/* The segment of a VLAN id; NULL: none's. */
static inline const struct segment *segment_of_vlan(const struct datapath *dp, uint16_t vid)
{
	unsigned i = segment_number(dp, vid);
	return likely(i != SEGMENT_NONE) ? &dp->segment[i] : NULL;
}

/* The segment that a frame of len bytes says it is of. Where the only one is number 0 it is that, or none: what reads
 * the frame finds that out. */
static inline const struct segment *segment_of_frame(const struct datapath *dp, const uint8_t *eth, uint32_t len)
{
	if (likely(__atomic_load_n(&dp->segments, __ATOMIC_RELAXED) == 1))
		return &dp->segment[0];
	unsigned i = SEGMENT_NONE;
	if (likely(len >= ETH_LEN + VLAN_LEN))
		i = segment_number(dp, be16(eth + 12) == TYPE_VLAN ? be16(eth + 14) & 0xfff : 0);
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
	return s->partition == PARTITION_ANY || partition == PARTITION_HEARD || partition == s->partition;
}

/* Whether a group's partition is its own, whatever the segment's is: the configuration says which segments it has. */
static inline bool group_is_shared(const struct group_entry *g)
{
	return g->flags & GROUP_SHARED;
}

#endif

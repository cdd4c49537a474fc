/* SPDX-License-Identifier: Apache-2.0 */
#include "partition.h"

/* Whether packet i is for a group that has its own partition. */
static bool is_shared(const struct burst *b, unsigned i)
{
	return b->lookup.to_group[i] && group_is_shared(b->lookup.to_entry[i]);
}

unsigned partition_of(const struct datapath *dp, const struct burst *b, unsigned i)
{
	const struct node_entry *n = b->lookup.to_entry[i];
	const struct segment *s = &dp->segment[segment_of_key(&b->lookup.from[i])];
	if (s->partition != PARTITION_ANY && !is_shared(b, i))
		return s->partition;
	uint8_t partition = table_partition_of(n);
	return partition == PARTITION_HEARD ? table_heard_in(dp->tables, n->id) : partition;
}

/* The key of a source's proxy QP in a partition. */
static struct table_key key_in(const struct table_key *from, unsigned partition)
{
	struct table_key k = *from;
	k.number &= ~((uint64_t)PARTITION_MASK << PARTITION_SHIFT);
	k.number |= (uint64_t)partition << PARTITION_SHIFT;
	return k;
}

enum drop find_in_partition(const struct datapath *dp, struct burst *b, unsigned i)
{
	const struct table *t = &dp->tables->proxy_qps;
	const struct segment *s = &dp->segment[segment_of_key(&b->lookup.from[i])];
	if (!is_shared(b, i) && !segment_reaches(s, table_partition_of(b->lookup.to_entry[i])))
		return DROP_wrong_partition;
	unsigned partition = partition_of(dp, b, i);
	if (partition == partition_of_key(&b->lookup.from[i]))
		return PASS;
	struct table_key k = key_in(&b->lookup.from[i], partition);
	b->lookup.from_entry[i] = table_find(t, table_hash(t, &k), &k);
	return PASS;
}

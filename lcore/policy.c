/* SPDX-License-Identifier: Apache-2.0 */
#include "policy.h"

#include <rte_rcu_qsbr.h>

struct admission *policy_admit(struct datapath *dp, struct admission *a)
{
	return __atomic_exchange_n(&dp->admission, a, __ATOMIC_ACQ_REL);
}

uint64_t policy_token(struct datapath *dp)
{
	return rte_rcu_qsbr_start(dp->tables->rcu);
}

bool policy_passed(struct datapath *dp, uint64_t token)
{
	return rte_rcu_qsbr_check(dp->tables->rcu, token, false) == 1;
}

/* Where the number of a segment is. */
static uint8_t *place_of(struct datapath *dp, unsigned number)
{
	const struct segment *s = &dp->segment[number];
	return &dp->segment_of[s->port][s->vlan];
}

/* One more than the highest number. With none for now, or several ports, not every frame is number 0's. */
static void set_segments(struct datapath *dp, unsigned n)
{
	unsigned least = n == 0 || dp->port_mask ? 2 : 1;
	__atomic_store_n(&dp->segments, (uint8_t)(n > least ? n : least), __ATOMIC_RELAXED);
}

static void count_segments(struct datapath *dp)
{
	unsigned n = MAX_SEGMENTS;
	while (n > 0 && *place_of(dp, n - 1) != n - 1)
		n--;
	set_segments(dp, n);
}

void policy_add_segment(struct datapath *dp, unsigned number)
{
	segment_prepare(dp, number);
	if (dp->segments <= number)
		set_segments(dp, number + 1);
	__atomic_store_n(place_of(dp, number), (uint8_t)number, __ATOMIC_RELEASE);
}

void policy_remove_segment(struct datapath *dp, unsigned number)
{
	__atomic_store_n(place_of(dp, number), SEGMENT_NONE, __ATOMIC_RELAXED);
	count_segments(dp);
}

void policy_mark_ports(struct datapath *dp)
{
	__atomic_store_n(&dp->ports, (uint16_t)(dp->ports | PORTS_SEVERAL), __ATOMIC_RELEASE);
}

void policy_add_port(struct datapath *dp, unsigned port)
{
	__atomic_store_n(&dp->port_mask, (uint8_t)(MAX_PORTS - 1), __ATOMIC_RELAXED);
	count_segments(dp);
	__atomic_store_n(&dp->ports, (uint16_t)(dp->ports | 1u << port), __ATOMIC_RELEASE);
}

void policy_remove_port(struct datapath *dp, unsigned port)
{
	__atomic_store_n(&dp->ports, (uint16_t)(dp->ports & ~(1u << port)), __ATOMIC_RELEASE);
}

void policy_unknown(struct datapath *dp, bool bridge)
{
	__atomic_store_n(&dp->bridge_unknown, bridge, __ATOMIC_RELAXED);
}

void policy_class(uint8_t *entry, uint8_t value)
{
	__atomic_store_n(entry, value, __ATOMIC_RELAXED);
}

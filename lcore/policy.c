/* SPDX-License-Identifier: Apache-2.0 */
#include "policy.h"

#include <rte_rcu_qsbr.h>

struct allow *policy_allow(struct datapath *dp, struct allow *a)
{
	return __atomic_exchange_n(&dp->allow, a, __ATOMIC_ACQ_REL);
}

uint64_t policy_token(struct datapath *dp)
{
	return rte_rcu_qsbr_start(dp->tables->rcu);
}

bool policy_passed(struct datapath *dp, uint64_t token)
{
	return rte_rcu_qsbr_check(dp->tables->rcu, token, false) == 1;
}

void policy_add_segment(struct datapath *dp, unsigned number)
{
	segment_prepare(dp, number);
	if (dp->segments <= number)
		__atomic_store_n(&dp->segments, (uint8_t)(number + 1), __ATOMIC_RELAXED);
	__atomic_store_n(&dp->segment_of[dp->segment[number].vlan], (uint8_t)number, __ATOMIC_RELEASE);
}

void policy_remove_segment(struct datapath *dp, unsigned number)
{
	__atomic_store_n(&dp->segment_of[dp->segment[number].vlan], SEGMENT_NONE, __ATOMIC_RELAXED);
	unsigned n = MAX_SEGMENTS;
	while (n > 0 && dp->segment_of[dp->segment[n - 1].vlan] != n - 1)
		n--;
	__atomic_store_n(&dp->segments, (uint8_t)(n ? n : 2),
			 __ATOMIC_RELAXED); /* none for now: no frame is number 0's */
}

void policy_unknown(struct datapath *dp, bool bridge)
{
	__atomic_store_n(&dp->bridge_unknown, bridge, __ATOMIC_RELAXED);
}

void policy_class(uint8_t *entry, uint8_t value)
{
	__atomic_store_n(entry, value, __ATOMIC_RELAXED);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "ports.h"

#include <string.h>

/* What an only port has carried until now becomes its own count. Towards RoCE what is received by a port is what was
 * routed to it. */
static void begin_counting(struct worker *w)
{
	const struct direction_counters *to_roce = &w->counters.direction[IB_TO_ROCE];
	struct direction_counters *own = w->by_port[0].direction;
	own[ROCE_TO_IB] = w->counters.direction[ROCE_TO_IB];
	memset(own[ROCE_TO_IB].events, 0, sizeof own[ROCE_TO_IB].events); /* which are not counted by port */
	own[IB_TO_ROCE].sent = to_roce->sent;
	own[IB_TO_ROCE].sent_bytes = to_roce->sent_bytes;
	own[IB_TO_ROCE].drops[DROP_eth_full] = to_roce->drops[DROP_eth_full];
	own[IB_TO_ROCE].received = to_roce->sent + to_roce->drops[DROP_eth_full];
}

void ports_change(struct worker *w)
{
	unsigned ports = __atomic_load_n(&w->datapath->ports, __ATOMIC_ACQUIRE);
	if (w->ports == ONLY_PORT)
		begin_counting(w);
	__atomic_store_n(&w->ports, (uint16_t)ports, __ATOMIC_RELEASE);
}

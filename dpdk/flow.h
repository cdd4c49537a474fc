/* SPDX-License-Identifier: Apache-2.0 */
/* What flow.c and its tests share; Go includes dpdk.h only. */
#ifndef CAUSEWAY_DPDK_FLOW_H
#define CAUSEWAY_DPDK_FLOW_H

#include <rte_flow.h>

#include "dpdk.h"

enum { FLOW_MAX_ITEMS = 5 };

/* A rule as rte_flow takes it, with everything that its pointers point to. */
struct flow_args {
	struct rte_flow_attr attr;
	struct rte_flow_item items[FLOW_MAX_ITEMS];
	struct rte_flow_action actions[2];

	struct rte_flow_item_eth eth, eth_mask;
	struct rte_flow_item_vlan vlan, vlan_mask;
	struct rte_flow_item_ipv4 ipv4, ipv4_mask;
	struct rte_flow_item_ipv6 ipv6, ipv6_mask;
	struct rte_flow_item_udp udp, udp_mask;
	struct rte_flow_action_queue queue;
	struct rte_flow_action_rss rss;
};

/* Writes a rule as the arguments of rte_flow_create(); they point into a and r. */
int dpdk_flow_args(struct flow_args *a, const struct dpdk_flow_rule *r);

#endif

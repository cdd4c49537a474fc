/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include <rte_byteorder.h>
#include <rte_ethdev.h>
#include <rte_flow.h>

#include "flow.h"

enum { ROCE_V1_ETHERTYPE = 0x8915, ROCE_V2_PORT = 4791, VLAN_ID = 0x0fff };

static void add(struct flow_args *a, enum rte_flow_item_type type, const void *spec, const void *mask)
{
	int n = 0;
	while (a->items[n].type != RTE_FLOW_ITEM_TYPE_END)
		n++;
	a->items[n] = (struct rte_flow_item){.type = type, .spec = spec, .mask = mask};
}

static void any(struct flow_args *a, enum rte_flow_item_type type)
{
	add(a, type, NULL, NULL);
}

/* Ends the link layer: the tag, if one is asked for. */
static void tag(struct flow_args *a, uint16_t vlan)
{
	if (vlan == 0)
		return;
	a->vlan.hdr.vlan_tci = rte_cpu_to_be_16(vlan);
	a->vlan_mask.hdr.vlan_tci = RTE_BE16(VLAN_ID); /* of any priority */
	add(a, RTE_FLOW_ITEM_TYPE_VLAN, &a->vlan, &a->vlan_mask);
}

static void ethernet(struct flow_args *a, uint16_t vlan)
{
	any(a, RTE_FLOW_ITEM_TYPE_ETH);
	tag(a, vlan);
}

/* In a VLAN, the ethertype is the tag's. */
static void ethertype(struct flow_args *a, uint16_t type, uint16_t vlan)
{
	if (vlan != 0) {
		a->vlan.hdr.eth_proto = rte_cpu_to_be_16(type);
		a->vlan_mask.hdr.eth_proto = RTE_BE16(0xffff);
		ethernet(a, vlan);
		return;
	}
	a->eth.hdr.ether_type = rte_cpu_to_be_16(type);
	a->eth_mask.hdr.ether_type = RTE_BE16(0xffff);
	add(a, RTE_FLOW_ITEM_TYPE_ETH, &a->eth, &a->eth_mask);
}

static void udp_port(struct flow_args *a, uint16_t port)
{
	a->udp.hdr.dst_port = rte_cpu_to_be_16(port);
	a->udp_mask.hdr.dst_port = RTE_BE16(0xffff);
	add(a, RTE_FLOW_ITEM_TYPE_UDP, &a->udp, &a->udp_mask);
}

static void igmp(struct flow_args *a, uint16_t vlan)
{
	a->ipv4.hdr.next_proto_id = IPPROTO_IGMP;
	a->ipv4_mask.hdr.next_proto_id = 0xff;
	ethernet(a, vlan);
	add(a, RTE_FLOW_ITEM_TYPE_IPV4, &a->ipv4, &a->ipv4_mask);
}

static void mac(struct flow_args *a, const uint8_t *to, uint16_t vlan)
{
	memcpy(a->eth.hdr.dst_addr.addr_bytes, to, 6);
	memset(a->eth_mask.hdr.dst_addr.addr_bytes, 0xff, 6);
	add(a, RTE_FLOW_ITEM_TYPE_ETH, &a->eth, &a->eth_mask);
	tag(a, vlan);
}

static void to_ipv4(struct flow_args *a, const uint8_t *to, uint16_t vlan)
{
	memcpy(&a->ipv4.hdr.dst_addr, to, 4);
	a->ipv4_mask.hdr.dst_addr = RTE_BE32(0xffffffff);
	ethernet(a, vlan);
	add(a, RTE_FLOW_ITEM_TYPE_IPV4, &a->ipv4, &a->ipv4_mask);
}

static void to_ipv6(struct flow_args *a, const uint8_t *to, uint16_t vlan)
{
	memcpy(a->ipv6.hdr.dst_addr, to, 16);
	memset(a->ipv6_mask.hdr.dst_addr, 0xff, 16);
	ethernet(a, vlan);
	add(a, RTE_FLOW_ITEM_TYPE_IPV6, &a->ipv6, &a->ipv6_mask);
}

static void roce_v2(struct flow_args *a, enum rte_flow_item_type ip, uint16_t vlan)
{
	ethernet(a, vlan);
	any(a, ip);
	udp_port(a, ROCE_V2_PORT);
}

static int pattern(struct flow_args *a, const struct dpdk_flow_rule *r)
{
	switch (r->match) {
	case DPDK_MATCH_ROCE_V2_IPV4:
		return roce_v2(a, RTE_FLOW_ITEM_TYPE_IPV4, r->vlan), 0;
	case DPDK_MATCH_ROCE_V2_IPV6:
		return roce_v2(a, RTE_FLOW_ITEM_TYPE_IPV6, r->vlan), 0;
	case DPDK_MATCH_ROCE_V1:
		return ethertype(a, ROCE_V1_ETHERTYPE, r->vlan), 0;
	case DPDK_MATCH_ARP:
		return ethertype(a, RTE_ETHER_TYPE_ARP, r->vlan), 0;
	case DPDK_MATCH_IGMP:
		return igmp(a, r->vlan), 0;
	case DPDK_MATCH_MAC:
		return mac(a, r->mac, r->vlan), 0;
	case DPDK_MATCH_IPV4:
		return to_ipv4(a, r->ip, r->vlan), 0;
	case DPDK_MATCH_IPV6:
		return to_ipv6(a, r->ip, r->vlan), 0;
	case DPDK_MATCH_UDP_IPV4:
		return to_ipv4(a, r->ip, r->vlan), udp_port(a, r->port), 0;
	case DPDK_MATCH_UDP_IPV6:
		return to_ipv6(a, r->ip, r->vlan), udp_port(a, r->port), 0;
	}
	return -EINVAL;
}

/* Every IPv4 or IPv6 packet alike, by its source address only. */
static uint64_t rss_types(enum dpdk_flow_match match)
{
	switch (match) {
	case DPDK_MATCH_ROCE_V2_IPV6:
	case DPDK_MATCH_IPV6:
	case DPDK_MATCH_UDP_IPV6:
		return RTE_ETH_RSS_IPV6 | RTE_ETH_RSS_L3_SRC_ONLY;
	default:
		return RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_L3_SRC_ONLY;
	}
}

static void action(struct flow_args *a, const struct dpdk_flow_rule *r)
{
	if (!r->rss) {
		a->queue.index = r->queues[0];
		a->actions[0] = (struct rte_flow_action){.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &a->queue};
		return;
	}
	a->rss = (struct rte_flow_action_rss){
		.func = RTE_ETH_HASH_FUNCTION_DEFAULT,
		.types = rss_types(r->match),
		.queue_num = r->n_queues,
		.queue = r->queues,
	};
	a->actions[0] = (struct rte_flow_action){.type = RTE_FLOW_ACTION_TYPE_RSS, .conf = &a->rss};
}

int dpdk_flow_args(struct flow_args *a, const struct dpdk_flow_rule *r)
{
	memset(a, 0, sizeof(*a)); /* 0 is RTE_FLOW_ITEM_TYPE_END and RTE_FLOW_ACTION_TYPE_END */
	a->attr = (struct rte_flow_attr){.ingress = 1, .priority = r->priority};
	action(a, r);
	return pattern(a, r);
}

static void tell(struct dpdk_flow_fault *f, const struct rte_flow_error *e)
{
	f->type = (int)e->type;
	snprintf(f->message, sizeof(f->message), "%s", e->message ? e->message : "");
}

int dpdk_flow_create(uint16_t id, const struct dpdk_flow_rule *r, struct rte_flow **out, struct dpdk_flow_fault *f)
{
	struct flow_args a;
	struct rte_flow_error e = {0};

	int err = dpdk_flow_args(&a, r);
	if (err == 0) {
		*out = rte_flow_create(id, &a.attr, a.items, a.actions, &e);
		err = *out ? 0 : -rte_errno;
	}
	tell(f, &e);
	return err;
}

int dpdk_flow_destroy(uint16_t id, struct rte_flow *flow, struct dpdk_flow_fault *f)
{
	struct rte_flow_error e = {0};

	int err = rte_flow_destroy(id, flow, &e);
	tell(f, &e);
	return err;
}

int dpdk_flow_isolate(uint16_t id, bool on, struct dpdk_flow_fault *f)
{
	struct rte_flow_error e = {0};

	int err = rte_flow_isolate(id, on ? 1 : 0, &e);
	tell(f, &e);
	return err;
}

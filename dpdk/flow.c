/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include <rte_byteorder.h>
#include <rte_ethdev.h>
#include <rte_flow.h>

#include "dpdk.h"

enum { ROCE_V1_ETHERTYPE = 0x8915, ROCE_V2_PORT = 4791, MAX_ITEMS = 5, VLAN_ID = 0x0fff };

/* A rule as rte_flow takes it, with everything that its pointers point to. */
struct words {
	struct rte_flow_attr attr;
	struct rte_flow_item items[MAX_ITEMS];
	struct rte_flow_action actions[2];

	struct rte_flow_item_eth eth, eth_mask;
	struct rte_flow_item_vlan vlan, vlan_mask;
	struct rte_flow_item_ipv4 ipv4, ipv4_mask;
	struct rte_flow_item_ipv6 ipv6, ipv6_mask;
	struct rte_flow_item_udp udp, udp_mask;
	struct rte_flow_action_queue queue;
	struct rte_flow_action_rss rss;
};

static void add(struct words *w, enum rte_flow_item_type type, const void *spec, const void *mask)
{
	int n = 0;
	while (w->items[n].type != RTE_FLOW_ITEM_TYPE_END)
		n++;
	w->items[n] = (struct rte_flow_item){.type = type, .spec = spec, .mask = mask};
}

static void any(struct words *w, enum rte_flow_item_type type)
{
	add(w, type, NULL, NULL);
}

/* Ends the link layer: the tag, if one is asked for. */
static void tag(struct words *w, uint16_t vlan)
{
	if (vlan == 0)
		return;
	w->vlan.hdr.vlan_tci = rte_cpu_to_be_16(vlan);
	w->vlan_mask.hdr.vlan_tci = RTE_BE16(VLAN_ID); /* of any priority */
	add(w, RTE_FLOW_ITEM_TYPE_VLAN, &w->vlan, &w->vlan_mask);
}

static void ethernet(struct words *w, uint16_t vlan)
{
	any(w, RTE_FLOW_ITEM_TYPE_ETH);
	tag(w, vlan);
}

/* In a VLAN, the ethertype is the tag's. */
static void ethertype(struct words *w, uint16_t type, uint16_t vlan)
{
	if (vlan != 0) {
		w->vlan.hdr.eth_proto = rte_cpu_to_be_16(type);
		w->vlan_mask.hdr.eth_proto = RTE_BE16(0xffff);
		ethernet(w, vlan);
		return;
	}
	w->eth.hdr.ether_type = rte_cpu_to_be_16(type);
	w->eth_mask.hdr.ether_type = RTE_BE16(0xffff);
	add(w, RTE_FLOW_ITEM_TYPE_ETH, &w->eth, &w->eth_mask);
}

static void udp_port(struct words *w, uint16_t port)
{
	w->udp.hdr.dst_port = rte_cpu_to_be_16(port);
	w->udp_mask.hdr.dst_port = RTE_BE16(0xffff);
	add(w, RTE_FLOW_ITEM_TYPE_UDP, &w->udp, &w->udp_mask);
}

static void igmp(struct words *w, uint16_t vlan)
{
	w->ipv4.hdr.next_proto_id = IPPROTO_IGMP;
	w->ipv4_mask.hdr.next_proto_id = 0xff;
	ethernet(w, vlan);
	add(w, RTE_FLOW_ITEM_TYPE_IPV4, &w->ipv4, &w->ipv4_mask);
}

static void mac(struct words *w, const uint8_t *to, uint16_t vlan)
{
	memcpy(w->eth.hdr.dst_addr.addr_bytes, to, 6);
	memset(w->eth_mask.hdr.dst_addr.addr_bytes, 0xff, 6);
	add(w, RTE_FLOW_ITEM_TYPE_ETH, &w->eth, &w->eth_mask);
	tag(w, vlan);
}

static void to_ipv4(struct words *w, const uint8_t *to, uint16_t vlan)
{
	memcpy(&w->ipv4.hdr.dst_addr, to, 4);
	w->ipv4_mask.hdr.dst_addr = RTE_BE32(0xffffffff);
	ethernet(w, vlan);
	add(w, RTE_FLOW_ITEM_TYPE_IPV4, &w->ipv4, &w->ipv4_mask);
}

static void to_ipv6(struct words *w, const uint8_t *to, uint16_t vlan)
{
	memcpy(w->ipv6.hdr.dst_addr, to, 16);
	memset(w->ipv6_mask.hdr.dst_addr, 0xff, 16);
	ethernet(w, vlan);
	add(w, RTE_FLOW_ITEM_TYPE_IPV6, &w->ipv6, &w->ipv6_mask);
}

static void roce_v2(struct words *w, enum rte_flow_item_type ip, uint16_t vlan)
{
	ethernet(w, vlan);
	any(w, ip);
	udp_port(w, ROCE_V2_PORT);
}

static int pattern(struct words *w, const struct dpdk_flow_rule *r)
{
	switch (r->match) {
	case DPDK_MATCH_ROCE_V2_IPV4:
		return roce_v2(w, RTE_FLOW_ITEM_TYPE_IPV4, r->vlan), 0;
	case DPDK_MATCH_ROCE_V2_IPV6:
		return roce_v2(w, RTE_FLOW_ITEM_TYPE_IPV6, r->vlan), 0;
	case DPDK_MATCH_ROCE_V1:
		return ethertype(w, ROCE_V1_ETHERTYPE, r->vlan), 0;
	case DPDK_MATCH_ARP:
		return ethertype(w, RTE_ETHER_TYPE_ARP, r->vlan), 0;
	case DPDK_MATCH_IGMP:
		return igmp(w, r->vlan), 0;
	case DPDK_MATCH_MAC:
		return mac(w, r->mac, r->vlan), 0;
	case DPDK_MATCH_IPV4:
		return to_ipv4(w, r->ip, r->vlan), 0;
	case DPDK_MATCH_IPV6:
		return to_ipv6(w, r->ip, r->vlan), 0;
	case DPDK_MATCH_UDP_IPV4:
		return to_ipv4(w, r->ip, r->vlan), udp_port(w, r->port), 0;
	case DPDK_MATCH_UDP_IPV6:
		return to_ipv6(w, r->ip, r->vlan), udp_port(w, r->port), 0;
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

static void action(struct words *w, const struct dpdk_flow_rule *r)
{
	if (!r->rss) {
		w->queue.index = r->queues[0];
		w->actions[0] = (struct rte_flow_action){.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &w->queue};
		return;
	}
	w->rss = (struct rte_flow_action_rss){
		.func = RTE_ETH_HASH_FUNCTION_DEFAULT,
		.types = rss_types(r->match),
		.queue_num = r->n_queues,
		.queue = r->queues,
	};
	w->actions[0] = (struct rte_flow_action){.type = RTE_FLOW_ACTION_TYPE_RSS, .conf = &w->rss};
}

static int put(struct words *w, const struct dpdk_flow_rule *r)
{
	memset(w, 0, sizeof(*w)); /* 0 is RTE_FLOW_ITEM_TYPE_END and RTE_FLOW_ACTION_TYPE_END */
	w->attr = (struct rte_flow_attr){.ingress = 1, .priority = r->priority};
	action(w, r);
	return pattern(w, r);
}

struct header {
	const char *name;
	unsigned len;
};

static struct header header(enum rte_flow_item_type type)
{
	switch (type) {
	case RTE_FLOW_ITEM_TYPE_ETH:
		return (struct header){"ETH", sizeof(struct rte_ether_hdr)};
	case RTE_FLOW_ITEM_TYPE_VLAN:
		return (struct header){"VLAN", sizeof(struct rte_vlan_hdr)};
	case RTE_FLOW_ITEM_TYPE_IPV4:
		return (struct header){"IPV4", sizeof(struct rte_ipv4_hdr)};
	case RTE_FLOW_ITEM_TYPE_IPV6:
		return (struct header){"IPV6", sizeof(struct rte_ipv6_hdr)};
	case RTE_FLOW_ITEM_TYPE_UDP:
		return (struct header){"UDP", sizeof(struct rte_udp_hdr)};
	default:
		return (struct header){"?", 0};
	}
}

static void show_bytes(FILE *f, char before, const uint8_t *bytes, unsigned n)
{
	if (!bytes)
		return;
	fputc(before, f);
	for (unsigned i = 0; i < n; i++)
		fprintf(f, "%02x", bytes[i]);
}

int dpdk_flow_show(const struct dpdk_flow_rule *r, char *out, unsigned size)
{
	struct words w;
	FILE *f = fmemopen(out, size, "w");

	if (!f)
		return -errno;
	int err = put(&w, r);
	for (const struct rte_flow_item *i = w.items; err == 0 && i->type != RTE_FLOW_ITEM_TYPE_END; i++) {
		struct header h = header(i->type);
		fputs(h.name, f);
		show_bytes(f, ' ', i->spec, h.len);
		show_bytes(f, '&', i->mask, h.len);
		fputs(" / ", f);
	}
	if (w.actions[0].type == RTE_FLOW_ACTION_TYPE_QUEUE)
		fprintf(f, "QUEUE %u", w.queue.index);
	else
		fprintf(f, "RSS types %#llx", (unsigned long long)w.rss.types);
	for (unsigned i = 0; i < w.rss.queue_num; i++)
		fprintf(f, " %u", w.rss.queue[i]);
	fprintf(f, " priority %u", w.attr.priority);
	fclose(f);
	return err;
}

static void tell(struct dpdk_flow_fault *f, const struct rte_flow_error *e)
{
	f->type = (int)e->type;
	snprintf(f->message, sizeof(f->message), "%s", e->message ? e->message : "");
}

int dpdk_flow_validate(uint16_t id, const struct dpdk_flow_rule *r, struct dpdk_flow_fault *f)
{
	struct words w;
	struct rte_flow_error e = {0};

	int err = put(&w, r);
	if (err == 0)
		err = rte_flow_validate(id, &w.attr, w.items, w.actions, &e);
	tell(f, &e);
	return err;
}

int dpdk_flow_create(uint16_t id, const struct dpdk_flow_rule *r, struct rte_flow **out, struct dpdk_flow_fault *f)
{
	struct words w;
	struct rte_flow_error e = {0};

	int err = put(&w, r);
	if (err == 0) {
		*out = rte_flow_create(id, &w.attr, w.items, w.actions, &e);
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

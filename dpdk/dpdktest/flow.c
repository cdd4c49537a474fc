/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include <rte_ethdev.h>

#include "../flow.h"
#include "dpdktest.h"

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

int dpdktest_flow_show(const struct dpdk_flow_rule *r, char *out, unsigned size)
{
	struct flow_args a;
	FILE *f = fmemopen(out, size, "w");

	if (!f)
		return -errno;
	int err = dpdk_flow_args(&a, r);
	for (const struct rte_flow_item *i = a.items; err == 0 && i->type != RTE_FLOW_ITEM_TYPE_END; i++) {
		struct header h = header(i->type);
		fputs(h.name, f);
		show_bytes(f, ' ', i->spec, h.len);
		show_bytes(f, '&', i->mask, h.len);
		fputs(" / ", f);
	}
	if (a.actions[0].type == RTE_FLOW_ACTION_TYPE_QUEUE)
		fprintf(f, "QUEUE %u", a.queue.index);
	else
		fprintf(f, "RSS types %#llx", (unsigned long long)a.rss.types);
	for (unsigned i = 0; i < a.rss.queue_num; i++)
		fprintf(f, " %u", a.rss.queue[i]);
	fprintf(f, " priority %u", a.attr.priority);
	fclose(f);
	return err;
}

int dpdktest_flow_validate(uint16_t port, const struct dpdk_flow_rule *r)
{
	struct flow_args a;
	struct rte_flow_error e;

	int err = dpdk_flow_args(&a, r);
	return err ? err : rte_flow_validate(port, &a.attr, a.items, a.actions, &e);
}

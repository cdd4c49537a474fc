/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include <limits.h>
#include <rte_mbuf.h>
#include <string.h>

#include "../byteorder.h"
#include "../proto.h"
#include "../segment.h"
#include "../../tables/entries.h"
#include "../../tables/tables.h"

/* 0: it has no tag. */
static bool is_on_vlan(const uint8_t *frame, uint32_t len, uint16_t vlan)
{
	if (len < ETH_LEN + VLAN_LEN)
		return len >= ETH_LEN && vlan == 0;
	uint16_t type = be16(frame + 12);
	return vlan == (type == TYPE_VLAN || type == TYPE_QINQ ? be16(frame + 14) & 0xfff : 0);
}

bool is_frame_at(const struct mirror_filter *f, const struct datapath *dp, const struct rte_mbuf *m)
{
	return (!f->by_port || port_index(dp, m) == f->eth_port) &&
	       (!f->by_vlan || is_on_vlan(rte_pktmbuf_mtod(m, const uint8_t *), m->data_len, f->vlan));
}

/* Also of those that have gone: no entry is theirs. */
static unsigned segments_of_port(const struct datapath *dp, uint8_t port)
{
	unsigned segments = 0;
	for (unsigned i = 0; i < MAX_SEGMENTS; i++)
		segments |= (unsigned)(dp->segment[i].port == port) << i;
	return segments;
}

unsigned segments_at(const struct mirror_filter *f, const struct datapath *dp)
{
	unsigned segments = f->by_vlan ? segments_on_vlan(dp, f->vlan) : UINT_MAX;
	return f->by_port ? segments & segments_of_port(dp, f->eth_port) : segments;
}

static const void *find(const struct table *t, const struct table_key *k)
{
	return table_find(t, table_hash(t, k), k);
}

uint8_t segments_of_message(const struct tables *t, uint32_t qpn, const uint8_t *area)
{
	struct table_key k = {.number = qpn};
	if (area && area[0] >> 4 == 6 && area[24] == 0xff) {
		k.number = 0;
		memcpy(k.addr, area + 24, sizeof k.addr);
		const struct mgid_entry *g = find(&t->mgids, &k);
		if (!g)
			return 0;
		uint8_t in = (uint8_t)(g->id >> GROUP_ID_BITS);
		return g->version & SHARED ? in : (uint8_t)(1 << in);
	}
	const struct proxy_qpn_entry *s = find(&t->proxy_qpns, &k);
	return s ? (uint8_t)(1 << s->segment) : 0;
}

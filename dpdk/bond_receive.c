/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include <rte_eth_bond_8023ad.h>

#include "bond_parts.h"

enum {
	SLOW_LACP = 1,
	SLOW_MARKER = 2,
	OLDER_BURST = 32,
};

/* Takes a priority tag off: it says nothing of a VLAN. */
static void take_priority_tag(struct rte_mbuf *m)
{
	const struct rte_vlan_hdr *tag = rte_pktmbuf_mtod_offset(m, const struct rte_vlan_hdr *, RTE_ETHER_HDR_LEN);
	if (rte_pktmbuf_data_len(m) < RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN || tag->vlan_tci & RTE_BE16(0xfff) ||
	    tag->eth_proto != RTE_BE16(RTE_ETHER_TYPE_SLOW))
		return;
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);
	memmove(frame + RTE_VLAN_HLEN, frame, 2 * RTE_ETHER_ADDR_LEN);
	rte_pktmbuf_adj(m, RTE_VLAN_HLEN);
}

/* Whether this is a frame of a slow protocol that a bond speaks (IEEE 802.3 Annex 57A). */
static bool is_slow(struct rte_mbuf *m)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);
	if (eth->ether_type == RTE_BE16(RTE_ETHER_TYPE_VLAN)) {
		take_priority_tag(m);
		eth = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);
	}
	if (likely(eth->ether_type != RTE_BE16(RTE_ETHER_TYPE_SLOW)) || rte_pktmbuf_data_len(m) < sizeof(*eth) + 1)
		return false;
	uint8_t subtype = *(const uint8_t *)(eth + 1);
	return subtype == SLOW_LACP || subtype == SLOW_MARKER;
}

static void slow_came(struct member *from, uint16_t queue, struct rte_mbuf *m)
{
	struct dpdk_bond *b = from->bond;
	uint64_t one = 1;

	m->port = from->port;
	if (rte_ring_enqueue(b->came, m) != 0) {
		from->queue[queue].slow_lost++;
		rte_pktmbuf_free(m);
	}
	if (!__atomic_exchange_n(&b->told, true, __ATOMIC_SEQ_CST) && write(b->fd, &one, sizeof(one)) < 0)
		__atomic_store_n(&b->told, false, __ATOMIC_SEQ_CST); /* the next frame tells */
}

static void send_slow(struct member *by, uint16_t queue)
{
	struct rte_mbuf *m;

	if (likely(rte_ring_empty(by->bond->to_send)))
		return;
	while (rte_ring_dequeue(by->bond->to_send, (void **)&m) == 0) {
		if (rte_eth_tx_burst(m->port, queue, &m, 1) == 1)
			continue;
		by->queue[queue].slow_lost++;
		rte_pktmbuf_free(m);
	}
}

/* net_bonding polls members in turn, whoever sent first. What came by a member that is leaving is older than what has
 * come since by those that carry on; what comes by one that is joining is newer than what others have. Among those that
 * are alike, what waits on a member that a flow has left is older. */
static bool goes_before(const struct member *x, const struct member *by, bool left)
{
	enum stage stage = bond_stage(x), other = bond_stage(by);

	return stage == other ? left : stage == LEAVING || (stage == CARRYING && other == JOINING);
}

/* Puts what such members have before the n frames that have come by another. Returns
 * how many are there. */
static uint16_t put_before(struct member *by, uint16_t queue, struct rte_mbuf **m, uint16_t n, uint16_t most)
{
	struct dpdk_bond *b = by->bond;
	unsigned left = bond_flows_came(&b->flows[queue], (unsigned)(by - b->member), m, n);
	struct rte_mbuf *older[OLDER_BURST];
	uint16_t found = 0, room = RTE_MIN(most - n, OLDER_BURST);

	for (unsigned i = 0; i < b->n; i++) {
		struct member *x = &b->member[i];
		if (x == by || !x->in || likely(!goes_before(x, by, left >> i & 1)))
			continue;
		if (rte_eth_bond_8023ad_ext_collect_get(b->port, by->port) != 1)
			break; /* net_bonding drops what by's poll returns: its link has changed */
		x->queue[queue].extra = true;
		found += rte_eth_rx_burst(x->port, queue, &older[found], room - found);
		x->queue[queue].extra = false;
	}
	if (found > 0) {
		memmove(&m[found], m, n * sizeof(*m));
		memcpy(m, older, found * sizeof(*m));
	}
	return n + found;
}

static uint16_t keep(struct member *from, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	bool collects = bond_stage(from) != AWAY;
	uint16_t kept = 0;

	for (uint16_t i = 0; i < n; i++) {
		if (unlikely(is_slow(m[i]))) {
			slow_came(from, queue, m[i]);
		} else if (unlikely(!collects)) {
			from->queue[queue].inactive++;
			rte_pktmbuf_free(m[i]);
		} else {
			m[kept++] = m[i];
		}
	}
	return kept;
}

uint16_t bond_received(__rte_unused uint16_t port, uint16_t queue, struct rte_mbuf **m, uint16_t n, uint16_t most,
		       void *arg)
{
	struct member *from = arg;
	struct member_queue *q = &from->queue[queue];

	if (n == 0)
		__atomic_store_n(&q->empty, q->empty + 1, __ATOMIC_RELEASE);
	n = keep(from, queue, m, n);
	if (q->extra)
		return n;
	send_slow(from, queue);
	return put_before(from, queue, m, n, most);
}

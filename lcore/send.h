/* SPDX-License-Identifier: Apache-2.0 */
/* Fills in a send descriptor for the InfiniBand port, and trims the mbuf to the payload. */
#ifndef CAUSEWAY_SEND_H
#define CAUSEWAY_SEND_H

#include "burst.h"

static inline void address_group(struct ib_ah *ah, const struct group_entry *g)
{
	memcpy(ah->dgid, g->mgid, 16);
	ah->dlid = g->mlid;
	ah->sl = g->sl; /* the group's record rules, not the frame */
	ah->hop_limit = g->hop_limit;
	ah->static_rate = g->rate;
}

static inline uint16_t grh_of(uint8_t node_flags)
{
	_Static_assert(IB_SEND_GRH == NODE_GRH << 1, "moved, not chosen: it is as often set as not");
	return (uint16_t)((node_flags & NODE_GRH) << 1);
}

/* On InfiniBand the path tells the hop limit: within the subnet it is 0 or 1. On Ethernet it is the frame's; 0 comes
 * from a GRH of RoCEv1, where it means this subnet only. */
static inline void address_node(const struct datapath *dp, struct ib_ah *ah, const struct node_entry *n)
{
	uint8_t asked_sl = __atomic_load_n(&dp->sl_of_dscp[ah->tclass >> 2], __ATOMIC_RELAXED);
	uint8_t counted = ah->hop_limit - (ah->hop_limit != 0);
	memcpy(ah->dgid, n->gid, 16);
	ah->dlid = n->lid;
	ah->sl = asked_sl ? asked_sl : n->sl;
	ah->hop_limit = likely(!dp->ib_is_ethernet) ? n->hop_limit : counted;
	ah->static_rate = n->rate;
}

/* Restores the frame of a packet that the port did not take, without bytes behind the ICRC. */
static inline void untrim(const struct burst *b, unsigned i)
{
	struct rte_mbuf *m = b->send[i].mbuf;
	m->data_off -= b->trim[i].headers;
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	m->data_len = (uint16_t)(b->icrc[i].p + b->icrc[i].len + 4 - frame);
	m->pkt_len = m->data_len;
}

/* An immediate equal to the sender's QPN becomes the proxy QP's, where that is configured. */
static __rte_noinline void rewrite_imm(const struct datapath *dp, struct burst *b, unsigned i,
				       const struct proxy_qp_entry *proxy_qp, const void *to)
{
	bool rewrite =
		b->lookup.to_group[i] ? ((const struct group_entry *)to)->flags & GROUP_REWRITE_IMM : dp->rewrite_imm;
	if (rewrite && b->send[i].imm == (uint32_t)b->lookup.from[i].number) {
		b->send[i].imm = proxy_qp->qpn;
		b->send[i].flags |= IB_SEND_IMM_QPN; /* by each of several ports it is another one */
	}
}

/* Completes the send descriptor that fastpath.h or parse.c has begun, and trims the mbuf to the payload, whose length
 * it returns. */
static __rte_always_inline unsigned fill_send(const struct datapath *dp, struct burst *b, unsigned i, bool group,
					      const struct proxy_qp_entry *proxy_qp, const void *to)
{
	struct ib_send *s = &b->send[i];
	uint16_t len = b->trim[i].payload_len;
	struct rte_mbuf *m = s->mbuf;
	m->data_off += b->trim[i].headers;
	m->data_len = len;
	m->pkt_len = len;
	s->qp = proxy_qp->qp;
	s->ah.source = proxy_qp->source;
	s->partition = proxy_qp->partition;
	mark_used(dp, &proxy_qp->used);
	if (group) {
		const struct group_entry *g = to;
		address_group(&s->ah, g);
		s->dest_qkey = g->qkey;
		s->flags |= IB_SEND_GRH;
	} else {
		const struct node_entry *n = to;
		address_node(dp, &s->ah, n);
		mark_used(dp, &n->used);
		s->flags |= grh_of(n->flags);
	}
	if (unlikely(s->flags & IB_SEND_IMM))
		rewrite_imm(dp, b, i, proxy_qp, to);
	return len;
}

#endif

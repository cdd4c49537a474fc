/* SPDX-License-Identifier: Apache-2.0 */
/* What the InfiniBand door gets: where a packet goes, how, and no more of it than its payload. */
#ifndef CAUSEWAY_SEND_H
#define CAUSEWAY_SEND_H

#include "burst.h"

static inline void address_group(struct ib_ah *ah, const struct group_entry *g)
{
	memcpy(ah->dgid, g->mgid, 16);
	ah->dlid = g->mlid;
	ah->sl = g->sl; /* the group's record rules, not the frame */
	ah->hop_limit = g->hop_limit;
}

static inline uint16_t grh_of(uint8_t node_flags)
{
	_Static_assert(IB_SEND_GRH == NODE_GRH << 1, "moved, not chosen: it is as often set as not");
	return (uint16_t)((node_flags & NODE_GRH) << 1);
}

/* A hop limit of 0 comes from a GRH of RoCEv1, where it means this subnet only. */
static inline void address_node(struct ib_ah *ah, const struct node_entry *n, uint8_t asked_sl)
{
	memcpy(ah->dgid, n->gid, 16);
	ah->dlid = n->lid;
	ah->sl = asked_sl ? asked_sl : n->sl;
	ah->hop_limit -= ah->hop_limit != 0;
}

/* A packet that the door did not take, whole again but for what was behind its ICRC. */
static inline void uncut(const struct burst *u, unsigned i)
{
	struct rte_mbuf *m = u->send[i].mbuf;
	m->data_off -= u->cut[i].headers;
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	m->data_len = (uint16_t)(u->icrc[i].p + u->icrc[i].len + 4 - frame);
	m->pkt_len = m->data_len;
}

/* Completes what plain.h or parse.c has found, and cuts the mbuf down to its payload. */
static inline void fill_send(const struct bench *b, struct burst *u, unsigned i)
{
	struct ib_send *s = &u->send[i];
	const struct cut *cut = &u->cut[i];
	const struct standin_entry *standin = u->lookup.from_entry[i];
	struct rte_mbuf *m = s->mbuf;
	m->data_off += cut->headers;
	m->data_len = cut->payload_len;
	m->pkt_len = cut->payload_len;
	s->qp = standin->qp;
	s->pkey_index = b->pkey_index;
	s->ah.source = standin->source;
	table_mark_used(&standin->used);
	bool rewrite;
	if (u->lookup.to_group[i]) {
		const struct group_entry *g = u->lookup.to_entry[i];
		address_group(&s->ah, g);
		s->dest_qkey = g->qkey;
		s->flags |= IB_SEND_GRH;
		rewrite = g->flags & GROUP_REWRITE_IMM;
	} else {
		const struct node_entry *n = u->lookup.to_entry[i];
		address_node(&s->ah, n, __atomic_load_n(&b->sl_of_dscp[s->ah.tclass >> 2], __ATOMIC_RELAXED));
		s->flags |= grh_of(n->flags);
		rewrite = b->rewrite_imm;
	}
	if (unlikely(s->flags & IB_SEND_IMM) && rewrite && s->imm == u->lookup.from[i].number)
		s->imm = standin->qpn;
}

#endif

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

static inline void address_node(struct ib_ah *ah, const struct node_entry *n, const struct packet *p, uint8_t asked_sl)
{
	memcpy(ah->dgid, n->gid, 16);
	ah->dlid = n->lid;
	ah->sl = asked_sl ? asked_sl : n->sl;
	ah->hop_limit = p->hop_limit ? p->hop_limit - 1 : 0; /* 0: a GRH of RoCEv1, which means this subnet only */
}

/* Cuts the mbuf down to its payload and says where it goes. */
static inline void fill_send(const struct worker *w, const struct packet *p, struct ib_send *s)
{
	const struct bench *b = w->bench;
	const struct standin_entry *standin = p->standin;
	struct rte_mbuf *m = p->mbuf;
	m->data_off = (uint16_t)(p->payload - (const uint8_t *)m->buf_addr);
	m->data_len = p->payload_len;
	m->pkt_len = p->payload_len;
	s->mbuf = m;
	s->qp = standin->qp;
	s->dest_qpn = p->dest_qpn;
	s->imm = p->imm;
	s->flags = p->flags;
	s->pkey_index = b->pkey_index;
	s->ah.tclass = p->tclass;
	s->ah.flow_label = p->flow_label;
	s->ah.source = standin->source;
	table_mark_used(&standin->used);
	bool rewrite;
	if (p->multicast) {
		const struct group_entry *g = p->found;
		address_group(&s->ah, g);
		s->dest_qkey = g->qkey;
		s->flags |= IB_SEND_GRH;
		rewrite = g->flags & GROUP_REWRITE_IMM;
	} else {
		const struct node_entry *n = p->found;
		address_node(&s->ah, n, p, b->sl_of_dscp[p->tclass >> 2]);
		s->dest_qkey = p->qkey;
		if (n->flags & NODE_GRH)
			s->flags |= IB_SEND_GRH;
		rewrite = b->rewrite_imm;
	}
	if (rewrite && (p->flags & IB_SEND_IMM) && p->imm == p->from.number)
		s->imm = standin->qpn;
}

#endif

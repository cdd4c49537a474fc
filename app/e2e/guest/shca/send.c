// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause

/* Work requests to packets. */

#include "shca.h"
#include <asm/unaligned.h>

/* What make_packet needs of a work request. */
struct outgoing {
	struct rvt_qp *qp;
	struct rvt_swqe *wqe;
	struct rdma_ah_attr *ah;
	u16 dlid;
	bool subnet; /* from QP0 */
	bool global, imm;
	u8 pad;
	u32 transport; /* bytes, BTH to pad */
};

static void copy_payload(struct rvt_swqe *wqe, u8 *to)
{
	struct rvt_sge_state ss = {.sg_list = wqe->sg_list + 1, .sge = wqe->sg_list[0], .num_sge = wqe->wr.num_sge};

	for (u32 left = wqe->length; left;) {
		u32 n = rvt_get_sge_length(&ss.sge, left);

		if (WARN_ON_ONCE(!n))
			return;
		memcpy(to, ss.sge.vaddr, n);
		rvt_update_sge(&ss, n, false); /* its references are the work request's */
		to += n;
		left -= n;
	}
}

static u8 *put_lrh(struct shca *s, u8 *p, const struct outgoing *o, u32 length)
{
	u16 bits = rdma_ah_get_path_bits(o->ah) & ((1 << s->port.lmc) - 1);

	p[0] = o->subnet ? VL_MANAGEMENT << 4 : 0;
	p[1] = (rdma_ah_get_sl(o->ah) & 15) << 4 | (o->global ? LNH_GLOBAL : LNH_LOCAL);
	put_unaligned_be16(o->dlid, p + 2);
	put_unaligned_be16(length / 4, p + 4);
	put_unaligned_be16(s->port.lid ? s->port.lid | bits : LID_PERMISSIVE, p + 6);
	return p + LRH_LEN;
}

static u8 *put_grh(struct shca *s, u8 *p, const struct outgoing *o)
{
	const struct ib_global_route *g = rdma_ah_read_grh(o->ah);
	u8 index = g->sgid_index < SHCA_GUIDS ? g->sgid_index : 0;

	if (!o->global)
		return p;
	put_unaligned_be32(6U << 28 | g->traffic_class << 20 | (g->flow_label & 0xfffff), p);
	put_unaligned_be16(o->transport + ICRC_LEN, p + 4);
	p[6] = 0x1b;
	p[7] = g->hop_limit;
	memcpy(p + 8, &s->rvp.gid_prefix, 8);
	memcpy(p + 16, &s->port.guids[index], 8);
	memcpy(p + 24, g->dgid.raw, 16);
	return p + GRH_LEN;
}

static u16 pkey_of(struct shca *s, const struct outgoing *o)
{
	if (o->subnet)
		return PKEY_DEFAULT;
	if (o->qp->ibqp.qp_type == IB_QPT_GSI)
		return rvt_get_pkey(&s->rdi, 0, rvt_get_swqe_pkey_index(o->wqe));
	return rvt_get_pkey(&s->rdi, 0, o->qp->s_pkey_index);
}

/* BTH, DETH and immediate data. */
static u8 *put_transport(struct shca *s, u8 *p, const struct outgoing *o)
{
	u32 qpn = is_multicast(o->dlid) ? QPN_MULTICAST : rvt_get_swqe_remote_qpn(o->wqe) & 0xffffff;
	u32 qkey = rvt_get_swqe_remote_qkey(o->wqe);
	bool solicited = o->wqe->wr.send_flags & IB_SEND_SOLICITED;

	p[0] = o->imm ? OP_UD_SEND_IMM : OP_UD_SEND;
	p[1] = (solicited ? 0x80 : 0) | 0x40 | o->pad << 4;
	put_unaligned_be16(pkey_of(s, o), p + 2);
	put_unaligned_be32(qpn, p + 4);
	put_unaligned_be32(o->wqe->psn & 0xffffff, p + 8);
	p += BTH_LEN;
	/* A Q_Key with its highest bit set stands for the queue pair's own (10.2.5). */
	put_unaligned_be32(qkey & BIT(31) ? o->qp->qkey : qkey, p);
	put_unaligned_be32(o->qp->ibqp.qp_num, p + 4);
	p += DETH_LEN;
	if (!o->imm)
		return p;
	memcpy(p, &o->wqe->wr.ex.imm_data, IMM_LEN);
	return p + IMM_LEN;
}

static struct sk_buff *make_packet(struct shca *s, const struct outgoing *o)
{
	u32 length = LRH_LEN + (o->global ? GRH_LEN : 0) + o->transport + ICRC_LEN;
	struct sk_buff *packet = cable_packet(s, length + VCRC_LEN);
	u8 *p;

	if (!packet)
		return NULL;
	p = put_lrh(s, packet->data, o, length);
	p = put_grh(s, p, o);
	p = put_transport(s, p, o);
	copy_payload(o->wqe, p);
	memset(p + o->wqe->length, 0, o->pad);
	p = packet->data;
	put_unaligned_le32(crc_invariant(p, length - ICRC_LEN), p + length - ICRC_LEN);
	put_unaligned_le16(crc_variant(p, length), p + length);
	return packet;
}

static void send_one(struct shca *s, struct rvt_qp *qp, struct rvt_swqe *wqe)
{
	struct rdma_ah_attr *ah = rvt_get_swqe_ah_attr(wqe);
	struct outgoing o = {
		.qp = qp,
		.wqe = wqe,
		.ah = ah,
		.dlid = rdma_ah_get_dlid(ah),
		.subnet = qp->ibqp.qp_type == IB_QPT_SMI,
		.global = rdma_ah_get_ah_flags(ah) & IB_AH_GRH,
		.imm = wqe->wr.opcode == IB_WR_SEND_WITH_IMM,
		.pad = -wqe->length & 3,
	};
	struct sk_buff *packet;

	o.transport = BTH_LEN + DETH_LEN + (o.imm ? IMM_LEN : 0) + wqe->length + o.pad;
	if (!o.subnet && s->port.state != IB_PORT_ACTIVE) {
		shca_count(s, OUT_NOT_ACTIVE);
		return;
	}
	packet = make_packet(s, &o);
	if (!packet) {
		shca_count(s, OUT_NO_MEMORY);
		return;
	}
	if (!is_multicast(o.dlid) && o.dlid != LID_PERMISSIVE && port_has_lid(s, o.dlid)) {
		shca_count(s, LOOPED);
		receive(s, packet->data, packet->len);
		kfree_skb(packet);
		return;
	}
	if (is_multicast(o.dlid) && shca_loopback)
		receive(s, packet->data, packet->len);
	cable_send(s, packet);
}

/* Completes all requests of a queue pair in its error state. The caller holds s_lock. */
static void flush(struct rvt_qp *qp)
{
	while (qp->s_last != READ_ONCE(qp->s_head)) {
		smp_rmb(); /* the request was written before s_head */
		rvt_send_complete(qp, rvt_get_swqe_ptr(qp, qp->s_last), IB_WC_WR_FLUSH_ERR);
	}
}

/* The next request to send, or NULL. The caller holds s_lock. */
static struct rvt_swqe *next_request(struct rvt_qp *qp)
{
	struct rvt_swqe *wqe;

	if (!(ib_rvt_state_ops[qp->state] & RVT_PROCESS_NEXT_SEND_OK) || qp->s_cur == READ_ONCE(qp->s_head))
		return NULL;
	smp_rmb(); /* the request was written before s_head */
	wqe = rvt_get_swqe_ptr(qp, qp->s_cur);
	qp->s_cur = rvt_qp_swqe_incr(qp, qp->s_cur);
	return wqe;
}

/* Sends the requests of one queue pair in order. rdmavt moves s_last when a request completes; RVT_S_BUSY keeps it from
 * flushing the one that is being sent. */
void send_work(struct work_struct *work)
{
	struct rvt_qp *qp = container_of(work, struct shca_qp, send)->qp;
	struct rvt_swqe *wqe;
	unsigned long flags;

	spin_lock_irqsave(&qp->s_lock, flags);
	if (qp->s_flags & RVT_S_BUSY)
		goto out;
	qp->s_flags |= RVT_S_BUSY;
	while ((wqe = next_request(qp))) {
		spin_unlock_irqrestore(&qp->s_lock, flags);
		send_one(to_shca(qp->ibqp.device), qp, wqe);
		spin_lock_irqsave(&qp->s_lock, flags);
		rvt_send_complete(qp, wqe, IB_WC_SUCCESS);
	}
	if (ib_rvt_state_ops[qp->state] & RVT_FLUSH_SEND)
		flush(qp);
	qp->s_flags &= ~RVT_S_BUSY;
out:
	spin_unlock_irqrestore(&qp->s_lock, flags);
}

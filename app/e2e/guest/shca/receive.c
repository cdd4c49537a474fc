// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause

/* Packets to completions. */

#include "shca.h"
#include <asm/unaligned.h>

/* A packet whose headers are sound. */
struct arrival {
	u16 dlid, slid, pkey;
	u8 vl, sl, opcode;
	bool solicited;
	u32 qpn, qkey, src_qp;
	__be32 imm;
	const u8 *grh; /* or NULL */
	u8 *payload;
	u32 length; /* of the payload */
};

/* Each of the three parse functions returns what is wrong, or DELIVERED. */

static enum shca_counter parse_link(struct arrival *a, const u8 *p, u32 size)
{
	u32 length;

	if (size < LRH_LEN + BTH_LEN + DETH_LEN + ICRC_LEN + VCRC_LEN)
		return IN_LENGTH;
	length = (get_unaligned_be16(p + 4) & 0x7ff) * 4;
	if (length + VCRC_LEN != size)
		return IN_LENGTH;
	if (get_unaligned_le16(p + length) != crc_variant(p, length))
		return IN_VCRC;
	if (get_unaligned_le32(p + length - ICRC_LEN) != crc_invariant(p, length - ICRC_LEN))
		return IN_ICRC;
	a->vl = p[0] >> 4;
	a->sl = p[1] >> 4;
	a->dlid = get_unaligned_be16(p + 2);
	a->slid = get_unaligned_be16(p + 6);
	return DELIVERED;
}

static enum shca_counter parse_network(struct arrival *a, u8 *p, u32 length)
{
	switch (p[1] & 3) {
	case LNH_LOCAL:
		return DELIVERED;
	case LNH_GLOBAL:
		if (length < LRH_LEN + GRH_LEN + BTH_LEN + DETH_LEN + ICRC_LEN)
			return IN_LENGTH;
		a->grh = p + LRH_LEN;
		return a->grh[0] >> 4 == 6 && a->grh[6] == 0x1b ? DELIVERED : IN_HEADERS;
	default:
		return IN_HEADERS;
	}
}

/* bth is followed by length bytes, without the ICRC. */
static enum shca_counter parse_transport(struct arrival *a, u8 *bth, u32 length)
{
	u8 pad = bth[1] >> 4 & 3, head = BTH_LEN + DETH_LEN;

	a->opcode = bth[0];
	if (a->opcode != OP_UD_SEND && a->opcode != OP_UD_SEND_IMM)
		return IN_OPCODE;
	if (bth[1] & 15) /* the transport's version */
		return IN_HEADERS;
	if (a->opcode == OP_UD_SEND_IMM)
		head += IMM_LEN;
	if (length < head + pad)
		return IN_LENGTH;
	if (a->opcode == OP_UD_SEND_IMM)
		memcpy(&a->imm, bth + BTH_LEN + DETH_LEN, IMM_LEN);
	a->solicited = bth[1] & 0x80;
	a->pkey = get_unaligned_be16(bth + 2);
	a->qpn = get_unaligned_be32(bth + 4) & 0xffffff;
	a->qkey = get_unaligned_be32(bth + 12);
	a->src_qp = get_unaligned_be32(bth + 16) & 0xffffff;
	a->payload = bth + head;
	a->length = length - head - pad;
	return DELIVERED;
}

/* A MAD for the subnet management agent or a subnet manager (14.2.1). */
static bool is_subnet_mad(const struct arrival *a)
{
	bool directed = a->payload[1] == IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE;

	return a->length == IB_MGMT_MAD_SIZE && a->vl == VL_MANAGEMENT && a->opcode == OP_UD_SEND &&
	       (directed || (a->dlid != LID_PERMISSIVE && a->slid != LID_PERMISSIVE));
}

/* What keeps the queue pair from taking the packet, or DELIVERED (9.6.1). Sets the completion's P_Key index. */
static enum shca_counter check_keys(struct shca *s, struct rvt_qp *qp, const struct arrival *a, struct ib_wc *wc)
{
	int index = 0;

	if (a->vl == VL_MANAGEMENT || a->dlid == LID_PERMISSIVE || a->slid == LID_PERMISSIVE)
		return IN_HEADERS;
	if (qp->ibqp.qp_type == IB_QPT_GSI)
		index = port_pkey_index(s, a->pkey);
	else if (!pkeys_match(a->pkey, rvt_get_pkey(&s->rdi, 0, qp->s_pkey_index)))
		index = -1;
	if (index < 0) {
		s->rvp.pkey_violations++;
		return IN_PKEY;
	}
	if (a->qkey != qp->qkey) {
		s->rvp.qkey_violations++;
		return IN_QKEY;
	}
	wc->pkey_index = index;
	return DELIVERED;
}

static enum shca_counter check(struct shca *s, struct rvt_qp *qp, const struct arrival *a, struct ib_wc *wc)
{
	if (!(ib_rvt_state_ops[qp->state] & RVT_PROCESS_RECV_OK))
		return IN_QP_STATE;
	switch (qp->ibqp.qp_type) {
	case IB_QPT_SMI:
		return is_subnet_mad(a) ? DELIVERED : IN_MAD;
	case IB_QPT_GSI:
		if (a->length != IB_MGMT_MAD_SIZE || a->opcode != OP_UD_SEND)
			return IN_MAD;
		return check_keys(s, qp, a, wc);
	case IB_QPT_UD:
		return check_keys(s, qp, a, wc);
	default:
		return IN_QP_TYPE;
	}
}

/* Takes a receive buffer that the message fits into: qp->r_sge. The caller holds r_lock. */
static enum shca_counter take_buffer(struct shca *s, struct rvt_qp *qp, u32 length)
{
	if (qp->r_flags & RVT_R_REUSE_SGE) { /* the last message did not fit into it */
		qp->r_flags &= ~RVT_R_REUSE_SGE;
	} else {
		int got = rvt_get_rwqe(qp, false);

		if (got < 0) {
			rvt_rc_error(qp, IB_WC_LOC_QP_OP_ERR);
			return IN_QP_STATE;
		}
		if (!got) {
			if (qp->ibqp.qp_type == IB_QPT_SMI)
				s->rvp.n_vl15_dropped++;
			return IN_NO_BUFFER;
		}
	}
	if (length > qp->r_len) {
		qp->r_flags |= RVT_R_REUSE_SGE;
		return IN_TOO_LONG;
	}
	return DELIVERED;
}

static void complete_receive(struct shca *s, struct rvt_qp *qp, const struct arrival *a, struct ib_wc *wc)
{
	if (a->grh)
		rvt_copy_sge(qp, &qp->r_sge, (void *)a->grh, GRH_LEN, true, false);
	else
		rvt_skip_sge(&qp->r_sge, GRH_LEN, true);
	rvt_copy_sge(qp, &qp->r_sge, a->payload, a->length, true, false);
	rvt_put_ss(&qp->r_sge);
	if (!test_and_clear_bit(RVT_R_WRID_VALID, &qp->r_aflags))
		return;
	wc->wr_id = qp->r_wr_id;
	wc->qp = &qp->ibqp;
	wc->wc_flags = (a->grh ? IB_WC_GRH : 0) | (a->opcode == OP_UD_SEND_IMM ? IB_WC_WITH_IMM : 0);
	wc->ex.imm_data = a->imm;
	wc->src_qp = a->src_qp;
	wc->slid = a->slid;
	wc->sl = a->sl;
	wc->port_num = qp->port_num;
	if (!is_multicast(a->dlid) && a->dlid != LID_PERMISSIVE)
		wc->dlid_path_bits = a->dlid & ((1 << s->port.lmc) - 1);
	rvt_recv_cq(qp, wc, a->solicited);
}

static void deliver(struct shca *s, struct rvt_qp *qp, const struct arrival *a)
{
	struct ib_wc wc = {.status = IB_WC_SUCCESS, .opcode = IB_WC_RECV, .byte_len = a->length + GRH_LEN};
	enum shca_counter result;
	unsigned long flags;

	spin_lock_irqsave(&qp->r_lock, flags);
	result = check(s, qp, a, &wc);
	if (result == DELIVERED)
		result = take_buffer(s, qp, wc.byte_len);
	if (result == DELIVERED)
		complete_receive(s, qp, a, &wc);
	spin_unlock_irqrestore(&qp->r_lock, flags);
	shca_count(s, result);
}

static void deliver_multicast(struct shca *s, const struct arrival *a)
{
	struct rvt_mcast *group = NULL;
	struct rvt_mcast_qp *member;

	if (a->grh)
		group = rvt_mcast_find(&s->rvp, (union ib_gid *)(a->grh + 24), a->dlid);
	if (!group) {
		shca_count(s, IN_NO_GROUP);
		return;
	}
	rcu_read_lock();
	list_for_each_entry_rcu(member, &group->qp_list, list) deliver(s, member->qp, a);
	rcu_read_unlock();
	if (atomic_dec_return(&group->refcount) <= 1) /* rvt_mcast_find took one; detaching waits for it */
		wake_up(&group->wait);
}

static void deliver_unicast(struct shca *s, const struct arrival *a)
{
	struct rvt_qp *qp;

	rcu_read_lock();
	qp = rvt_lookup_qpn(&s->rdi, &s->rvp, a->qpn);
	if (qp)
		deliver(s, qp, a);
	else
		shca_count(s, IN_NO_QP);
	rcu_read_unlock();
}

/* Takes a packet of the cable, or one of our own that comes back. */
void receive(struct shca *s, u8 *packet, u32 size)
{
	struct arrival a = {0};
	enum shca_counter result = parse_link(&a, packet, size);
	u32 length = size - VCRC_LEN, head;

	if (result == DELIVERED && a.vl != VL_MANAGEMENT && s->port.state < IB_PORT_ARMED)
		result = IN_NOT_ACTIVE;
	if (result == DELIVERED && !is_multicast(a.dlid) && a.dlid != LID_PERMISSIVE && !port_has_lid(s, a.dlid))
		result = IN_DLID;
	if (result == DELIVERED)
		result = parse_network(&a, packet, length);
	head = LRH_LEN + (a.grh ? GRH_LEN : 0);
	if (result == DELIVERED)
		result = parse_transport(&a, packet + head, length - head - ICRC_LEN);
	if (result != DELIVERED)
		shca_count(s, result);
	else if (a.qpn == QPN_MULTICAST)
		deliver_multicast(s, &a);
	else
		deliver_unicast(s, &a);
}

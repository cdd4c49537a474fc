/* SPDX-License-Identifier: Apache-2.0 */
/* BTH, DETH and immediate data of a packet whose ICRC is right. */
#include "burst.h"
#include "proto.h"

enum {
	IMM_LEN = 4,
	MAD_LEN = 256,
	MAD_OUI = 36,    /* of vendors' classes, behind a reserved byte */
	SIDR_REQ = 0x17, /* attributes of the connection manager's MADs */
	SIDR_REP = 0x18,
	OP_UD_SEND_ONLY = 0x64,
	OP_UD_SEND_ONLY_IMM = 0x65,
	OP_CN = 0x80,  /* InfiniBand's congestion notification */
	OP_CNP = 0x81, /* RoCEv2's */
	QP_SMI = 0,
	QP_GSI = 1,
};
static const uint32_t QKEY_GSI = 0x80010000;
static const uint32_t QKEY_CONTROLLED = 0x80000000;

/* IBTA vol 1 §10.9.3: the same partition, of which 0 is none, and one of the two a full member. */
static bool pkey_matches(uint16_t theirs, uint16_t ours)
{
	return ((theirs ^ ours) & 0x7fff) == 0 && ((theirs | ours) & 0x8000) != 0 && (theirs & 0x7fff) != 0;
}

/* Splits what follows the BTH of a UD send. have: the bytes from the BTH up to the ICRC, at least the BTH. */
static enum drop parse_deth(struct packet *p, const uint8_t *bth, uint32_t have)
{
	bool imm = bth[0] == OP_UD_SEND_ONLY_IMM;
	uint32_t headers = UD_LEN + (imm ? IMM_LEN : 0);
	if (unlikely(have < headers))
		return DROP_bth_len;
	p->flags = (uint8_t)((bth[1] & 0x80 ? IB_SEND_SOLICITED : 0) | (imm ? IB_SEND_IMM : 0));
	p->imm = imm ? be32(bth + UD_LEN) : 0;
	uint32_t pad = bth[1] >> 4 & 3;
	if (unlikely(pad > have - headers))
		return DROP_bth_pad;
	p->dest_qpn = be32(bth + 4) & 0xffffff;
	p->qkey = be32(bth + BTH_LEN);
	p->payload = bth + headers;
	p->payload_len = (uint16_t)(have - headers - pad);
	return PASS;
}

/* SIDR requests and replies: base version 1, class 7 (connection management), class version 2, method Send. */
static bool is_sidr(const uint8_t *mad)
{
	uint16_t attribute = be16(mad + 16);
	return be32(mad) == 0x01070203 && (attribute == SIDR_REQ || attribute == SIDR_REP);
}

/* Messages of bridges to each other (ibside/ib, BridgeMAD), to an own address: base version 1, class 0x4b, class
 * version 1, method Send, and its OUI. */
static bool is_bridge_message(const struct packet *p)
{
	return be32(p->payload) == 0x014b0103 && (be32(p->payload + MAD_OUI) & 0xffffff) == 0x024357 &&
	       is_own(p->segment, p->to.addr);
}

/* QP1 takes MADs: SIDR is for the bridge's own service, and messages are for the bridge itself; all else is dropped. */
static enum drop check_mad(const struct packet *p)
{
	if (p->qkey != QKEY_GSI)
		return DROP_qkey;
	if (p->payload_len != MAD_LEN)
		return DROP_mad_len;
	return is_sidr(p->payload) || is_bridge_message(p) ? DROP_mad_served : DROP_mad_unserved;
}

static enum drop check_qps(const struct packet *p, uint32_t src_qpn)
{
	if (unlikely(p->dest_qpn == QP_SMI))
		return DROP_qp0;
	if (unlikely(p->multicast != (p->dest_qpn == QPN_MULTICAST)))
		return DROP_mcast_incons;
	if (unlikely(p->dest_qpn == QP_GSI))
		return check_mad(p);
	if (unlikely(p->qkey & QKEY_CONTROLLED))
		return DROP_qkey_controlled;
	if (unlikely(src_qpn <= QP_GSI || src_qpn == QPN_MULTICAST))
		return DROP_srcqp;
	return PASS;
}

void count_events(struct worker *w, const struct packet *p)
{
	uint64_t *events = w->counters.direction[ROCE_TO_IB].events;
	const uint8_t *bth = p->transport;
	if (unlikely(p->flags & IB_SEND_FECN))
		events[EVENT_ECN_CE]++;
	if (p->plain)
		return;
	if (unlikely((bth[4] & 0x3f) | (bth[8] & 0x7f) | bth[BTH_LEN + 4]))
		events[EVENT_RESERVED]++;
}

enum drop transport(const struct datapath *dp, struct packet *p)
{
	const uint8_t *bth = p->transport;
	if (unlikely((bth[1] & 15) != 0))
		return DROP_bth_tver;
	if (unlikely(bth[0] != OP_UD_SEND_ONLY && bth[0] != OP_UD_SEND_ONLY_IMM))
		return bth[0] == OP_CN || bth[0] == OP_CNP ? DROP_cnp_rx : DROP_bth_opcode;
	enum drop d = parse_deth(p, bth, p->transport_len);
	if (unlikely(d))
		return d;
	if (unlikely(!pkey_matches(be16(bth + 2), dp->roce_pkey)))
		return DROP_pkey;
	if (unlikely((p->tclass & 3) == 3 || (bth[4] & 0x80)))
		p->flags |= IB_SEND_FECN;
	return check_qps(p, be32(bth + BTH_LEN + 4) & 0xffffff);
}

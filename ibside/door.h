/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The InfiniBand door, as the bench sees it: what a worker calls, once a burst.
 *
 *   worker ── post(sends) ──▶ door ──▶ HCA          RoCE to IB
 *   worker ◀── poll(recvs) ── door ◀── HCA          IB to RoCE
 *
 * Every worker has a door of its own (its QPs, SRQ and CQ), so no call here locks. Numbers are in host
 * byte order; a GID is 16 bytes in wire order.
 *
 * Who owns an mbuf: post() takes the mbufs of the sends it accepted, and the door frees each when its
 * send completes; the others stay the worker's. poll() gives mbufs to the worker. A door that keeps
 * receive buffers posted takes them from the mempool it was built with.
 */
#ifndef CAUSEWAY_DOOR_H
#define CAUSEWAY_DOOR_H

#include <stdbool.h>
#include <stdint.h>

struct rte_mbuf;

enum {
	IB_GRH_LEN = 40, /* the area before every UD payload received, GRH or not (verbs, ibv_post_recv(3)) */

	IB_SEND_IMM = 1,       /* imm is carried: SEND_ONLY_WITH_IMM */
	IB_SEND_SOLICITED = 2, /* BTH.SE */
	IB_SEND_GRH = 4,       /* the address handle has a GRH: always so for multicast */
	IB_SEND_FECN = 8,      /* the message met congestion; a door that cannot tell the HCA ignores this */

	IB_RECV_IMM = 1, /* imm is valid */
	IB_RECV_GRH = 2, /* the 40 bytes hold a network header */
	IB_RECV_SOLICITED = 4,
	IB_RECV_FECN = 8, /* BTH.FECN was set; never seen by verbs */
};

/* What an address handle contains: where on the subnet a message goes. Filled by the worker per
 * message, because traffic class, flow label and hop limit come from the frame. */
struct ib_ah {
	uint8_t dgid[16];
	uint16_t dlid;
	uint8_t sl;
	uint8_t hop_limit;
	uint8_t tclass;
	uint8_t source;      /* whose GID it is sent from, by the door's numbers; 0: the bridge's own */
	uint32_t flow_label; /* 20 bits */
};

/* One UD message to the IB fabric. The mbuf's data is the payload: no header before it, no pad, no ICRC. */
struct ib_send {
	struct rte_mbuf *mbuf;
	struct ib_ah ah;
	uint32_t qp; /* the sending QP: a handle of this door's (stand-in or multicast QP) */
	uint32_t dest_qpn;
	uint32_t dest_qkey;
	uint32_t imm;
	uint16_t flags; /* IB_SEND_* */
	uint16_t pkey_index;
};

/* One UD message from the IB fabric. The mbuf's data is the 40-byte area and then the payload. Its P_Key has been
 * matched with the queue pair's by the door's adapter; there is no index here, as verbs tells it for QP1 alone. */
struct ib_recv {
	struct rte_mbuf *mbuf;
	uint32_t qpn; /* the local QP that received it */
	uint32_t src_qpn;
	uint32_t imm;
	uint16_t slid;
	uint8_t sl;
	uint8_t flags; /* IB_RECV_* */
};

/* One worker's share of a door. */
struct ib_door {
	void *self;

	/* Posts n sends, one chained list per QP. Returns how many were taken, always the first ones. */
	unsigned (*post)(void *self, const struct ib_send *sends, unsigned n);

	/* Takes up to n received messages. */
	unsigned (*poll)(void *self, struct ib_recv *recvs, unsigned n);

	/* Frees the mbufs of completed sends and reposts receive buffers; called once per loop. */
	void (*free)(void *self);
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The InfiniBand port as the datapath sees it: the calls of a worker, once a burst.
 *
 *   worker ── post(sends) ──▶ port ──▶ HCA          RoCE to IB
 *   worker ◀── poll(recvs) ── port ◀── HCA          IB to RoCE
 *
 * Every worker has a port of its own (its QPs, SRQ and CQ), so no call here locks. Numbers are in host
 * byte order; a GID is 16 bytes in wire order.
 *
 * Who owns an mbuf: post() takes the mbufs of the sends it accepted, and the port frees each when its
 * send completes; the others stay the worker's. poll() gives mbufs to the worker. A port that keeps
 * receive buffers posted takes them from the mempool it was built with.
 */
#ifndef CAUSEWAY_PORT_H
#define CAUSEWAY_PORT_H

#include <stdbool.h>
#include <stdint.h>

struct rte_mbuf;

enum {
	IB_WAKES = 2,

	IB_GRH_LEN = 40, /* the area before every UD payload received, GRH or not (verbs, ibv_post_recv(3)) */

	IB_SEND_IMM = 1,       /* imm is carried: SEND_ONLY_WITH_IMM */
	IB_SEND_SOLICITED = 2, /* BTH.SE */
	IB_SEND_GRH = 4,       /* the address handle has a GRH: always so for multicast */
	IB_SEND_FECN = 8,      /* the message met congestion; a port that cannot tell the HCA ignores this */
	IB_SEND_IMM_QPN = 16,  /* imm is the sending QP's QPN: for a port that has several for one (ibside/multipath) */

	IB_RECV_IMM = 1, /* imm is valid */
	IB_RECV_GRH = 2, /* the 40 bytes hold a network header */
	IB_RECV_SOLICITED = 4,
	IB_RECV_FECN = 8, /* BTH.FECN was set; never seen by verbs */

	/* Of several ports (ibside/multipath). */
	IB_RECV_ASK = 16,       /* arrived() says whether it may cross */
	IB_RECV_PORT_SHIFT = 6, /* the upper bits: the port that it came by */
	IB_RECV_SEVERAL = IB_RECV_ASK | 3 << IB_RECV_PORT_SHIFT,
};

/* What an address handle contains: where on the subnet a message goes. Filled by the worker per
 * message, because traffic class, flow label and, on Ethernet, the hop limit come from the frame. */
struct ib_ah {
	uint8_t dgid[16];
	uint16_t dlid;
	uint8_t sl;
	uint8_t hop_limit;
	uint8_t tclass;
	uint8_t source;      /* the port's number for the source GID; 0: the bridge's own */
	uint8_t static_rate; /* enum ibv_rate; 0: the port's own */
	uint32_t flow_label; /* 20 bits */
};

/* One UD message to the IB fabric. The mbuf's data is the payload: no header before it, no pad, no ICRC. */
struct ib_send {
	struct rte_mbuf *mbuf;
	struct ib_ah ah;
	uint32_t qp; /* the sending QP: a handle of this port's (proxy QP or multicast QP) */
	uint32_t dest_qpn;
	uint32_t dest_qkey;
	uint32_t imm;
	uint16_t flags;     /* IB_SEND_* */
	uint16_t partition; /* the sending QP's, as the bridge numbers them (tables/entries.h): for mirrors */
};

/* One UD message from the IB fabric. The mbuf's data is the 40-byte area and then the payload. Its P_Key has been
 * matched with the queue pair's by the port's adapter; there is no index here, because verbs reports it for QP1 alone.
 */
struct ib_recv {
	struct rte_mbuf *mbuf;
	uint32_t qpn; /* the local QP that received it */
	uint32_t src_qpn;
	uint32_t imm;
	uint16_t slid;
	uint8_t sl;
	uint8_t flags; /* IB_RECV_* */
};

/* What a port of several says of a message that would cross. */
enum ib_arrival {
	IB_ARRIVAL_TAKEN,
	IB_ARRIVAL_STANDBY,   /* its group is taken from another port */
	IB_ARRIVAL_DUPLICATE, /* another port has brought it */
};

/* One worker's share of a port. */
struct ib_port {
	void *self;

	/* Posts n sends, one chained list per QP. Returns how many were taken, always the first ones. */
	unsigned (*post)(void *self, const struct ib_send *sends, unsigned n);

	/* Takes up to n received messages. */
	unsigned (*poll)(void *self, struct ib_recv *recvs, unsigned n);

	/* Takes note of a message with IB_RECV_ASK that would cross, as poll() has given it, and says whether it may.
	 * Who may not cross is not noted: nobody else's messages depend on theirs. */
	enum ib_arrival (*arrived)(void *self, const struct ib_recv *r); /* NULL: no message has IB_RECV_ASK */

	/* Frees the mbufs of completed sends and reposts receive buffers; called once per loop. */
	void (*free)(void *self);

	/* For a worker that sleeps: arm() makes the descriptors wake it, edge-triggered (epoll(7)), with the next
	 * message, completion or answer. It polls once more after arm(), and calls disarm() before it polls again. */
	void (*arm)(void *self); /* NULL: the port cannot wake a worker */
	void (*disarm)(void *self);
	int wake[IB_WAKES]; /* descriptors; -1: none */
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What somebody who watches sees of packets: copies, at the points where a packet changes hands.
 *
 *   worker ── sight ──▶ ring ──▶ watcher         one ring a worker and watcher, one producer, one consumer
 *
 * A ring that is full counts what it misses; the worker never waits, and packets do not notice. Nobody watching costs
 * a test a burst, and one a drop.
 *
 * A way out that may refuse is sighted in two steps: staged before the mbufs are given away, and let out for those that
 * were taken.
 */
#ifndef CAUSEWAY_SIGHT_H
#define CAUSEWAY_SIGHT_H

#include <rte_branch_prediction.h>
#include <stdbool.h>
#include <stdint.h>

#include "lcore/counters.h"
#include "lcore/drop.h"

struct burst;
struct ib_recv;
struct rte_mbuf;
struct tables;
struct worker;

enum {
	MAX_WATCHERS = 4,
	SIGHT_NOBODY = UINT16_MAX, /* the number of no worker */
};

/* Where a packet was seen. */
enum sight_point {
	SIGHT_RECEIVED = 1,
	SIGHT_SENT,       /* taken by the other door */
	SIGHT_DROPPED,    /* by the reason that is in drop */
	SIGHT_MANAGEMENT, /* management's from here on */
	SIGHT_WAITING,    /* at management, for a stand-in */
	SIGHT_HANDED,     /* to the worker that owns the stand-in */
	SIGHT_OWN,        /* a frame of management's, on its way out */
	SIGHT_POINTS
};

/* What the copied bytes are. */
enum sight_form {
	SIGHT_FRAME,   /* from the first byte of Ethernet */
	SIGHT_MESSAGE, /* received from InfiniBand: the 40-byte area, then the payload */
	SIGHT_SEND,    /* handed to InfiniBand: the payload */
};

/* What a door's descriptor says: struct ib_send's or ib_recv's. */
struct sight_ib {
	uint8_t dgid[16]; /* of a send */
	uint32_t qp;      /* the sending QP, by the door's number */
	uint32_t qpn;     /* the stand-in's, or the local QP that received */
	uint32_t peer;    /* the other end's QPN */
	uint32_t qkey;    /* of a send */
	uint32_t imm;
	uint32_t flow_label;
	uint16_t lid;        /* destination of a send, source of what was received */
	uint16_t pkey_index; /* of a send */
	uint16_t flags;      /* IB_SEND_* or IB_RECV_*; 0 with no descriptor */
	uint8_t sl;
	uint8_t tclass;
	uint8_t hop_limit;
	uint8_t source; /* which of the port's GIDs a send is from */
	bool known;     /* there was a descriptor */
};

/* A slot of a ring; the copied bytes follow it. */
struct sight {
	uint64_t tsc;
	uint64_t packet; /* the same in all sights of a packet */
	uint32_t len;    /* bytes there were */
	uint32_t kept;   /* bytes copied */
	uint16_t worker;
	uint8_t direction, point, drop, form;
	uint8_t place; /* in its burst, while staged */
	struct sight_ib ib;
};

enum { SIGHT_ROCE = 1, SIGHT_IB = 2 }; /* doors, as bits */

/* What a watcher wants. All that is set must be so. Addresses and QPNs are compared with all that a packet's ends are
 * known by on both fabrics, so that one filter finds a packet on both sides. */
struct sight_filter {
	uint8_t doors;      /* SIGHT_ROCE | SIGHT_IB */
	uint8_t directions; /* bits, 1 << enum direction */
	uint8_t points;     /* bits, 1 << enum sight_point */
	uint8_t drop;       /* 0: whatever it is */
	bool by_host, by_group, by_qpn;
	uint8_t host[16], group[16]; /* IPv4-mapped, or as they are */
	uint32_t qpn;
};

struct sight_ring;

/* What a worker knows of those who watch it; never changed, but replaced as a whole. */
struct sights {
	const struct tables *tables;
	unsigned n;
	struct {
		struct sight_filter filter;
		struct sight_ring *ring;
	} watcher[MAX_WATCHERS];
};

/* n frames have come from Ethernet, or n messages from InfiniBand: they get their numbers, too. */
void sight_frames(struct worker *w, struct rte_mbuf **m, unsigned n);
void sight_messages(struct worker *w, const struct ib_recv *r, unsigned n);

/* Frames that are about to be given away, and sends. */
void sight_stage(struct worker *w, enum sight_point p, enum direction d, enum drop reason, struct rte_mbuf **m,
		 unsigned n);
void sight_stage_sends(struct worker *w, const struct burst *b);

/* The first n of them were taken. */
void sight_taken(struct worker *w, unsigned n);

/* A packet is about to be freed. A message has its descriptor. */
void sight_drop(struct worker *w, enum direction d, enum drop reason, struct rte_mbuf *m);
void sight_drop_message(struct worker *w, enum drop reason, const struct ib_recv *r);

/* A frame that a worker gave to management dies there; on management's thread, whose sights s are. */
void sight_refused(struct sights *s, uint16_t worker, enum drop reason, struct rte_mbuf *m);

#endif

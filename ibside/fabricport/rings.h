/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded InfiniBand port: for each worker two rings of mbufs, single producer and single consumer.
 *
 *   worker ── post ──▶ sends ── port_take ────▶ Go        payloads copied out, mbufs freed
 *   worker ◀── poll ── recvs ◀── port_deliver ── Go        mbufs allocated, messages copied in
 *
 * A message's descriptor travels in the private area of its mbuf, so a ring slot is one pointer. Whoever
 * holds the pointer owns the mbuf; what lies in a ring is the port's, and port_free() frees it.
 */
#ifndef CAUSEWAY_FABRIC_RINGS_H
#define CAUSEWAY_FABRIC_RINGS_H

#include <stdint.h>

#include "../port.h"
#include "../wake.h"

struct rte_mempool;
struct rte_ring;

enum {
	PORT_PRIV_SIZE = 128, /* what the mempool must give each mbuf: port.h's larger descriptor fits twice */
	PORT_HEADROOM = 128,  /* in front of the 40-byte area: the worker writes Ethernet to IP headers there */

	PORT_TAKEN_ALL = 0, /* why port_deliver stopped */
	PORT_RING_FULL = 1,
	PORT_NO_MBUF = 2,
};

/* One worker's end. Alone in its cache lines: the worker reads it on each burst. */
struct port_end {
	struct ib_port ib_port; /* what the worker sees */
	struct rte_ring *sends;
	struct rte_ring *recvs;
	struct rte_mempool *pool;
	struct wake sent __attribute__((aligned(64))); /* wakes Go: the worker has put something on sends */
	struct wake received;                          /* wakes the worker: Go has put something on recvs */
};

/* One ib_send for Go: no pointers. Its payload lies at the slot of the same index. */
struct port_sent {
	struct ib_ah ah;
	uint32_t qp;
	uint32_t dest_qpn;
	uint32_t dest_qkey;
	uint32_t imm;
	uint16_t flags;
	uint32_t len; /* of the message, bytes; the slot has no more than its own length of it */
};

/* One ib_recv from Go: no pointers. The 40-byte area and the payload lie at offset. */
struct port_received {
	uint32_t offset;
	uint32_t len; /* with the area, bytes */
	uint32_t qpn;
	uint32_t src_qpn;
	uint32_t imm;
	uint16_t slid;
	uint8_t sl;
	uint8_t flags;
};

/* Makes one end; depth is the capacity of each ring. NULL: rte_errno says why. */
struct port_end *port_new(struct rte_mempool *pool, unsigned worker, unsigned depth, unsigned lcore);

/* Go's side of e->sent: has the next send wake it. It looks for sends once more before it sleeps. */
void port_arm_sends(struct port_end *e);
void port_disarm_sends(struct port_end *e);

/* Frees the end and every mbuf in its rings. The worker must not call it any more. */
void port_free(struct port_end *e);

/* Takes up to n sends: sent[i] and the payload at bytes + i * slot; frees their mbufs. */
unsigned port_take(struct port_end *e, struct port_sent *sent, unsigned n, uint8_t *bytes, uint32_t slot);

/* Hands the first messages to the worker and returns how many. *why is the reason when it stops early. */
unsigned port_deliver(struct port_end *e, const struct port_received *msgs, unsigned n, const uint8_t *bytes,
		      unsigned *why);

/* How many messages lie in the two rings. */
unsigned port_pending_sends(const struct port_end *e);
unsigned port_pending_recvs(const struct port_end *e);

/* What the mempool gives: private area, and bytes behind the headroom. */
unsigned port_pool_priv(struct rte_mempool *pool);
unsigned port_pool_room(struct rte_mempool *pool);

#endif

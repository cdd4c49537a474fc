/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A verbs device without hardware, and a production worker's IB door (ibside/verbs) on it.
 *
 *   worker ── post ──▶ door ── ibv_post_send ──▶ ring of requests, doorbell ──▶ nullverbs_carry_out
 *   worker ◀── free ── door ◀─ ibv_poll_cq ───── ring of completions ◀───────── nullverbs_carry_out
 *   worker ◀── poll ── door ◀─ ibv_poll_cq ───── ring of completions ◀───────── nullverbs_deliver
 *
 * What lies between door and rings is the driver's side: it does what a provider's data path must do, and that is what
 * is measured. carry_out and deliver are the device's side, in hardware's place: whoever calls them counts their time
 * apart. All calls are from one thread, or from one after the other.
 */
#ifndef CAUSEWAY_NULLVERBS_H
#define CAUSEWAY_NULLVERBS_H

#include <stdbool.h>
#include <stdint.h>

#include "ibside/door.h"

struct nullverbs;
struct rte_mempool;

enum {
	NULLVERBS_MAX_QPS = 4096,
	NULLVERBS_MAX_PEERS = 1024,
	NULLVERBS_MTU = 4096,
};

struct nullverbs_sizes {
	unsigned qps;      /* of the worker */
	unsigned peers;    /* whose address handles are there from the beginning */
	unsigned depth;    /* sends under way of one queue pair, a power of two */
	unsigned sends;    /* of all */
	unsigned receives; /* buffers posted */
};

/* Makes device and worker. 0 or a positive errno. */
int nullverbs_new(struct rte_mempool *pool, const struct nullverbs_sizes *s, struct nullverbs **out);

/* Takes both down; all mbufs go back. 0 or a positive errno. */
int nullverbs_free(struct nullverbs *n);

struct ib_door *nullverbs_door(struct nullverbs *n);

/* Queue pairs and peers are counted from 0. */
uint32_t nullverbs_handle(const struct nullverbs *n, unsigned qp);
uint32_t nullverbs_qpn(const struct nullverbs *n, unsigned qp);
struct ib_ah nullverbs_peer(unsigned peer);

/* The device carries out all sends that it was told of; returns how many. */
unsigned nullverbs_carry_out(struct nullverbs *n);

/* The device receives count messages of len bytes, without the 40, for the first qps queue pairs in turn; fewer if
 * buffers are missing. Buffers keep what they contain: hardware would write there. Returns how many. */
unsigned nullverbs_deliver(struct nullverbs *n, unsigned count, uint32_t len, unsigned qps);

/* How often the device was told of sends, and of receive buffers. */
uint64_t nullverbs_send_bells(const struct nullverbs *n);
uint64_t nullverbs_recv_bells(const struct nullverbs *n);

/* Messages that the worker's door dropped, for whatever reason. */
uint64_t nullverbs_drops(const struct nullverbs *n);

/* One send as the device read it. */
struct nullverbs_sent {
	uint32_t qpn;
	uint32_t dest_qpn;
	uint32_t imm;
	uint32_t lkey; /* of the first piece; 0: the payload was inline */
	uint32_t len;
	uint32_t signaled;
	uint32_t sum; /* of the bytes, if they were inline */
};

/* Has carry_out note the next sends at to, at most room; NULL: not any more. */
void nullverbs_note(struct nullverbs *n, struct nullverbs_sent *to, unsigned room);

#endif

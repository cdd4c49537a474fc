/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A verbs device without hardware, and a production worker's IB port (ibside/verbs) on it.
 *
 *   worker ── post ──▶ port ── ibv_post_send ──▶ ring of requests, doorbell ──▶ nullverbs_carry_out
 *   worker ◀── free ── port ◀─ ibv_poll_cq ───── ring of completions ◀───────── nullverbs_carry_out
 *   worker ◀── poll ── port ◀─ ibv_poll_cq ───── ring of completions ◀───────── nullverbs_deliver
 *
 * Between port and rings is the driver's side, which does what a provider's data path must do; its cost is measured.
 * carry_out and deliver are the device's side, in place of hardware; callers measure their time separately. Calls must
 * not overlap.
 */
#ifndef CAUSEWAY_NULLVERBS_H
#define CAUSEWAY_NULLVERBS_H

#include <stdbool.h>
#include <stdint.h>

#include "ibside/port.h"

struct nullverbs;
struct rte_mempool;

enum {
	NULLVERBS_MAX_QPS = 4096,
	NULLVERBS_MAX_PEERS = 1024,
	NULLVERBS_MTU = 4096,
};

struct nullverbs_sizes {
	unsigned qps;      /* of the worker */
	unsigned peers;    /* with address handles from the beginning */
	unsigned depth;    /* sends in flight of one queue pair, a power of two */
	unsigned sends;    /* in flight of all queue pairs */
	unsigned receives; /* posted buffers */
};

/* Makes device and worker. 0 or a positive errno. */
int nullverbs_new(struct rte_mempool *pool, const struct nullverbs_sizes *s, struct nullverbs **out);

/* Takes both down and frees all mbufs. 0 or a positive errno. */
int nullverbs_free(struct nullverbs *n);

struct ib_port *nullverbs_port(struct nullverbs *n);

/* Queue pairs and peers are counted from 0. */
uint32_t nullverbs_handle(const struct nullverbs *n, unsigned qp);
uint32_t nullverbs_qpn(const struct nullverbs *n, unsigned qp);
struct ib_ah nullverbs_peer(unsigned peer);

/* The device carries out all sends whose doorbells have been rung; returns how many. */
unsigned nullverbs_carry_out(struct nullverbs *n);

/* The device receives count messages of len bytes, without the GRH area, for the first qps queue pairs in turn; fewer
 * if buffers are missing. It does not write to the buffers. Returns how many. */
unsigned nullverbs_deliver(struct nullverbs *n, unsigned count, uint32_t len, unsigned qps);

/* How many doorbells the device has had, for sends and for receive buffers. */
uint64_t nullverbs_send_bells(const struct nullverbs *n);
uint64_t nullverbs_recv_bells(const struct nullverbs *n);

/* Messages that the worker's port dropped, for all reasons. */
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

/* For tests: has carry_out write the next sends to an array, at most room; NULL: no more. */
void nullverbs_note(struct nullverbs *n, struct nullverbs_sent *to, unsigned room);

#endif

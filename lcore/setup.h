/* SPDX-License-Identifier: Apache-2.0 */
/* Making and ending workers: called from Go, before and after the packets. */
#ifndef CAUSEWAY_SETUP_H
#define CAUSEWAY_SETUP_H

#include "worker.h"

struct rte_mempool;

/* Makes a worker with its rings, and enters it into the bench. Returns NULL and sets rte_errno. */
struct worker *worker_new(struct bench *b, struct ib_door *door, uint16_t id, uint16_t port, uint16_t queue,
			  unsigned max_groups);

/* Frees the worker, and what lies on its rings: *left says how many of those were RoCE data. */
void worker_free(struct worker *w, unsigned *left);

/* Starts the loop on an EAL lcore; 0 or a negative errno. */
int worker_start(struct worker *w, unsigned lcore);

/* Has the loop drain and end, and waits for it. */
void worker_stop(struct worker *w, unsigned lcore);

/* One round on the calling thread, as a reader of the tables. For tests. */
unsigned worker_step(struct worker *w);

/* Management's end of the rings. An mbuf taken is the caller's. */
unsigned worker_take_odd(struct worker *w, struct rte_mbuf **m, unsigned n);
int worker_again(struct worker *w, struct rte_mbuf *m);
int worker_send(struct worker *w, struct rte_mempool *pool, const void *frame, unsigned len);

#endif

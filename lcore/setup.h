/* SPDX-License-Identifier: Apache-2.0 */
/* Creates, starts, stops and frees workers; called from Go. */
#ifndef CAUSEWAY_SETUP_H
#define CAUSEWAY_SETUP_H

#include "worker.h"

struct rte_mempool;

/* Makes a worker with its rings on a NUMA node, and adds it to the datapath. Returns NULL and sets rte_errno. */
struct worker *worker_new(struct datapath *dp, struct ib_port *ib_port, uint16_t id, uint16_t port, uint16_t queue,
			  unsigned max_groups, unsigned punt_ring, int node);

/* Whether nothing is left on a worker's rings that came by a port which it polls no more, if it was so at one time: the
 * one to management first, then the one from it. Injected faults may keep such a frame for as long as they last, and a
 * shard that is about to be opened, too. */
bool worker_punted_none(const struct worker *w);
bool worker_requeued_none(const struct worker *w);

/* Whether no frame from management waits to be sent. */
bool worker_sends_none(const struct worker *w);

/* Frees the mbufs that wait on a worker's rings, and returns how many were RoCE data; it counts them by port. */
unsigned worker_empty(struct worker *w);

/* Frees the worker and the mbufs on its rings; *left is how many of those were RoCE data. */
void worker_free(struct worker *w, unsigned *left);

/* Starts the loop on an EAL lcore; 0 or a negative errno. */
int worker_start(struct worker *w, unsigned lcore);

/* Makes the loop drain and end, and waits for it. */
/* Has it poll once more, if it sleeps. */
void worker_wake(struct worker *w);
void worker_stop(struct worker *w, unsigned lcore);

/* One iteration of the loop on the calling thread, as a reader of the tables. For tests. */
unsigned worker_step(struct worker *w);

/* Has the next frame on a punt ring wake management, which looks at all of them once more before it sleeps. */
void worker_await_punted(struct datapath *dp);

/* Management's side of the rings. The caller owns the mbufs that it takes. */
unsigned worker_take_punted(struct worker *w, struct rte_mbuf **m, unsigned n);
int worker_requeue(struct worker *w, struct rte_mbuf *m);
void worker_rejected(struct worker *w, struct rte_mbuf *m); /* called before a packet that waited is freed */
int worker_send(struct worker *w, struct rte_mempool *pool, const void *frame, unsigned len, unsigned port);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the rig is made of: rings, ports over rings, and packets. */
#ifndef CAUSEWAY_BENCH_RIG_H
#define CAUSEWAY_BENCH_RIG_H

#include <stdint.h>

struct rte_mempool;
struct rte_ring;

/* Makes a started port whose only queues are these rings; they may be one. Its id, or a negative errno. */
int bench_port(const char *name, struct rte_ring *rx, struct rte_ring *tx, struct rte_mempool *pool);
void bench_port_close(uint16_t port);

/* A ring for one producer and one consumer, or NULL. */
struct rte_ring *bench_ring(const char *name, unsigned size);
void bench_ring_free(struct rte_ring *ring);
void bench_ring_empty(struct rte_ring *ring);

/* Moves all mbufs to another ring, which has room. Returns how many. Only while nobody else uses the rings. */
unsigned bench_ring_move(struct rte_ring *from, struct rte_ring *to);
unsigned bench_ring_count(const struct rte_ring *ring);

/* How many have been put into the ring since it was made, modulo 2^32. For any thread. */
uint32_t bench_ring_produced(const struct rte_ring *ring);

/* Makes an mbuf of len bytes, with a zero private area, and puts it into the ring. 0 or a negative errno. */
int bench_put(struct rte_mempool *pool, struct rte_ring *ring, const void *data, uint32_t len);

/* Copies the data of the ring's next mbuf, at most size bytes, and puts the mbuf at the ring's end. Returns the
 * length of the data, or a negative errno. Only while nobody else uses the ring. */
int bench_look(struct rte_ring *ring, void *data, uint32_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAUSEWAY_BENCH_RIG_H
#define CAUSEWAY_BENCH_RIG_H

#include <stdint.h>

struct rte_mempool;
struct rte_ring;

/* Makes and starts a port whose only queues are these rings, which may be the same ring. Its id, or a negative errno.
 */
int ring_port(const char *name, struct rte_ring *rx, struct rte_ring *tx, struct rte_mempool *pool);
void ring_port_close(uint16_t port);

/* Moves all mbufs to another ring, which must have room; to NULL: frees them. Returns how many. The rings must not
 * be used meanwhile. */
unsigned ring_move(struct rte_ring *from, struct rte_ring *to);

/* How many mbufs have been put into the ring since it was made, modulo 2^32. For any thread. */
uint32_t ring_produced(const struct rte_ring *ring);

/* Makes an mbuf of len bytes, with a zero private area, and puts it into the ring. 0 or a negative errno. */
int ring_put(struct rte_mempool *pool, struct rte_ring *ring, const void *data, uint32_t len);

#endif

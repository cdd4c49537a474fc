/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a measurement needs in C: a door that costs next to nothing, and the floors.
 *
 *   roce_to_ib:  ring ─▶ rx_burst ─▶ worker ─▶ post: restore, back to the ring
 *   ib_to_roce:  ring ─▶ poll ─▶ worker ─▶ tx_burst: back to the ring, which poll restores
 *   floor:       ring ─▶ rx_burst ─▶ [read every byte] ─▶ tx_burst: back to the ring
 *
 * The same mbufs go round and round: 2048 in flight, so that payloads come from the last-level cache from
 * 1 KiB up, as they do from a NIC that writes there.
 */
#ifndef CAUSEWAY_BENCH_LOOPS_H
#define CAUSEWAY_BENCH_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "ibside/door.h"

struct rte_mempool;
struct rte_ring;

/* A door whose sends go back to where frames come from, and whose messages come from where frames go to. */
struct null_door {
	struct ib_door door;
	struct rte_ring *frames;   /* post puts whole frames back here; NULL: no sends are expected */
	struct rte_ring *messages; /* poll takes messages from here; NULL: there are none */
	uint32_t frame_off;        /* of a frame within its mbuf */
	uint32_t frame_len;
	uint32_t message_len; /* with the 40-byte area */
};

/* What travels with a message: in the private area of its mbuf. */
struct null_message {
	uint32_t qpn;
	uint32_t src_qpn;
	uint16_t slid;
};

struct null_door *null_door_new(void);
void null_door_free(struct null_door *d);

/* A floor, run on an lcore until stop. */
struct floor {
	uint16_t port;
	bool touch; /* read every byte once */
	volatile bool stop;
	uint64_t packets; /* written by the loop alone */
	uint64_t sum;     /* so that the reads are not optimised away */
};

struct floor *floor_new(uint16_t port);
int floor_start(struct floor *f, bool touch, unsigned lcore);
void floor_stop(struct floor *f, unsigned lcore);

/* Makes a started port whose only queues are these rings; they may be one. Its id, or a negative errno. */
int bench_port(const char *name, struct rte_ring *rx, struct rte_ring *tx, struct rte_mempool *pool);
void bench_port_close(uint16_t port);

/* A ring for one producer and one consumer, or NULL. */
struct rte_ring *bench_ring(const char *name, unsigned size);
void bench_ring_free(struct rte_ring *ring);

/* Makes an mbuf of len bytes with the given private area and puts it into the ring. 0 or a negative errno. */
int bench_put(struct rte_mempool *pool, struct rte_ring *ring, const void *data, uint32_t len,
	      const struct null_message *private);

/* Empties the ring. */
void bench_empty(struct rte_ring *ring);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A generator and receiver: one loop on an lcore, at both sides of a bridge.
 *
 *   make ▶ stamp ▶ ICRC ▶ queue ─▶ RoCE in  ─ bridge ─▶ IB out   ─▶ read stamp ▶ compare ▶ count
 *   make ▶ stamp ───────▶ queue ─▶ IB in    ─ bridge ─▶ RoCE out ─▶ read stamp ▶ compare ▶ count
 *
 * The RoCE side is a pair of rings, or an Ethernet port; the IB side is a door of the generator's own, whose posts
 * and polls are rings too. Mbufs go round first in, first out, so that all of them are in use and their payloads come
 * to the bridge from the last-level cache, as they do from a network card.
 */
#ifndef CAUSEWAY_GEN_H
#define CAUSEWAY_GEN_H

#include "flow.h"
#include "histogram.h"

struct rte_mbuf;
struct rte_mempool;
struct rte_ring;

enum {
	GEN_BURST = 64,
	GEN_NO_PORT = 0xffff,
	GEN_DIRECTIONS = 2, /* as in lcore/counters.h; the side it comes from is the same number */
};

/* The door that the bridge is given. A message's descriptor travels in its mbuf's private area. */
struct gen_door {
	struct ib_door door;
	struct rte_ring *posted; /* from the bridge */
	struct rte_ring *polled; /* to the bridge */
};

/* The private area of an mbuf: one cache line. */
struct gen_private {
	union {
		struct ib_send send;
		struct ib_recv recv;
	};
	uint32_t last_len; /* of the payload it carried: pad and ICRC lie on the filler behind */
};

/* What is counted of a direction. offered = accepted + refused; lost = offered - received. */
struct gen_stats {
	uint64_t offered;
	uint64_t refused; /* the bridge's queue was full */
	uint64_t received;
	uint64_t bytes;     /* payload received */
	uint64_t reordered; /* received after a later one of their flow; counted in received, too */
	uint64_t duplicates;
	uint64_t stale;                                 /* too late to tell whether they are duplicates */
	uint64_t corrupted;                             /* the stamp, the payload, the length or the ICRC was wrong */
	uint64_t misdelivered;                          /* at the wrong side, address, QP, or with a wrong key */
	uint64_t checked;                               /* of those received, read to the last byte */
	uint64_t latency_sum, latency_min, latency_max; /* cycles */
	uint64_t histogram[GEN_BUCKETS];
};

struct gen_stream {
	struct gen_flow **order; /* flows in sending order; NULL: nothing is sent */
	uint32_t n, at;
	double per_cycle; /* packets; 0: as fast as it goes */
	uint64_t limit;   /* packets; 0: none */
	uint64_t start;   /* of the schedule, time-stamp counter; moved on when time is skipped */
	uint64_t scheduled;
	uint64_t skipped; /* cycles for which the generator was away or too slow */
	bool on;
};

/* A generator. Go writes all but the results, between trials; the loop writes those, and anybody reads the counters. */
struct gen {
	struct rte_ring *roce_in, *roce_out; /* of the bridge; NULL: use port */
	uint16_t port, queue;
	struct gen_door *door;
	struct rte_mempool *pool;
	struct rte_mbuf **fifo; /* idle mbufs, a circle of a power of two */
	uint32_t fifo_mask, fifo_head, fifo_tail;
	struct gen_flow *flows;
	struct gen_seen *seen;
	uint32_t n_flows;
	uint32_t trial;
	uint32_t check_every; /* one in so many is read to the last byte; 0: none */
	uint32_t since_check;
	uint64_t duration; /* cycles; 0: until stop, or the limits */
	uint64_t drain;    /* cycles of silence after which what has not come is lost */
	struct gen_stream stream[GEN_DIRECTIONS];
	/* results */
	uint64_t began, ended; /* sending, time-stamp counter */
	uint64_t foreign;      /* arrived without a stamp, or a damaged one */
	uint64_t other;        /* arrived, and are no RoCE: what a bridge says for itself */
	uint64_t stray;        /* of an earlier trial */
	uint64_t starved;      /* no mbuf was idle */
	/* How long, in cycles, the generator was away from its loop at most, and the bridge from messages that waited
	 * at its way in: something else had their CPUs, or it stalled by itself. Known where the ways in are rings. */
	uint64_t away, silence;
	uint64_t last_round, last_sign;
	volatile bool stop;
	volatile bool running;
	struct gen_stats stats[GEN_DIRECTIONS];
};

/* make.c: the bytes of messages. */
extern const uint8_t *gen_filler(void); /* GEN_MAX_PAYLOAD bytes and a few more, as they lie behind every stamp */
/* Writes head, stamp, pad and ICRC around a payload whose filler is there; returns what lies before the payload. */
void gen_make(struct gen_flow *f, uint8_t *payload, uint64_t tsc, uint32_t trial);
/* A whole frame of a RoCE flow into out, which has room for gen_frame_len(). */
void gen_frame(struct gen_flow *f, uint8_t *out, uint64_t tsc, uint32_t trial);

/* send.c */
void gen_send(struct gen *g, unsigned direction, uint64_t now);

/* receive.c: take what has come out of the bridge; return how much. */
unsigned gen_receive_roce(struct gen *g);
unsigned gen_receive_ib(struct gen *g);

/* loop.c */
struct gen *gen_new(struct rte_mempool *pool, struct gen_door *door, unsigned resident);
void gen_free(struct gen *g);
/* Clears all counts, for the next trial. */
void gen_clear(struct gen *g);
int gen_start(struct gen *g, unsigned lcore);
void gen_wait(struct gen *g, unsigned lcore);
/* Frees the idle mbufs and takes out what is left in the bridge's ways out. */
void gen_empty(struct gen *g);
uint64_t gen_cycles_per_second(void);
uint64_t gen_now(void);

/* door.c; depth is a power of two. NULL: no memory. */
struct gen_door *gen_door_new(unsigned depth);
void gen_door_free(struct gen_door *d);

static inline struct rte_mbuf *gen_take(struct gen *g)
{
	return g->fifo_head == g->fifo_tail ? 0 : g->fifo[g->fifo_head++ & g->fifo_mask];
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A generator and receiver: one loop on an lcore, on both sides of a bridge.
 *
 *   make ▶ stamp ▶ ICRC ▶ queue ─▶ RoCE in  ─ bridge ─▶ IB out   ─▶ read stamp ▶ compare ▶ count
 *   make ▶ stamp ───────▶ queue ─▶ IB in    ─ bridge ─▶ RoCE out ─▶ read stamp ▶ compare ▶ count
 *
 * The RoCE side is a pair of rings or an Ethernet port; the IB side is an IB port made of rings. Mbufs circulate first
 * in, first out, so that all of them are used and payloads come to the bridge from the last-level cache, as they do
 * from a network card.
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
	GEN_SEED = 0,       /* of all payloads: the bytes behind a stamp stay in the mbuf */
	GEN_DIRECTIONS = 2, /* as in lcore/counters.h; a direction has the number of the side it starts from */
};

/* The bridge's IB port. A message's descriptor is in its mbuf's private area. */
struct gen_port {
	struct ib_port ib_port;
	struct rte_ring *posted; /* from the bridge; a sink has none */
	struct rte_ring *polled; /* to the bridge */
};

/* The private area of an mbuf: one cache line. */
struct gen_private {
	union {
		struct ib_send send;
		struct ib_recv recv;
	};
	uint32_t last_len; /* of the last payload, whose pad and ICRC have overwritten filler */
};

/* Counters of a direction. offered = accepted + rejected; lost = offered - received. */
struct gen_stats {
	uint64_t offered;
	uint64_t rejected; /* the bridge's queue was full */
	uint64_t received;
	uint64_t bytes;     /* payload received */
	uint64_t reordered; /* received after a later message of the flow; also counted in received */
	uint64_t duplicates;
	uint64_t stale;                                 /* too late to know whether they are duplicates */
	uint64_t corrupted;                             /* wrong payload, length or ICRC */
	uint64_t misdelivered;                          /* wrong side, address, QP or key */
	uint64_t checked;                               /* compared to the last byte */
	uint64_t latency_sum, latency_min, latency_max; /* cycles */
	uint64_t histogram[GEN_BUCKETS];
};

struct gen_stream {
	struct gen_flow **order; /* flows in sending order; NULL: nothing is sent */
	uint32_t n, at;
	double per_cycle; /* packets; 0: as fast as possible */
	uint64_t limit;   /* packets; 0: none */
	uint64_t start;   /* of the schedule, time-stamp counter; moved when time is skipped */
	uint64_t scheduled;
	uint64_t skipped; /* cycles that the generator was away or too slow */
	bool on;
};

/* A generator. Go writes everything but the results, between trials; the loop writes the results. */
struct gen {
	struct rte_ring *roce_in, *roce_out; /* the bridge's; NULL: use port */
	uint16_t port, queue;
	struct gen_port *ib_port;
	struct rte_mempool *pool;
	struct rte_mbuf **fifo; /* idle mbufs, a circular buffer of a power of two */
	uint32_t fifo_mask, fifo_head, fifo_tail;
	struct gen_flow *flows;
	struct gen_seen *seen;
	uint32_t n_flows;
	uint32_t check_every; /* one message in this many is compared to the last byte; 0: none */
	uint32_t since_check;
	uint64_t duration; /* cycles; 0: until stop, or the limits */
	uint64_t drain;    /* cycles of silence after which missing messages are lost */
	struct gen_stream stream[GEN_DIRECTIONS];
	/* results */
	uint64_t began, ended; /* sending, time-stamp counter */
	uint64_t foreign;      /* arrived without a valid stamp */
	uint64_t stray;        /* sent before the trial began */
	uint64_t starved;      /* no mbuf was idle */
	/* The longest gaps, in cycles, between turns of the generator's loop, and between messages from the bridge
	 * while messages waited in its input rings: preemption or stalls. */
	uint64_t away, silence;
	uint64_t last_turn, last_arrival;
	volatile bool stop;
	volatile bool running;
	struct gen_stats stats[GEN_DIRECTIONS];
};

/* make.c: the bytes of messages. */
extern const uint8_t *gen_filler(void); /* GEN_MAX_PAYLOAD bytes and some more, which follow every stamp */
/* Writes headers, stamp, pad and ICRC around a payload whose filler is there already. */
void gen_make(struct gen_flow *f, uint8_t *payload, uint64_t tsc);
/* A whole frame of a RoCE flow into out, which has room for gen_frame_len(). */
void gen_frame(struct gen_flow *f, uint8_t *out, uint64_t tsc);

/* send.c */
void gen_send(struct gen *g, unsigned direction, uint64_t now);

/* receive.c: take the messages that have come out of the bridge; return how many. */
unsigned gen_receive_roce(struct gen *g);
unsigned gen_receive_ib(struct gen *g);

/* loop.c */
struct gen *gen_new(struct rte_mempool *pool, struct gen_port *ib_port, unsigned resident);
void gen_free(struct gen *g);
/* Clears all counters for the next trial. */
void gen_clear(struct gen *g);
int gen_start(struct gen *g, unsigned lcore);
void gen_wait(struct gen *g, unsigned lcore);
/* Frees the idle mbufs and those in the bridge's outputs. */
void gen_empty(struct gen *g);
uint64_t gen_cycles_per_second(void);
uint64_t gen_now(void);

/* port.c; depth is a power of two. NULL: no memory. */
struct gen_port *gen_port_new(unsigned depth);
/* A port that frees at once what the bridge posts, on the bridge's own core, and receives nothing. */
struct gen_port *gen_sink_new(void);
void gen_port_free(struct gen_port *p);

static inline struct rte_mbuf *gen_take(struct gen *g)
{
	return g->fifo_head == g->fifo_tail ? 0 : g->fifo[g->fifo_head++ & g->fifo_mask];
}

#endif

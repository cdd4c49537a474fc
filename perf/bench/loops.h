/* SPDX-License-Identifier: Apache-2.0 */
/* The loops with which the workers are compared: each runs on an lcore and counts its packets. */
#ifndef CAUSEWAY_BENCH_LOOPS_H
#define CAUSEWAY_BENCH_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "null.h"
#include "../../tables/tables.h"

struct parts;

/* Whether a floor reads every byte once, and how. */
enum reading {
	READ_NOTHING,
	READ_WORDS, /* 8 bytes at a time, in plain C */
	READ_WIDE,  /* 64 bytes at a time: only if can_read_wide() */
};

/* A loop that runs on an lcore until stop is set. */
struct loop {
	/* floors and peer */
	uint16_t port;
	enum reading reading;
	struct null_port *ib_port;
	const struct tables *tables;
	uint64_t mac;  /* the bridge's, first byte highest, 48 bits */
	uint16_t pkey; /* on the RoCE side */
	/* parts */
	const struct parts *parts;

	bool volatile stop __attribute__((aligned(64)));
	uint64_t volatile done; /* packets, ICRCs or look-ups; written by the loop alone */
	uint64_t volatile sink; /* keeps the compiler from removing reads */
};

/* floors.c: receive and send, with the readdressing that the rig's ports do, and nothing else. */
int floor_roce_to_ib(void *loop);
int floor_ib_to_roce(void *loop);
bool can_read_wide(void);

/* peer.c: the same conversion as a bare loop. */
int peer_roce_to_ib(void *loop);
int peer_ib_to_roce(void *loop);

/* parts.c: the ICRC and the table look-up by themselves, and DPDK's counterparts. */
int icrc_ours(void *loop);
int icrc_dpdk(void *loop);
int table_ours(void *loop);
int table_dpdk(void *loop);
int table_fetches(void *loop);

struct loop *loop_new(void);
void loop_free(struct loop *l);
int loop_start(struct loop *l, int (*run)(void *), unsigned lcore);
void loop_stop(struct loop *l, unsigned lcore);

/* The id of an lcore's thread, or a negative errno; the lcore must be free. */
int lcore_thread(unsigned lcore);

/* The CPU time that a thread of this process has used, in nanoseconds; 0: there is no such thread. */
uint64_t thread_cpu_ns(int tid);

#endif

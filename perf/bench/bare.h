/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bare worker: the production worker, built a second time without counting or timing of forwarded packets. Drops
 * are still counted, since a measurement must have none.
 */
#ifndef CAUSEWAY_BENCH_BARE_H
#define CAUSEWAY_BENCH_BARE_H

struct worker;

/* Starts a worker as a bare one; worker_stop() ends it. 0 or a negative errno. */
int bare_start(struct worker *w, unsigned lcore);

/* For the files that build it: no counting, and other function names. */
#ifdef BARE
#define COUNT(counter, n) ((void)&(counter), (void)(n))
#define LATENCY_EVERY 0
#define roce_to_ib bare_roce_to_ib
#define roce_to_ib_requeued bare_roce_to_ib_requeued
#define roce_to_ib_behind bare_roce_to_ib_behind
#define roce_to_ib_kept bare_roce_to_ib_kept
#define ib_to_roce bare_ib_to_roce
#define ib_to_roce_kept bare_ib_to_roce_kept
#define worker_poll bare_worker_round
#define worker_drain bare_worker_drain
#define worker_run bare_worker_run
#endif

#endif

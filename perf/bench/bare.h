/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bare worker: the production one built a second time, with nothing counted nor timed of a packet that passes.
 * Drops still are counted: of what is measured none may die.
 */
#ifndef CAUSEWAY_BENCH_BARE_H
#define CAUSEWAY_BENCH_BARE_H

struct worker;

/* Starts a worker of lcore's as a bare one; worker_stop() ends it. 0 or a negative errno. */
int bare_start(struct worker *w, unsigned lcore);

/* For the files that build it: no counting, and names of its own. */
#ifdef BARE
#define COUNT(counter, n) ((void)&(counter), (void)(n))
#define LATENCY_EVERY 0
#define roce_to_ib bare_roce_to_ib
#define roce_to_ib_again bare_roce_to_ib_again
#define ib_to_roce bare_ib_to_roce
#define worker_round bare_worker_round
#define worker_run bare_worker_run
#endif

#endif

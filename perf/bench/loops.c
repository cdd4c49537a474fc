/* SPDX-License-Identifier: Apache-2.0 */
#include "loops.h"

#include <rte_common.h>
#include <rte_eal.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct loop *loop_new(void)
{
	struct loop *l = aligned_alloc(RTE_CACHE_LINE_SIZE, sizeof *l);
	if (l)
		memset(l, 0, sizeof *l);
	return l;
}

void loop_free(struct loop *l)
{
	free(l);
}

int loop_start(struct loop *l, int (*run)(void *), unsigned lcore)
{
	l->stop = false;
	return rte_eal_remote_launch(run, l, lcore);
}

void loop_stop(struct loop *l, unsigned lcore)
{
	l->stop = true;
	rte_eal_wait_lcore(lcore);
}

static int thread_id(void *arg)
{
	(void)arg;
	return rte_gettid();
}

int lcore_thread(unsigned lcore)
{
	int rc = rte_eal_remote_launch(thread_id, NULL, lcore);
	return rc ? rc : rte_eal_wait_lcore(lcore);
}

/* As Linux composes the id of a thread's clock (linux/posix-timers_types.h: CPUCLOCK_SCHED of one thread). */
uint64_t thread_cpu_ns(int tid)
{
	enum { CPUCLOCK_SCHED = 2, CPUCLOCK_PERTHREAD = 4 };
	clockid_t id = (clockid_t)((unsigned)~tid << 3 | CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED);
	struct timespec t;
	return clock_gettime(id, &t) ? 0 : (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for workers, who never wait. */
#include <sched.h>

#include "multipath.h"

/* A worker is inside for one burst. */
static void await_outside(const struct end *e)
{
	uint32_t before = __atomic_load_n(&e->calls, __ATOMIC_ACQUIRE);

	while (before & 1 && __atomic_load_n(&e->calls, __ATOMIC_ACQUIRE) == before)
		sched_yield();
}

void multipath_settle(const struct multipath *p)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < p->workers; i++)
		if (p->end[i])
			await_outside(p->end[i]);
}

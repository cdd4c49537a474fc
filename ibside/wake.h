/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wakes a thread that sleeps until a ring has something, by an eventfd. No wake-up is lost:
 *
 *   sleeper   arm ▶ look at the ring once more ▶ sleep on fd ▶ disarm
 *   waker     put something on the ring ▶ wake_up
 *
 * Between its store and its look each side has a full fence: either the sleeper sees what is on the ring, or the waker
 * sees that it sleeps. The sleeper waits edge-triggered (epoll(7)), so that nobody has to read the eventfd.
 */
#ifndef CAUSEWAY_WAKE_H
#define CAUSEWAY_WAKE_H

#include <stdint.h>
#include <unistd.h>

struct wake {
	int fd;          /* an eventfd, non-blocking; without arm() it is not used */
	uint32_t asleep; /* atomic */
};

static inline void wake_arm(struct wake *k)
{
	__atomic_store_n(&k->asleep, 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void wake_disarm(struct wake *k)
{
	__atomic_store_n(&k->asleep, 0, __ATOMIC_RELAXED);
}

/* Wakes the sleeper whether it sleeps or not: what it looks at next is not older than this. */
static inline void wake_now(const struct wake *k)
{
	uint64_t one = 1;
	ssize_t n = write(k->fd, &one, sizeof(one)); /* a full counter is readable, too */

	(void)n;
}

/* Wakes the sleeper if it sleeps; of several wakers one does. */
static inline void wake_up(struct wake *k)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&k->asleep, __ATOMIC_RELAXED) && __atomic_exchange_n(&k->asleep, 0, __ATOMIC_RELAXED))
		wake_now(k);
}

#endif

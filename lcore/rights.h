/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a member of a fleet may forward: its shares of the work, until its right ends.
 *
 *   management ─ shares, deadline ─▶ struct rights ─ between two bursts ─▶ struct held, each worker's own
 *
 * A share that is closed is closed from the next burst on. One that is opened waits until the worker's queues hold
 * nothing older: of that, another member may have forwarded a copy. So does one that is held, which is opened later
 * without a loss (handover.h). The deadline is looked at last, so that what was received before a process was stopped
 * is not sent when it goes on. A bridge without a fleet has all shares for ever.
 */
#ifndef CAUSEWAY_RIGHTS_H
#define CAUSEWAY_RIGHTS_H

#include <rte_branch_prediction.h>
#include <rte_byteorder.h>
#include <rte_cycles.h>
#include <rte_mbuf.h>
#include <time.h>

#include "segment.h"
#include "../tables/shares.h"

enum {
	/* More packets than wait in a queue: when as many came after a share was opened, none is older. */
	QUEUED_MOST = 65536,
};

/* Whether this worker may forward what the sender of a frame sends. */
static inline bool holds_sender(const struct worker *w, const struct rte_mbuf *m)
{
	uint64_t hosts = w->held.shares.hosts;
	return likely(hosts == UINT64_MAX) ||
	       hosts >> host_share(load64(rte_pktmbuf_mtod_offset(m, const uint8_t *, 4)) >> 16) & 1;
}

/* Whether this worker keeps what the sender of a frame sends. */
static inline bool keeps_sender(const struct worker *w, const struct rte_mbuf *m)
{
	return w->held.keep.hosts >> host_share(load64(rte_pktmbuf_mtod_offset(m, const uint8_t *, 4)) >> 16) & 1;
}

/* Whether a share is one of a direction's. */
static inline bool has_share(const struct shares *s, enum direction d, uint32_t share)
{
	return (d == ROCE_TO_IB ? s->hosts : s->groups[share / 64]) >> share % 64 & 1;
}

/* Whether this worker may forward messages to a group. */
static inline bool holds_group(const struct worker *w, const struct mgid_entry *group)
{
	return has_share(&w->held.shares, IB_TO_ROCE, table_group_share(group));
}

/* Whether the bridge is one of a fleet. */
static inline bool in_fleet(const struct datapath *dp)
{
	return dp->virtual_mac != 0;
}

/* The system's clock at its last tick, in nanoseconds, which takes less than a read of a TSC. */
static inline uint64_t coarse_clock(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Whether nothing may be sent any more, until a right is renewed: by whichever clock comes first, for either may have
 * stood still with a virtual machine. */
static inline bool right_ended(const struct worker *w)
{
	const struct rights *r = &w->datapath->rights;
	return in_fleet(w->datapath) && (rte_rdtsc() >= __atomic_load_n(&r->deadline, __ATOMIC_RELAXED) ||
					 coarse_clock() >= __atomic_load_n(&r->until, __ATOMIC_RELAXED));
}

/* The address that frames to a host of a share come from, as it lies there: the port's, or, in a fleet, that of the
 * share, where this worker has it, and does not leave it. */
static __rte_always_inline uint64_t source_towards(const struct worker *w, const struct segment *s, uint8_t share)
{
	if (!in_fleet(w->datapath))
		return s->mac;
	uint64_t source = w->held.source[share];
	return source ? source : s->mac;
}

/* Whether a MAC address, as in datapath.mac, is that of a share, whoever has it. */
static inline bool is_virtual(const struct datapath *dp, uint64_t mac)
{
	return dp->virtual_mac && ((mac ^ dp->virtual_mac) & ~(uint64_t)(HOST_SHARES - 1)) == 0;
}

/* Whether management has changed something, and takes it. Between two bursts, by shares_update() (handover.h). */
static inline bool rights_changed(const struct worker *w)
{
	return w->held.changes != __atomic_load_n(&w->datapath->rights.changes, __ATOMIC_ACQUIRE);
}

void rights_take(struct worker *w);

/* Opens the shares that wait, when n packets of a direction have come and nothing older can: with none, the queue was
 * empty. */
void rights_open(struct worker *w, enum direction d, unsigned n);

static inline void rights_received(struct worker *w, enum direction d, unsigned n)
{
	if (unlikely(w->held.waits[d]))
		rights_open(w, d, n);
}

/* All that was kept of the shares that are opened has been sent. When nothing that was carried can come any more, what
 * comes then is forwarded. */
void rights_released(struct worker *w, enum direction d);

/* A bridge without a fleet, and a worker that begins. */
void rights_begin(struct datapath *dp);
void rights_begin_worker(struct worker *w);

/* A member of a fleet, which has no share and no right at first. Before there are segments and workers. carried has
 * room for CARRIED_SLOTS, and is zero. */
void rights_join(struct datapath *dp, uint64_t virtual_mac, uint64_t *carried);

/* Changes the shares. A grace period later (policy.h) no worker forwards what is closed. */
void rights_set(struct datapath *dp, const struct shares *open, const struct shares *leave, const struct shares *hold,
		uint64_t attracts);

/* Tells a worker what the last rights_set has closed, or holds no more: with the next one it may be open or held again,
 * and the worker may take both at once. */
void rights_gone(struct worker *w, const struct shares *closed, const struct shares *dropped);

/* Whether a worker has nothing to wait for since the last change, and has sent all that was kept of what is open; and
 * whether it forwards that as all else. */
bool rights_settled(const struct worker *w);
bool rights_done(const struct worker *w);

/* Whether hosts are to reach a share here, by its MAC address, as in datapath.mac: it is open, or held and attracts
 * them, and not left. */
bool rights_answers(const struct datapath *dp, uint64_t mac);

/* Whether a frame of management's may leave now: none does from the address of a share that is another's, or without a
 * right, for switches believe it. */
bool rights_may_announce(const struct worker *w, const struct rte_mbuf *m);

/* Changes how late packets may come that another member has carried: TSC cycles after the share was opened. */
void rights_late(struct datapath *dp, uint64_t late);

/* Changes the deadline: a TSC, and in how many nanoseconds that is. */
void rights_until(struct datapath *dp, uint64_t deadline, uint64_t left);

#endif

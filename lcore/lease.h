/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a member of a fleet may forward: its shards of the work, until its lease ends.
 *
 *   management ─ shards, deadline ─▶ struct lease ─ between two bursts ─▶ struct lease_view, each worker's own
 *
 * A shard that is closed is closed from the next burst on. One that is opened waits until the worker's queues hold
 * nothing older: of that, another member may have forwarded a copy. So does one that is held, which is opened later
 * without a loss (handover.h). The deadline is looked at last, so that what was received before a process was stopped
 * is not sent when it goes on. A bridge without a fleet has all shards for ever.
 */
#ifndef CAUSEWAY_RIGHTS_H
#define CAUSEWAY_RIGHTS_H

#include <rte_branch_prediction.h>
#include <rte_byteorder.h>
#include <rte_cycles.h>
#include <rte_mbuf.h>
#include <time.h>

#include "segment.h"
#include "../tables/shards.h"

enum {
	/* More packets than wait in a queue: when as many came after a shard was opened, none is older. */
	QUEUED_MOST = 65536,
};

/* Whether this worker may forward what the sender of a frame sends. */
static inline bool holds_sender(const struct worker *w, const struct rte_mbuf *m)
{
	uint64_t hosts = w->lease.shards.hosts;
	return likely(hosts == UINT64_MAX) ||
	       hosts >> host_shard(load64(rte_pktmbuf_mtod_offset(m, const uint8_t *, 4)) >> 16) & 1;
}

/* Whether this worker keeps what the sender of a frame sends. */
static inline bool keeps_sender(const struct worker *w, const struct rte_mbuf *m)
{
	return w->lease.keep.hosts >> host_shard(load64(rte_pktmbuf_mtod_offset(m, const uint8_t *, 4)) >> 16) & 1;
}

/* Whether a shard is one of a direction's. */
static inline bool has_shard(const struct shards *s, enum direction d, uint32_t shard)
{
	return (d == ROCE_TO_IB ? s->hosts : s->groups[shard / 64]) >> shard % 64 & 1;
}

/* Whether this worker may forward messages to a group. */
static inline bool holds_group(const struct worker *w, const struct mgid_entry *group)
{
	return has_shard(&w->lease.shards, IB_TO_ROCE, table_group_shard(group));
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

/* Whether nothing may be sent any more, until a lease is renewed: by whichever clock comes first, for either may have
 * stood still with a virtual machine. */
static inline bool lease_ended(const struct worker *w)
{
	const struct lease *r = &w->datapath->lease;
	return in_fleet(w->datapath) && (rte_rdtsc() >= __atomic_load_n(&r->deadline, __ATOMIC_RELAXED) ||
					 coarse_clock() >= __atomic_load_n(&r->until, __ATOMIC_RELAXED));
}

/* The address that frames to a host of a shard come from, as it lies there: the port's, or, in a fleet, that of the
 * shard, where this worker has it, and does not leave it. */
static __rte_always_inline uint64_t source_towards(const struct worker *w, const struct segment *s, uint8_t shard)
{
	if (!in_fleet(w->datapath))
		return s->mac;
	uint64_t source = w->lease.source[shard];
	return source ? source : s->mac;
}

/* Whether a MAC address, as in datapath.mac, is that of a shard, whoever has it. */
static inline bool is_virtual(const struct datapath *dp, uint64_t mac)
{
	return dp->virtual_mac && ((mac ^ dp->virtual_mac) & ~(uint64_t)(HOST_SHARDS - 1)) == 0;
}

/* Whether management has changed something, and takes it. Between two bursts, by shards_update() (handover.h). */
static inline bool lease_changed(const struct worker *w)
{
	return w->lease.changes != __atomic_load_n(&w->datapath->lease.changes, __ATOMIC_ACQUIRE);
}

void lease_take(struct worker *w);

/* Opens the shards that wait, when n packets of a direction have come and nothing older can: with none, the queue was
 * empty. */
void lease_open(struct worker *w, enum direction d, unsigned n);

static inline void lease_received(struct worker *w, enum direction d, unsigned n)
{
	if (unlikely(w->lease.waits[d]))
		lease_open(w, d, n);
}

/* All that was kept of the shards that are opened has been sent. When nothing that was forwarded can come any more,
 * what comes then is forwarded. */
void lease_released(struct worker *w, enum direction d);

/* A bridge without a fleet, and a worker that begins. */
void lease_begin(struct datapath *dp);
void lease_begin_worker(struct worker *w);

/* A member of a fleet, which has no shard and no lease at first. Before there are segments and workers. forwarded has
 * room for FORWARDED_SLOTS, and is zero. */
void lease_join(struct datapath *dp, uint64_t virtual_mac, uint64_t *forwarded);

/* Changes the shards. A grace period later (policy.h) no worker forwards what is closed. */
void lease_set(struct datapath *dp, const struct shards *open, const struct shards *leave, const struct shards *hold,
	       uint64_t attracts);

/* Tells a worker what the last lease_set has closed, or holds no more: with the next one it may be open or held again,
 * and the worker may take both at once. */
void lease_gone(struct worker *w, const struct shards *closed, const struct shards *dropped);

/* Whether a worker has nothing to wait for since the last change, and has sent all that was kept of what is open; and
 * whether it forwards that as all else. */
bool lease_settled(const struct worker *w);
bool lease_done(const struct worker *w);

/* Whether hosts are to reach a shard here, by its MAC address, as in datapath.mac: it is open, or held and attracts
 * them, and not left. */
bool lease_answers(const struct datapath *dp, uint64_t mac);

/* Whether a frame of management's may leave now: none does from the address of a shard that is another's, or without a
 * lease, for switches believe it. */
bool lease_may_announce(const struct worker *w, const struct rte_mbuf *m);

/* Changes how late packets may come that another member has forwarded: TSC cycles after the shard was opened. */
void lease_late(struct datapath *dp, uint64_t late);

/* Changes the deadline: a TSC, and in how many nanoseconds that is. */
void lease_until(struct datapath *dp, uint64_t deadline, uint64_t left);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "lease.h"

#include <rte_ether.h>
#include <string.h>

static void set_all(struct shards *s, uint64_t bits)
{
	s->hosts = bits;
	for (unsigned i = 0; i < GROUP_WORDS; i++)
		s->groups[i] = bits;
}

/* Where frames to hosts come from: what is computed here once is not computed for each frame. */
static void set_sources(struct worker *w)
{
	struct lease_view *h = &w->lease;
	uint64_t own = h->shards.hosts & ~h->leave.hosts, first = rte_bswap64(w->datapath->virtual_mac << 16);
	for (unsigned i = 0; i < HOST_SHARDS; i++)
		h->source[i] = own >> i & 1 ? first | (uint64_t)i << 40 : 0;
}

void lease_begin(struct datapath *dp)
{
	set_all(&dp->lease.open, UINT64_MAX);
}

void lease_begin_worker(struct worker *w)
{
	struct lease_view *h = &w->lease;
	h->changes = w->datapath->lease.changes;
	h->shards = h->next.shards = w->datapath->lease.open;
	h->settled = h->done = h->changes;
	set_sources(w);
}

void lease_join(struct datapath *dp, uint64_t virtual_mac, uint64_t *forwarded)
{
	dp->virtual_mac = virtual_mac;
	dp->lease.forwarded = forwarded;
	set_all(&dp->lease.open, 0);
	dp->lease.deadline = dp->lease.until = 0;
}

enum { WORDS = 1 + GROUP_WORDS };

/* One word of shards: those of hosts are the first. */
static uint64_t *word(struct shards *s, unsigned i)
{
	return i ? &s->groups[i - 1] : &s->hosts;
}

static uint64_t load(const struct shards *s, unsigned i)
{
	return __atomic_load_n(i ? &s->groups[i - 1] : &s->hosts, __ATOMIC_RELAXED);
}

/* Takes one word of what has changed: what is closed goes, and what is opened or held comes next. Returns what there is
 * to wait for. */
static uint64_t take_word(struct lease_view *h, const struct lease *r, unsigned i)
{
	uint64_t open = load(&r->open, i), *shards = word(&h->shards, i), *keep = word(&h->keep, i);
	*shards &= open & ~__atomic_exchange_n(word(&h->closed, i), 0, __ATOMIC_RELAXED);
	uint64_t hold = load(&r->hold, i) & ~*shards, released = *word(&h->release, i);
	*keep &= hold & ~__atomic_exchange_n(word(&h->dropped, i), 0, __ATOMIC_RELAXED);
	*word(&h->release, i) = hold & open;
	*word(&h->leave, i) = load(&r->leave, i) & (*shards | (hold & open)); /* what is released is sent, and noted */
	*word(&h->next.keep, i) = hold;
	*word(&h->next.shards, i) = open & ~hold;
	return (open & ~hold & ~*shards) | (hold & ~*keep) | (hold & open & ~released);
}

static void count(struct lease_view *h)
{
	uint64_t leaves = 0, keeps = 0, groups = 0;
	for (unsigned i = 0; i < WORDS; i++) {
		leaves |= *word(&h->leave, i);
		keeps |= *word(&h->next.keep, i);
		groups |= i ? *word(&h->release, i) : 0;
	}
	h->leaves = leaves != 0;
	h->keeps = keeps != 0;
	h->releases[ROCE_TO_IB] = h->release.hosts != 0;
	h->releases[IB_TO_ROCE] = groups != 0;
}

static void settle(struct lease_view *h)
{
	if (h->waits[ROCE_TO_IB] || h->waits[IB_TO_ROCE] || h->unsent[ROCE_TO_IB] || h->unsent[IB_TO_ROCE])
		return;
	__atomic_store_n(&h->settled, h->changes, __ATOMIC_RELEASE);
	if (!h->releases[ROCE_TO_IB] && !h->releases[IB_TO_ROCE])
		__atomic_store_n(&h->done, h->changes, __ATOMIC_RELEASE);
}

bool lease_settled(const struct worker *w)
{
	return __atomic_load_n(&w->lease.settled, __ATOMIC_ACQUIRE) == w->datapath->lease.changes;
}

bool lease_done(const struct worker *w)
{
	return __atomic_load_n(&w->lease.done, __ATOMIC_ACQUIRE) == w->datapath->lease.changes;
}

void lease_take(struct worker *w)
{
	const struct lease *r = &w->datapath->lease;
	struct lease_view *h = &w->lease;
	uint64_t more = 0;
	h->changes = __atomic_load_n(&r->changes, __ATOMIC_ACQUIRE);
	if (take_word(h, r, 0))
		h->waits[ROCE_TO_IB] = QUEUED_MOST;
	for (unsigned i = 1; i < WORDS; i++)
		more |= take_word(h, r, i);
	if (more)
		h->waits[IB_TO_ROCE] = QUEUED_MOST;
	count(h);
	set_sources(w);
	for (enum direction d = 0; d < DIRECTIONS; d++)
		h->unsent[d] = h->releases[d];
	h->late_until = rte_rdtsc() + __atomic_load_n(&r->late, __ATOMIC_RELAXED);
	settle(h);
}

void lease_open(struct worker *w, enum direction d, unsigned n)
{
	struct lease_view *h = &w->lease;
	if (n != 0 && n < h->waits[d]) {
		h->waits[d] -= n;
		return;
	}
	h->waits[d] = 0;
	if (d == ROCE_TO_IB) {
		h->shards.hosts = h->next.shards.hosts;
		h->keep.hosts = h->next.keep.hosts;
		set_sources(w);
	} else {
		memcpy(h->shards.groups, h->next.shards.groups, sizeof h->shards.groups);
		memcpy(h->keep.groups, h->next.keep.groups, sizeof h->keep.groups);
	}
	settle(h);
}

void lease_released(struct worker *w, enum direction d)
{
	struct lease_view *h = &w->lease;
	if (h->waits[d])
		return; /* the queues may still have what the one before has forwarded */
	h->unsent[d] = false;
	settle(h);
	if (rte_rdtsc() < h->late_until)
		return; /* and so may the network */
	for (unsigned i = d == ROCE_TO_IB ? 0 : 1; i < (d == ROCE_TO_IB ? 1 : WORDS); i++) {
		uint64_t done = *word(&h->release, i);
		*word(&h->shards, i) |= done;
		*word(&h->next.shards, i) |= done;
		*word(&h->keep, i) &= ~done;
		*word(&h->next.keep, i) &= ~done;
		*word(&h->release, i) = 0;
	}
	count(h);
	set_sources(w);
	settle(h);
}

static void store(struct shards *to, const struct shards *from)
{
	__atomic_store_n(&to->hosts, from->hosts, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < GROUP_WORDS; i++)
		__atomic_store_n(&to->groups[i], from->groups[i], __ATOMIC_RELAXED);
}

void lease_set(struct datapath *dp, const struct shards *open, const struct shards *leave, const struct shards *hold,
	       uint64_t attracts)
{
	struct lease *r = &dp->lease;
	store(&r->open, open);
	store(&r->leave, leave);
	store(&r->hold, hold);
	__atomic_store_n(&r->attracts, attracts, __ATOMIC_RELAXED);
	__atomic_fetch_add(&r->changes, 1, __ATOMIC_SEQ_CST);
}

void lease_gone(struct worker *w, const struct shards *closed, const struct shards *dropped)
{
	for (unsigned i = 0; i < WORDS; i++) {
		__atomic_fetch_or(word(&w->lease.closed, i), load(closed, i), __ATOMIC_RELAXED);
		__atomic_fetch_or(word(&w->lease.dropped, i), load(dropped, i), __ATOMIC_RELAXED);
	}
}

bool lease_answers(const struct datapath *dp, uint64_t mac)
{
	const struct lease *r = &dp->lease;
	uint64_t held = load(&r->hold, 0) & __atomic_load_n(&r->attracts, __ATOMIC_RELAXED);
	uint64_t hosts = (load(&r->open, 0) | held) & ~load(&r->leave, 0);
	return hosts >> (mac % HOST_SHARDS) & 1;
}

bool lease_may_announce(const struct worker *w, const struct rte_mbuf *m)
{
	uint64_t source = mac48(rte_pktmbuf_mtod(m, const uint8_t *) + RTE_ETHER_ADDR_LEN);
	return !is_virtual(w->datapath, source) || (lease_answers(w->datapath, source) && !lease_ended(w));
}

void lease_late(struct datapath *dp, uint64_t late)
{
	__atomic_store_n(&dp->lease.late, late, __ATOMIC_RELAXED);
}

void lease_until(struct datapath *dp, uint64_t deadline, uint64_t left)
{
	__atomic_store_n(&dp->lease.deadline, deadline, __ATOMIC_RELAXED);
	__atomic_store_n(&dp->lease.until, coarse_clock() + left, __ATOMIC_RELAXED);
}

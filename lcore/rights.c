/* SPDX-License-Identifier: Apache-2.0 */
#include "rights.h"

#include <rte_ether.h>
#include <string.h>

static void set_all(struct shares *s, uint64_t bits)
{
	s->hosts = bits;
	for (unsigned i = 0; i < GROUP_WORDS; i++)
		s->groups[i] = bits;
}

/* Where frames to hosts come from: what is computed here once is not computed for each frame. */
static void set_sources(struct worker *w)
{
	struct held *h = &w->held;
	uint64_t own = h->shares.hosts & ~h->leave.hosts, first = rte_bswap64(w->datapath->virtual_mac << 16);
	for (unsigned i = 0; i < HOST_SHARES; i++)
		h->source[i] = own >> i & 1 ? first | (uint64_t)i << 40 : 0;
}

void rights_begin(struct datapath *dp)
{
	set_all(&dp->rights.open, UINT64_MAX);
}

void rights_begin_worker(struct worker *w)
{
	struct held *h = &w->held;
	h->changes = w->datapath->rights.changes;
	h->shares = h->next.shares = w->datapath->rights.open;
	h->settled = h->done = h->changes;
	set_sources(w);
}

void rights_join(struct datapath *dp, uint64_t virtual_mac, uint64_t *carried)
{
	dp->virtual_mac = virtual_mac;
	dp->rights.carried = carried;
	set_all(&dp->rights.open, 0);
	dp->rights.deadline = dp->rights.until = 0;
}

enum { WORDS = 1 + GROUP_WORDS };

/* One word of shares: those of hosts are the first. */
static uint64_t *word(struct shares *s, unsigned i)
{
	return i ? &s->groups[i - 1] : &s->hosts;
}

static uint64_t load(const struct shares *s, unsigned i)
{
	return __atomic_load_n(i ? &s->groups[i - 1] : &s->hosts, __ATOMIC_RELAXED);
}

/* Takes one word of what has changed: what is closed goes, and what is opened or held comes next. Returns what there is
 * to wait for. */
static uint64_t take_word(struct held *h, const struct rights *r, unsigned i)
{
	uint64_t open = load(&r->open, i), *shares = word(&h->shares, i), *keep = word(&h->keep, i);
	*shares &= open & ~__atomic_exchange_n(word(&h->closed, i), 0, __ATOMIC_RELAXED);
	uint64_t hold = load(&r->hold, i) & ~*shares, released = *word(&h->release, i);
	*keep &= hold & ~__atomic_exchange_n(word(&h->dropped, i), 0, __ATOMIC_RELAXED);
	*word(&h->release, i) = hold & open;
	*word(&h->leave, i) = load(&r->leave, i) & (*shares | (hold & open)); /* what is released is sent, and noted */
	*word(&h->next.keep, i) = hold;
	*word(&h->next.shares, i) = open & ~hold;
	return (open & ~hold & ~*shares) | (hold & ~*keep) | (hold & open & ~released);
}

static void count(struct held *h)
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

static void settle(struct held *h)
{
	if (h->waits[ROCE_TO_IB] || h->waits[IB_TO_ROCE] || h->unsent[ROCE_TO_IB] || h->unsent[IB_TO_ROCE])
		return;
	__atomic_store_n(&h->settled, h->changes, __ATOMIC_RELEASE);
	if (!h->releases[ROCE_TO_IB] && !h->releases[IB_TO_ROCE])
		__atomic_store_n(&h->done, h->changes, __ATOMIC_RELEASE);
}

bool rights_settled(const struct worker *w)
{
	return __atomic_load_n(&w->held.settled, __ATOMIC_ACQUIRE) == w->datapath->rights.changes;
}

bool rights_done(const struct worker *w)
{
	return __atomic_load_n(&w->held.done, __ATOMIC_ACQUIRE) == w->datapath->rights.changes;
}

void rights_take(struct worker *w)
{
	const struct rights *r = &w->datapath->rights;
	struct held *h = &w->held;
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

void rights_open(struct worker *w, enum direction d, unsigned n)
{
	struct held *h = &w->held;
	if (n != 0 && n < h->waits[d]) {
		h->waits[d] -= n;
		return;
	}
	h->waits[d] = 0;
	if (d == ROCE_TO_IB) {
		h->shares.hosts = h->next.shares.hosts;
		h->keep.hosts = h->next.keep.hosts;
		set_sources(w);
	} else {
		memcpy(h->shares.groups, h->next.shares.groups, sizeof h->shares.groups);
		memcpy(h->keep.groups, h->next.keep.groups, sizeof h->keep.groups);
	}
	settle(h);
}

void rights_released(struct worker *w, enum direction d)
{
	struct held *h = &w->held;
	if (h->waits[d])
		return; /* the queues may still have what the one before has carried */
	h->unsent[d] = false;
	settle(h);
	if (rte_rdtsc() < h->late_until)
		return; /* and so may the network */
	for (unsigned i = d == ROCE_TO_IB ? 0 : 1; i < (d == ROCE_TO_IB ? 1 : WORDS); i++) {
		uint64_t done = *word(&h->release, i);
		*word(&h->shares, i) |= done;
		*word(&h->next.shares, i) |= done;
		*word(&h->keep, i) &= ~done;
		*word(&h->next.keep, i) &= ~done;
		*word(&h->release, i) = 0;
	}
	count(h);
	set_sources(w);
	settle(h);
}

static void store(struct shares *to, const struct shares *from)
{
	__atomic_store_n(&to->hosts, from->hosts, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < GROUP_WORDS; i++)
		__atomic_store_n(&to->groups[i], from->groups[i], __ATOMIC_RELAXED);
}

void rights_set(struct datapath *dp, const struct shares *open, const struct shares *leave, const struct shares *hold,
		uint64_t attracts)
{
	struct rights *r = &dp->rights;
	store(&r->open, open);
	store(&r->leave, leave);
	store(&r->hold, hold);
	__atomic_store_n(&r->attracts, attracts, __ATOMIC_RELAXED);
	__atomic_fetch_add(&r->changes, 1, __ATOMIC_SEQ_CST);
}

void rights_gone(struct worker *w, const struct shares *closed, const struct shares *dropped)
{
	for (unsigned i = 0; i < WORDS; i++) {
		__atomic_fetch_or(word(&w->held.closed, i), load(closed, i), __ATOMIC_RELAXED);
		__atomic_fetch_or(word(&w->held.dropped, i), load(dropped, i), __ATOMIC_RELAXED);
	}
}

bool rights_answers(const struct datapath *dp, uint64_t mac)
{
	const struct rights *r = &dp->rights;
	uint64_t held = load(&r->hold, 0) & __atomic_load_n(&r->attracts, __ATOMIC_RELAXED);
	uint64_t hosts = (load(&r->open, 0) | held) & ~load(&r->leave, 0);
	return hosts >> (mac % HOST_SHARES) & 1;
}

bool rights_may_announce(const struct worker *w, const struct rte_mbuf *m)
{
	uint64_t source = mac48(rte_pktmbuf_mtod(m, const uint8_t *) + RTE_ETHER_ADDR_LEN);
	return !is_virtual(w->datapath, source) || (rights_answers(w->datapath, source) && !right_ended(w));
}

void rights_late(struct datapath *dp, uint64_t late)
{
	__atomic_store_n(&dp->rights.late, late, __ATOMIC_RELAXED);
}

void rights_until(struct datapath *dp, uint64_t deadline, uint64_t left)
{
	__atomic_store_n(&dp->rights.deadline, deadline, __ATOMIC_RELAXED);
	__atomic_store_n(&dp->rights.until, coarse_clock() + left, __ATOMIC_RELAXED);
}

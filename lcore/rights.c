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

static void count_groups(struct held *h)
{
	uint64_t all = UINT64_MAX;
	for (unsigned i = 0; i < GROUP_WORDS; i++)
		all &= h->shares.groups[i];
	h->all_groups = all == UINT64_MAX;
}

void rights_begin(struct datapath *dp)
{
	set_all(&dp->rights.open, UINT64_MAX);
}

void rights_begin_worker(struct worker *w)
{
	struct held *h = &w->held;
	h->changes = w->datapath->rights.changes;
	h->shares = h->next = w->datapath->rights.open;
	count_groups(h);
}

void rights_join(struct datapath *dp, uint64_t virtual_mac)
{
	dp->virtual_mac = virtual_mac;
	set_all(&dp->rights.open, 0);
	dp->rights.deadline = 0;
}

/* Takes one word of what is open: what is closed goes, and what is opened comes next. Returns that. */
static uint64_t take_word(uint64_t *held, uint64_t *next, const uint64_t *open)
{
	*next = __atomic_load_n(open, __ATOMIC_RELAXED);
	*held &= *next;
	return *next & ~*held;
}

void rights_change(struct worker *w)
{
	const struct rights *r = &w->datapath->rights;
	struct held *h = &w->held;
	uint64_t more = 0;
	h->changes = __atomic_load_n(&r->changes, __ATOMIC_ACQUIRE);
	if (take_word(&h->shares.hosts, &h->next.hosts, &r->open.hosts))
		h->waits[ROCE_TO_IB] = QUEUED_MOST;
	for (unsigned i = 0; i < GROUP_WORDS; i++)
		more |= take_word(&h->shares.groups[i], &h->next.groups[i], &r->open.groups[i]);
	if (more)
		h->waits[IB_TO_ROCE] = QUEUED_MOST;
	count_groups(h);
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
		h->shares.hosts = h->next.hosts;
		return;
	}
	memcpy(h->shares.groups, h->next.groups, sizeof h->shares.groups);
	count_groups(h);
}

void send_from_shares(const struct worker *w, struct rte_mbuf **m, unsigned n)
{
	uint64_t first = rte_bswap64(w->datapath->virtual_mac << 16);
	for (unsigned i = 0; i < n; i++) {
		uint8_t *eth = rte_pktmbuf_mtod(m[i], uint8_t *);
		unsigned share = host_share(load64(eth)); /* what follows the address is shifted out */
		if (eth[0] & 1 || !(w->held.shares.hosts >> share & 1))
			continue;
		uint64_t mac = first | (uint64_t)share << 40;
		memcpy(eth + RTE_ETHER_ADDR_LEN, &mac, RTE_ETHER_ADDR_LEN);
	}
}

void rights_set(struct datapath *dp, const struct shares *open)
{
	struct rights *r = &dp->rights;
	__atomic_store_n(&r->open.hosts, open->hosts, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < GROUP_WORDS; i++)
		__atomic_store_n(&r->open.groups[i], open->groups[i], __ATOMIC_RELAXED);
	__atomic_fetch_add(&r->changes, 1, __ATOMIC_SEQ_CST);
}

void rights_until(struct datapath *dp, uint64_t deadline)
{
	__atomic_store_n(&dp->rights.deadline, deadline, __ATOMIC_RELAXED);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "punt.h"

#include <rte_ring.h>
#include <sys/random.h>

/* Odd and secret, so that nobody can choose an address that shares a host's part of the ring. */
static uint64_t multiplier = 0x9e3779b97f4a7c15;

__attribute__((constructor)) static void choose_multiplier(void)
{
	uint64_t random;
	if (getrandom(&random, sizeof random, GRND_NONBLOCK) == sizeof random)
		multiplier = random | 1;
}

static uint8_t hash_of(uint64_t a)
{
	return (uint8_t)(a * multiplier >> 56);
}

static uint64_t fold(const struct table_key *k)
{
	uint64_t addr[2];
	memcpy(addr, k->addr, sizeof addr);
	return addr[0] ^ addr[1];
}

static uint8_t class_in(unsigned segment, enum punt_class class)
{
	return (uint8_t)(segment * PUNT_CLASSES + class);
}

struct punter control_punter(const struct datapath *dp, struct rte_mbuf *m)
{
	const struct segment *s = segment_of_frame(dp, m, rte_pktmbuf_mtod(m, const uint8_t *), m->data_len);
	return (struct punter){class_in((unsigned)(s - dp->segment), PUNT_CLASS_CONTROL), hash_of(source_mac(m))};
}

bool is_bridge_mac(const struct datapath *dp, uint64_t mac)
{
	const struct admission *a = __atomic_load_n(&dp->admission, __ATOMIC_ACQUIRE);
	for (unsigned i = 0; i < a->n_bridges; i++)
		if (a->bridge[i] == mac)
			return true;
	return false;
}

struct punter data_punter(const struct worker *w, const struct table_key *from, struct rte_mbuf *m)
{
	const struct table *t = &w->datapath->tables->hosts;
	struct table_key k = *from;
	struct punter p = stranger(from);
	unsigned segment = segment_of_key(&k);
	if (is_bridge_mac(w->datapath, mac48(rte_pktmbuf_mtod_offset(m, const uint8_t *, RTE_ETHER_ADDR_LEN))))
		return (struct punter){class_in(segment, PUNT_CLASS_HOST), hash_of(source_mac(m))};
	k.number = (uint64_t)segment << SEGMENT_SHIFT;
	const struct host_entry *h = table_find(t, table_hash(t, &k), &k);
	if (h && (h->is_confirmed | h->is_static) &&
	    __atomic_load_n(&h->l2, __ATOMIC_RELAXED) << 16 == source_mac(m) << 16)
		p.class = class_in(segment, PUNT_CLASS_HOST);
	return p;
}

struct punter stranger(const struct table_key *k)
{
	return (struct punter){class_in(segment_of_key(k), PUNT_CLASS_STRANGER), hash_of(fold(k))};
}

/* The counters of one side wrap; their difference is what lies on the ring. */
static unsigned held(const uint16_t *in, const uint16_t *out)
{
	return (uint16_t)(*in - __atomic_load_n(out, __ATOMIC_RELAXED));
}

bool punt_has_room(const struct worker *w, struct punter from)
{
	const struct punt_counts *in = &w->punted[from.class], *out = &w->taken[from.class];
	unsigned free = rte_ring_free_count(w->punt);
	return held(&in->all, &out->all) < 2 * free && held(&in->of[from.host], &out->of[from.host]) < free;
}

bool punt(struct worker *w, struct rte_mbuf *m, uint32_t what, struct punter from)
{
	keep_port(w->datapath, m);
	m->hash.usr = what | (uint32_t)from.class << PUNT_CLASS_SHIFT | (uint32_t)from.host << PUNT_HOST_SHIFT;
	if (!punt_has_room(w, from) || rte_ring_sp_enqueue(w->punt, m) != 0)
		return false;
	w->punted[from.class].all++;
	w->punted[from.class].of[from.host]++;
	wake_up(w->datapath->manager);
	return true;
}

unsigned punt_take(struct worker *w, struct rte_mbuf **m, unsigned n)
{
	n = rte_ring_sc_dequeue_burst(w->punt, (void **)m, n, NULL);
	for (unsigned i = 0; i < n; i++) {
		struct punt_counts *out = &w->taken[m[i]->hash.usr >> PUNT_CLASS_SHIFT & PUNT_CLASS_MASK];
		uint16_t *of = &out->of[m[i]->hash.usr >> PUNT_HOST_SHIFT & 0xff];
		__atomic_store_n(&out->all, out->all + 1, __ATOMIC_RELAXED);
		__atomic_store_n(of, *of + 1, __ATOMIC_RELAXED);
	}
	return n;
}

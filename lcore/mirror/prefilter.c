/* SPDX-License-Identifier: Apache-2.0 */
#include "prefilter.h"

#include <rte_common.h>
#include <rte_mbuf.h>
#include <string.h>

#include "endpoints.h"
#include "../burst.h"
#include "../proto.h"
#include "../../tables/x86.h"

/* Four words, compared at once. */
typedef uint32_t words4 __attribute__((vector_size(16)));

static inline words4 four_of(uint32_t word)
{
	return (words4){word, word, word, word};
}

/* The lanes that are not 0, as bits. */
static inline uint64_t lanes_of(words4 equal)
{
#ifdef CAUSEWAY_X86
	return (uint64_t)_mm_movemask_ps((__m128)equal);
#else
	return (uint64_t)((equal[0] & 1) | (equal[1] & 2) | (equal[2] & 4) | (equal[3] & 8));
#endif
}

/* A set of words; those behind the different ones are the first again. */
struct set {
	words4 a, b, c, d;
	bool two, four;
};

static inline uint64_t found_in(const struct set *s, const uint32_t words[4])
{
	words4 w;
	memcpy(&w, words, sizeof w);
	words4 equal = (words4)(w == s->a);
	if (s->two)
		equal |= (words4)(w == s->b);
	if (s->four)
		equal |= (words4)(w == s->c) | (words4)(w == s->d);
	return lanes_of(equal);
}

/* Which packets have a word of the set. What is found behind the last one means nothing. */
static uint64_t with_any(const uint32_t set[4], const struct words *w, unsigned n, bool third)
{
	const struct set s = {four_of(set[0]), four_of(set[1]),  four_of(set[2]),
			      four_of(set[3]), set[1] != set[0], set[2] != set[0] || set[3] != set[0]};
	uint64_t found = 0;
	for (unsigned i = 0; i < n; i += 2) {
		uint64_t lanes = found_in(&s, w->pair[i]);
		if (unlikely(lanes))
			found |= (uint64_t)((lanes & 3) != 0) << i | (uint64_t)(lanes > 3) << (i + 1);
	}
	for (unsigned i = 0; i < n && third; i += 4)
		found |= found_in(&s, &w->third[i]) << i;
	return found;
}

_Static_assert(BURST % 4 == 0 && BURST <= 64, "four at a time, and a bit for each");

/* Which messages come from a LID of the host. */
static uint64_t from_lids(const struct mirror_prefilter *p, const uint16_t *lid, unsigned n)
{
	uint64_t found = 0;
	for (unsigned i = 0; i < n; i++) {
		uint32_t at = (uint32_t)lid[i] - p->first_lid;
		if (lid[i] && at < 128)
			found |= (p->lids[at / 64] >> at % 64 & 1) << i;
	}
	return found;
}

static const void *find(const struct table *t, const uint8_t *address, uint64_t number)
{
	struct table_key k = {.number = number};
	if (address)
		memcpy(k.addr, address, sizeof k.addr);
	return table_find(t, table_hash(t, &k), &k);
}

static void add_address(struct mirror_prefilter *p, uint32_t word)
{
	for (unsigned i = 0; i < p->addresses; i++)
		if (p->address[i] == word)
			return;
	if (p->addresses == RTE_DIM(p->address))
		p->any = true;
	else
		p->address[p->addresses++] = word;
}

/* A port has 128 LIDs at most, which differ in the lower bits alone. Which of them name the node, sources tells. */
static void add_lids(struct mirror_prefilter *p, const struct tables *t, const struct node_entry *node)
{
	enum { MOST = 128 };
	uint16_t first = (uint16_t)(node->lid & ~(MOST - 1));
	p->any |= (p->lids[0] | p->lids[1]) && p->first_lid != first;
	p->first_lid = first;
	for (unsigned i = 0; i < MOST && node->lid; i++) {
		const struct source_entry *s = find(&t->sources, NULL, first + i);
		if (s && s->id == node->id)
			p->lids[i / 64] |= UINT64_C(1) << i % 64;
	}
}

static void resolve(struct mirror_prefilter *p, const uint8_t host[16], const struct tables *t)
{
	const struct node_entry *last = NULL;
	struct endpoints e = {.tables = t};
	memset(p, 0, sizeof *p);
	endpoints_of_address(&e, host);
	for (unsigned i = 0; i < e.addresses; i++) {
		const struct node_entry *node = find(&t->nodes, e.address[i], 0);
		add_address(p, load32(e.address[i] + 12));
		if (node && !(last && last->id == node->id))
			add_lids(p, t, node);
		last = node ? node : last;
	}
	for (unsigned i = p->addresses; i < RTE_DIM(p->address); i++)
		p->address[i] = p->address[0];
}

/* Resolves the host's addresses, unless they are still the same. Only nodes have several, so nothing depends on the
 * tables of hosts and proxy QPs. */
static void keep_resolved(struct mirror_prefilter *p, const uint8_t host[16], const struct tables *t)
{
	uint64_t changes = 1 + table_changes(&t->nodes) + table_changes(&t->sources);
	if (likely(p->changes == changes))
		return;
	resolve(p, host, t);
	p->changes = changes;
}

/* A queue pair of a host is known on InfiniBand by its proxy QP's number. */
static uint64_t with_qpn(uint32_t qpn, const struct tables *t, const struct mirror_words *w, unsigned n)
{
	const struct proxy_qpn_entry *proxy_qp = find(&t->proxy_qpns, NULL, qpn);
	const uint32_t set[4] = {qpn, proxy_qp ? proxy_qp->peer.qpn : qpn, qpn, qpn};
	return with_any(set, &w->qpn, n, w->with_third);
}

uint64_t prefilter(struct mirror_prefilter *p, const struct mirror_filter *f, const struct tables *t,
		   const struct mirror_words *w, unsigned n)
{
	uint64_t wanted = n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
	uint32_t group = load32(f->group + 12);
	if (f->by_host) {
		keep_resolved(p, f->host, t);
		if (likely(!p->any))
			wanted &= with_any(p->address, &w->address, n, w->with_third) |
				  (w->with_lids ? from_lids(p, w->lid, n) : 0);
	}
	if (f->by_group)
		wanted &= with_any((const uint32_t[4]){group, group, group, group}, &w->address, n, w->with_third);
	if (f->by_qpn)
		wanted &= with_qpn(f->qpn, t, w, n);
	return wanted;
}

static inline void set_pair(struct words *w, unsigned i, uint32_t a, uint32_t b)
{
	w->pair[i][0] = a;
	w->pair[i][1] = b;
}

/* Where the addresses of a frame are, and the BTH if there is one; NULL: nowhere. */
struct places {
	const uint8_t *src, *dst, *bth;
};

static struct places places_in(const uint8_t *frame, uint32_t len)
{
	struct places p = {NULL, NULL, NULL};
	uint32_t at = ETH_LEN;
	if (unlikely(len < at))
		return p;
	uint16_t type = be16(frame + 12);
	for (; (type == TYPE_VLAN || type == TYPE_QINQ) && at + VLAN_LEN <= len; at += VLAN_LEN)
		type = be16(frame + at + 2);
	const uint8_t *net = frame + at;
	uint32_t rest = len - at;
	if (type == TYPE_IPV4 && rest >= IPV4_LEN)
		p = (struct places){net + 12, net + 16, net + (net[0] & 15) * 4 + UDP_LEN};
	else if (type == TYPE_IPV6 && rest >= IPV6_LEN)
		p = (struct places){net + 20, net + 36, net + IPV6_LEN + UDP_LEN};
	else if (type == TYPE_ROCE_V1 && rest >= IPV6_LEN)
		p = (struct places){net + 20, net + 36, net + IPV6_LEN};
	else if (type == TYPE_ARP && rest >= ARP_LEN)
		p = (struct places){net + 14, net + 24, net + ARP_LEN};
	return p;
}

/* The usual frame is IPv4 without a tag. */
static inline void addresses_of_frame(struct words *to, unsigned i, const uint8_t *frame, uint32_t len)
{
	if (likely(len >= ETH_LEN + IPV4_LEN && be16(frame + 12) == TYPE_IPV4)) {
		memcpy(to->pair[i], frame + ETH_LEN + 12, sizeof to->pair[i]);
		return;
	}
	struct places p = places_in(frame, len);
	set_pair(to, i, p.src ? load32(p.src) : 0, p.dst ? load32(p.dst) : 0);
}

static void qpns_of_frame(struct words *to, unsigned i, const uint8_t *frame, uint32_t len)
{
	const uint8_t *bth = places_in(frame, len).bth;
	int64_t rest = bth ? frame + len - bth : 0;
	set_pair(to, i, rest >= BTH_LEN + ICRC_LEN ? be32(bth + 4) & 0xffffff : 0,
		 rest >= UD_LEN + ICRC_LEN ? be32(bth + BTH_LEN + 4) & 0xffffff : 0);
}

void words_of_frames(struct mirror_words *w, struct rte_mbuf *const *m, unsigned n)
{
	w->with_lids = w->with_third = false;
	for (unsigned i = 0; i < n; i++)
		addresses_of_frame(&w->address, i, rte_pktmbuf_mtod(m[i], const uint8_t *), m[i]->data_len);
	for (unsigned i = 0; i < n && w->with_qpns; i++)
		qpns_of_frame(&w->qpn, i, rte_pktmbuf_mtod(m[i], const uint8_t *), m[i]->data_len);
}

/* Messages whose queue pair or group has to be looked up: all at once, so that cache misses overlap. The datapath then
 * finds the entries in the cache. */
struct pending {
	unsigned n;
	uint8_t message[BURST];
	const struct table *table[BURST];
	struct table_key key[BURST];
	struct table_step step[BURST];
	const void *entry[BURST];
};

static void look_up(struct pending *p)
{
	for (unsigned i = 0; i < p->n; i++)
		table_begin(p->table[i], &p->key[i], &p->step[i]);
	for (unsigned i = 0; i < p->n; i++)
		p->entry[i] = table_guess(p->table[i], &p->step[i]);
	for (unsigned i = 0; i < p->n; i++)
		p->entry[i] = table_settle(p->table[i], &p->key[i], &p->step[i], p->entry[i]);
}

/* The MGID that a message with a GRH is for; NULL: it is for a queue pair. */
static inline const uint8_t *mgid_of(const uint8_t *grh)
{
	return grh && grh[0] >> 4 == 6 && grh[24] == 0xff ? grh + 24 : NULL;
}

/* Sets what a message itself tells, and the last bytes of its peer's address. */
static inline void set_message(struct mirror_words *w, unsigned i, const struct ib_recv *r, const uint8_t *grh,
			       uint32_t peer)
{
	w->lid[i] = 0;
	w->address.third[i] = peer;
	if (likely(grh && grh[0] >> 4 == 6)) {
		set_pair(&w->address, i, load32(grh + 20), load32(grh + 36));
	} else if (grh && grh[20] >> 4 == 4) {
		set_pair(&w->address, i, load32(grh + 32), load32(grh + 36));
	} else {
		set_pair(&w->address, i, 0, 0);
		w->lid[i] = r->slid;
		w->with_lids = true;
	}
}

static void add_pending(struct pending *p, unsigned i, const struct tables *t, const uint8_t *mgid, uint32_t qpn)
{
	p->message[p->n] = (uint8_t)i;
	p->table[p->n] = mgid ? &t->mgids : &t->proxy_qpns;
	p->key[p->n] = (struct table_key){.number = mgid ? 0 : qpn};
	if (mgid)
		memcpy(p->key[p->n].addr, mgid, sizeof p->key[p->n].addr);
	p->n++;
}

/* Sets what an entry tells of a message, and keeps that of a queue pair. */
static void take_peer(struct mirror_words *w, const struct pending *p, unsigned i, struct mirrors *all,
		      uint64_t changes)
{
	const struct proxy_qpn_entry *e = p->entry[i];
	struct mirror_peer peer = {.of = changes | p->key[i].number};
	if (e) {
		peer.address = load32(e->peer.ip + 12);
		peer.qpn = p->key[i].number ? e->peer.qpn : 0; /* a group's is none */
	}
	w->address.third[p->message[i]] = peer.address;
	if (w->with_qpns)
		w->qpn.third[p->message[i]] = peer.qpn;
	if (p->key[i].number)
		all->peer[p->key[i].number % MIRROR_PEERS] = peer;
}

/* The host or group that a message is for is in an entry of the tables. */
void words_of_messages(struct mirror_words *w, struct mirrors *all, const struct ib_recv *r, unsigned n)
{
	uint64_t changes = (1 + table_changes(&all->datapath->tables->proxy_qpns)) << 24;
	struct pending p;
	p.n = 0;
	w->with_lids = false;
	w->with_third = true;
	for (unsigned i = 0; i < n; i++) {
		bool has_grh = (r[i].flags & IB_RECV_GRH) && r[i].mbuf->data_len >= IB_GRH_LEN;
		const uint8_t *grh = has_grh ? rte_pktmbuf_mtod(r[i].mbuf, const uint8_t *) : NULL;
		const uint8_t *mgid = mgid_of(grh);
		const struct mirror_peer *peer = &all->peer[r[i].qpn % MIRROR_PEERS];
		bool known = !mgid && peer->of == (changes | r[i].qpn);
		set_message(w, i, &r[i], grh, known ? peer->address : 0);
		if (w->with_qpns) {
			set_pair(&w->qpn, i, r[i].src_qpn, r[i].qpn);
			w->qpn.third[i] = known ? peer->qpn : 0;
		}
		if (unlikely(!known))
			add_pending(&p, i, all->datapath->tables, mgid, r[i].qpn);
	}
	look_up(&p);
	for (unsigned i = 0; i < p.n; i++)
		take_peer(w, &p, i, all, changes);
}

void words_of_sends(struct mirror_words *w, const struct burst *b)
{
	const struct lookup *l = &b->lookup;
	w->with_lids = false;
	w->with_third = true;
	for (unsigned i = 0; i < b->n; i++) {
		set_pair(&w->address, i, load32(l->from[i].addr + 12), load32(l->to[i].addr + 12));
		w->address.third[i] = load32(b->send[i].ah.dgid + 12);
	}
	for (unsigned i = 0; i < b->n && w->with_qpns; i++) {
		set_pair(&w->qpn, i, (uint32_t)l->from[i].number, b->send[i].dest_qpn);
		w->qpn.third[i] = ((const struct proxy_qp_entry *)l->from_entry[i])->qpn;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "handover.h"

#include <rte_mempool.h>

#include "forwarded.h"
#include "route.h"

/* Packets are told apart, not protected from whoever makes two of the same hash: such a sender loses its own. */
static uint64_t hash(const uint8_t *p, uint32_t len, uint64_t h)
{
	for (; len >= 8; p += 8, len -= 8) {
		h = (h ^ load64(p)) * SHARE_GOLDEN;
		h ^= h >> 32;
	}
	uint64_t rest = 0;
	memcpy(&rest, p, len);
	h = (h ^ rest) * SHARE_GOLDEN;
	return h ^ h >> 32 ?: 1; /* 0 is none */
}

uint64_t frame_id(const struct burst *b, unsigned i, const uint8_t *frame)
{
	const uint8_t *from = frame + RTE_ETHER_ADDR_LEN, *end = b->icrc[i].p + b->icrc[i].len + 4;
	return hash(from, (uint32_t)(end - from), 0);
}

uint64_t message_id(const struct message *m)
{
	const uint8_t *from = area_of(m) + (m->header == HEADER_IPV4 ? 20 : 0); /* before it all is undefined */
	uint64_t sender = (uint64_t)m->recv->imm << 32 | m->recv->src_qpn;
	return hash(from, (uint32_t)(m->payload + m->payload_len - from), sender);
}

static void note(struct worker *w, uint64_t id)
{
	struct handover *h = w->handover;
	h->note[h->noted & (NOTED_MOST - 1)] = id;
	__atomic_store_n(&h->noted, h->noted + 1, __ATOMIC_RELEASE);
}

void note_frames(struct worker *w, const struct burst *b)
{
	for (unsigned i = 0; i < b->n; i++) {
		const uint8_t *frame = rte_pktmbuf_mtod(b->send[i].mbuf, const uint8_t *) - b->trim[i].headers;
		if (w->lease.leave.hosts >> host_shard(load64(frame + 4) >> 16) & 1)
			note(w, frame_id(b, i, frame));
	}
}

void note_messages(struct worker *w, const struct egress *e)
{
	for (unsigned i = 0; i < e->n; i++) {
		const struct mgid_entry *g = e->lookup.to_entry[i];
		if (e->lookup.to_group[i] && g && has_shard(&w->lease.leave, IB_TO_ROCE, table_group_shard(g)) &&
		    holds_group(w, g)) /* else it is kept */
			note(w, message_id(&e->message[i]));
	}
}

static void drop_one(struct worker *w, enum direction d, enum drop reason, const struct kept_packet *p)
{
	if (d == IB_TO_ROCE) {
		count_message_drop(w, reason, &p->message);
		rte_pktmbuf_free(p->message.mbuf);
		return;
	}
	drop_packet(w, d, reason, p->message.mbuf);
}

static void set_n(struct kept *k, unsigned n)
{
	__atomic_store_n(&k->n, n, __ATOMIC_RELAXED);
}

static struct kept_packet *at(struct kept *k, unsigned i)
{
	return &k->packet[(k->first + i) & (KEPT_MOST - 1)];
}

/* Ports need the mempool, too: of a fourth of it nothing is kept. */
static bool has_room(const struct kept *k, const struct rte_mempool *pool)
{
	return k->n < KEPT_MOST && rte_mempool_avail_count(pool) >= pool->size / 4;
}

/* Keeps a packet, as the newest, for which the oldest makes room. */
static void keep(struct worker *w, enum direction d, const struct kept_packet *p)
{
	struct kept *k = &w->handover->kept[d];
	if (unlikely(!has_room(k, p->message.mbuf->pool))) {
		drop_one(w, d, DROP_not_mine, k->n ? at(k, 0) : p);
		if (!k->n)
			return;
		k->first++;
		set_n(k, k->n - 1);
	}
	*at(k, k->n) = *p;
	set_n(k, k->n + 1);
}

void keep_frame(struct worker *w, struct burst *b, unsigned i)
{
	struct rte_mbuf *m = b->send[i].mbuf;
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	keep_port(w->datapath, m);
	keep(w, ROCE_TO_IB,
	     &(struct kept_packet){{.mbuf = m}, frame_id(b, i, frame), (uint16_t)host_shard(load64(frame + 4) >> 16)});
}

void keep_message(struct worker *w, const struct egress *e, unsigned i)
{
	const struct message *m = &e->message[i];
	const struct mgid_entry *g = e->lookup.to_entry[i];
	keep(w, IB_TO_ROCE, &(struct kept_packet){*m->recv, message_id(m), (uint16_t)table_group_shard(g)});
}

unsigned take_kept(struct worker *w, enum direction d, struct ib_recv *out, bool *rest)
{
	struct kept *k = &w->handover->kept[d];
	unsigned taken = 0, stay = 0;
	*rest = false;
	for (unsigned i = 0; i < k->n; i++) {
		struct kept_packet *p = at(k, i);
		bool released = has_shard(&w->lease.release, d, p->shard);
		if (released && forwarded_has(w->datapath, p->id))
			drop_one(w, d, DROP_not_mine, p);
		else if (released && taken < BURST)
			out[taken++] = p->message;
		else {
			*rest |= released;
			*at(k, stay++) = *p;
		}
	}
	set_n(k, stay);
	return taken;
}

/* Drops what is kept of other shards than those. */
static void drop_others(struct worker *w, enum direction d, const struct shards *those, enum drop reason)
{
	struct kept *k = &w->handover->kept[d];
	unsigned stay = 0;
	for (unsigned i = 0; i < k->n; i++) {
		if (has_shard(those, d, at(k, i)->shard))
			*at(k, stay++) = *at(k, i);
		else
			drop_one(w, d, reason, at(k, i));
	}
	set_n(k, stay);
}

void drop_kept(struct worker *w)
{
	for (enum direction d = 0; d < DIRECTIONS; d++)
		if (w->handover && w->handover->kept[d].n)
			drop_others(w, d, &w->lease.keep, DROP_not_mine);
}

void end_kept(struct worker *w)
{
	static const struct shards none;
	for (enum direction d = 0; d < DIRECTIONS; d++)
		if (w->handover)
			drop_others(w, d, &none, DROP_shutdown);
}

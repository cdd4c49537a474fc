/* SPDX-License-Identifier: Apache-2.0 */
#include "pending.h"

#include <rte_mempool.h>

static uint32_t away(const struct pending_sender *s)
{
	return __atomic_load_n(&s->away, __ATOMIC_RELAXED);
}

/* Something of it waits, or is waited for. */
static bool is_used(const struct pending_sender *s)
{
	return away(s) | s->behind;
}

static struct pending_sender *find(struct worker *w, uint64_t sender)
{
	struct pending_sender *s = pending_set(w, sender);
	for (unsigned i = 0; i < PENDING_WAYS; i++)
		if (s[i].tag == (uint32_t)sender && is_used(&s[i]))
			return &s[i];
	return NULL;
}

static struct pending_sender *find_or_add(struct worker *w, uint64_t sender)
{
	struct pending_sender *s = find(w, sender), *set = pending_set(w, sender);
	for (unsigned i = 0; !s && i < PENDING_WAYS; i++)
		if (!is_used(&set[i]))
			s = &set[i];
	if (s)
		s->tag = (uint32_t)sender;
	return s;
}

/* An mbuf's sender, one more than its index, is in tx_offload. */
static struct pending_sender *of_mbuf(struct worker *w, const struct rte_mbuf *m)
{
	return m->tx_offload ? &w->pending->sender[m->tx_offload - 1] : NULL;
}

static void write_sender(const struct worker *w, struct rte_mbuf *m, const struct pending_sender *s)
{
	m->tx_offload = s ? (uint64_t)(s - w->pending->sender) + 1 : 0;
}

void pending_punt(struct worker *w, const struct burst *b, unsigned i)
{
	struct pending_sender *s = find_or_add(w, pending_sender_of(b, i));
	write_sender(w, b->send[i].mbuf, s);
	if (!s)
		return;
	__atomic_fetch_add(&s->away, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&w->pending->away, 1, __ATOMIC_RELAXED);
}

void pending_end(struct worker *w, struct rte_mbuf *m)
{
	struct pending_sender *s = of_mbuf(w, m);
	if (!s)
		return;
	pending_none(m);
	__atomic_fetch_sub(&s->away, 1, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&w->pending->away, 1, __ATOMIC_RELAXED);
}

static void set_behind(struct pending *p, unsigned n)
{
	__atomic_store_n(&p->behind, n, __ATOMIC_RELAXED);
}

static struct rte_mbuf **at(struct pending *p, unsigned i)
{
	return &p->packet[(p->first + i) & (BEHIND_MOST - 1)];
}

/* What has a proxy QP waits behind what had none, and everything behind what waits here. */
static bool waits(const struct worker *w, const struct burst *b, unsigned i, const struct pending_sender *s)
{
	const struct proxy_qp_entry *proxy_qp = b->lookup.from_entry[i];
	return s && (s->behind || (proxy_qp && is_from(w->datapath, proxy_qp, b->send[i].mbuf)));
}

bool pending_keeps(struct worker *w, const struct burst *b, unsigned i, enum origin from)
{
	struct rte_mbuf *m = b->send[i].mbuf;
	struct pending *p = w->pending;
	struct pending_sender *s = find(w, pending_sender_of(b, i));
	if (!waits(w, b, i, s) || !holds_sender(w, m))
		return false;
	if (p->behind == BEHIND_MOST || rte_mempool_avail_count(m->pool) < m->pool->size / 4) {
		drop_packet(w, ROCE_TO_IB, DROP_punt_full, m);
		return true;
	}
	keep_port(w->datapath, m);
	if (from == FROM_PORT)
		m->hash.fdir.hi = latency_stamp(b->began);
	write_sender(w, m, s);
	s->behind++;
	*at(p, p->behind) = m;
	set_behind(p, p->behind + 1);
	return true;
}

/* Whether a sender waits on in this turn: having waited for one packet, it does so for the later ones, too. */
static bool still_waits(struct pending_sender *s, uint32_t turn)
{
	if (s->turn != turn && !away(s))
		return false;
	s->turn = turn;
	return true;
}

unsigned pending_take(struct worker *w, struct rte_mbuf **m)
{
	struct pending *p = w->pending;
	unsigned taken = 0, stay = 0;
	p->turn++;
	for (unsigned i = 0; i < p->behind; i++) {
		struct rte_mbuf *packet = *at(p, i);
		struct pending_sender *s = of_mbuf(w, packet);
		if (taken == BURST || still_waits(s, p->turn)) {
			*at(p, stay++) = packet;
			continue;
		}
		s->behind--;
		m[taken++] = packet;
	}
	set_behind(p, stay);
	return taken;
}

void pending_drop(struct worker *w)
{
	struct pending *p = w->pending;
	for (unsigned i = 0; p && i < p->behind; i++)
		drop_packet(w, ROCE_TO_IB, DROP_shutdown, *at(p, i));
	if (p)
		set_behind(p, 0);
}

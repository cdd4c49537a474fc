/* SPDX-License-Identifier: Apache-2.0 */
#include "inject.h"

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <stdlib.h>

#include "../burst.h"

/* A delayed packet. From Ethernet, only its mbuf is set. */
struct delayed {
	uint64_t due; /* TSC */
	struct ib_recv packet;
};

struct inject {
	struct inject *link; /* in the list of spent settings */
	struct inject_settings set;
	uint64_t random;
	bool nothing;             /* all shares are 0 */
	bool draining;            /* receives no more */
	struct delayed overtaken; /* waits for its successor; no mbuf: none does */
	unsigned first, n, size;
	struct delayed queue[]; /* a ring, in order of time: all wait for as long */
};

/* SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static bool chance(struct inject *x, uint64_t share)
{
	return random_next(&x->random) >> 32 < share;
}

struct inject *inject_new(const struct inject_settings *s, unsigned id, enum direction d)
{
	unsigned size = s->delay_share ? INJECT_DELAYED : 0;
	struct inject *x = calloc(1, sizeof *x + size * sizeof x->queue[0]);
	if (!x)
		return NULL;
	uint64_t stream = (uint64_t)id * DIRECTIONS + d;
	x->set = *s;
	x->size = size;
	x->nothing = !(s->drop | s->duplicate | s->reorder | s->delay_share);
	x->random = s->seed ^ random_next(&stream);
	return x;
}

void inject_discard(struct inject *x)
{
	free(x);
}

static void free_spent(struct injection *i)
{
	struct inject *x = __atomic_exchange_n(&i->spent, NULL, __ATOMIC_ACQUIRE), *link;
	for (; x; x = link) {
		link = x->link;
		free(x);
	}
}

void inject_put(struct worker *w, enum direction d, struct inject *x)
{
	struct injection *i = &w->inject[d];
	free(__atomic_exchange_n(&i->next, x, __ATOMIC_ACQ_REL));
	free_spent(i);
}

/* Gives the live settings back to management; they delay no packet. */
static void retire(struct injection *i)
{
	struct inject *x = i->live;
	i->live = NULL;
	i->taken = 0;
	x->link = __atomic_load_n(&i->spent, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&i->spent, &x->link, x, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

static bool empty(const struct inject *x)
{
	return x->n == 0 && !x->overtaken.packet.mbuf;
}

static void drain(struct injection *i)
{
	if (!i->live)
		return;
	i->live->draining = true;
	if (empty(i->live))
		retire(i);
}

void inject_drain(struct worker *w)
{
	drain(&w->inject[ROCE_TO_IB]);
	drain(&w->inject[IB_TO_ROCE]);
}

void inject_update(struct worker *w)
{
	for (struct injection *i = w->inject; i < w->inject + DIRECTIONS; i++) {
		if (!__atomic_load_n(&i->next, __ATOMIC_RELAXED))
			continue;
		drain(i);
		if (i->live)
			continue;
		i->live = __atomic_exchange_n(&i->next, NULL, __ATOMIC_ACQUIRE);
		if (i->live && i->live->nothing)
			retire(i);
	}
}

/* False: there is no room, or too many mbufs of the pool would be delayed. */
static bool delay_packet(struct inject *x, const struct ib_recv *r, uint64_t now)
{
	unsigned part = r->mbuf->pool->size / (INJECT_POOL_PART * DIRECTIONS * x->set.workers);
	if (x->n == RTE_MIN(x->size, part))
		return false;
	x->queue[(x->first + x->n++) % x->size] = (struct delayed){now + x->set.delay, *r};
	return true;
}

/* Releases packets that are due, up to half a burst; while draining all are due. */
static unsigned release_due(struct inject *x, struct ib_recv *out, uint64_t now)
{
	unsigned n = 0;
	if (x->overtaken.packet.mbuf && (x->draining || x->overtaken.due <= now)) {
		out[n++] = x->overtaken.packet;
		x->overtaken.packet.mbuf = NULL;
	}
	while (x->n && n < BURST / 2 && (x->draining || x->queue[x->first].due <= now)) {
		out[n++] = x->queue[x->first].packet;
		x->first = (x->first + 1) % x->size;
		x->n--;
	}
	return n;
}

/* Without an mbuf there is no duplicate. */
static unsigned duplicate(const struct ib_recv *r, struct ib_recv *out)
{
	struct rte_mbuf *copy = rte_pktmbuf_copy(r->mbuf, r->mbuf->pool, 0, UINT32_MAX);
	if (!copy)
		return 0;
	*out = *r;
	out->mbuf = copy;
	return 1;
}

/* Counts a packet that goes no further. */
static void count_received(struct worker *w, enum direction d, const struct rte_mbuf *m)
{
	w->counters.direction[d].received++;
	if (several_ports(w) && d == ROCE_TO_IB)
		counters_of(w, d, m)->received++;
}

/* Decides on one packet. Four choices are made of each, so that none depends on how others went, nor on time. Returns
 * how many came out: up to three. */
static unsigned judge(struct worker *w, enum direction d, const struct ib_recv *r, struct ib_recv *out, uint64_t now)
{
	struct inject *x = w->inject[d].live;
	bool drop = chance(x, x->set.drop);
	bool twice = chance(x, x->set.duplicate);
	bool late = chance(x, x->set.delay_share);
	bool behind = chance(x, x->set.reorder);
	unsigned n = 0;
	if (drop) {
		count_received(w, d, r->mbuf);
		drop_packet(w, d, DROP_injected, r->mbuf);
		return 0;
	}
	if (twice)
		n += duplicate(r, &out[n]);
	if (late && delay_packet(x, r, now))
		return n;
	if (behind && !x->overtaken.packet.mbuf) {
		x->overtaken = (struct delayed){now + rte_get_tsc_hz() / 1000 * INJECT_REORDER_MS, *r};
		return n;
	}
	out[n++] = *r;
	if (x->overtaken.packet.mbuf) {
		out[n++] = x->overtaken.packet;
		x->overtaken.packet.mbuf = NULL;
	}
	return n;
}

/* Receives from the Ethernet or the IB port. */
static unsigned receive(struct worker *w, enum direction d, unsigned port, struct ib_recv *r, unsigned n)
{
	struct rte_mbuf *m[BURST];
	if (d == IB_TO_ROCE)
		return w->ib_port->poll(w->ib_port->self, r, n);
	n = receive_frames(w, port, m, n);
	for (unsigned i = 0; i < n; i++) {
		keep_port(w->datapath, m[i]); /* it may be delayed */
		r[i] = (struct ib_recv){.mbuf = m[i]};
	}
	return n;
}

/* Receives so few that all may be duplicated, and one more overtaken. */
static unsigned inject(struct worker *w, enum direction d, unsigned port, struct ib_recv *out)
{
	struct injection *i = &w->inject[d];
	struct inject *x = i->live;
	struct ib_recv in[BURST / 2];
	uint64_t now = rte_rdtsc();
	unsigned n = release_due(x, out, now);
	i->taken = 0;
	if (x->draining) {
		if (empty(x))
			retire(i);
		return n;
	}
	i->taken = receive(w, d, port, in, (BURST - 1 - n) / 2);
	for (unsigned k = 0; k < i->taken; k++)
		n += judge(w, d, &in[k], &out[n], now);
	return n;
}

unsigned inject_frames(struct worker *w, unsigned port, struct rte_mbuf **m)
{
	struct ib_recv r[BURST];
	unsigned n = inject(w, ROCE_TO_IB, port, r);
	for (unsigned i = 0; i < n; i++)
		m[i] = r[i].mbuf;
	return n;
}

unsigned inject_messages(struct worker *w, struct ib_recv *r)
{
	return inject(w, IB_TO_ROCE, 0, r);
}

/* Frees delayed packets, and counts them. */
static void end(struct worker *w, enum direction d)
{
	struct injection *i = &w->inject[d];
	struct ib_recv r[BURST];
	drain(i);
	while (i->live) {
		unsigned n = release_due(i->live, r, 0);
		if (empty(i->live))
			retire(i);
		for (unsigned k = 0; k < n; k++) {
			count_received(w, d, r[k].mbuf);
			drop_packet(w, d, DROP_shutdown, r[k].mbuf);
		}
	}
	inject_put(w, d, NULL);
}

void inject_end(struct worker *w)
{
	end(w, ROCE_TO_IB);
	end(w, IB_TO_ROCE);
}

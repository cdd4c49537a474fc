/* SPDX-License-Identifier: Apache-2.0 */
#include "turn_away.h"

#include <rte_ring.h>

#include "egress.h"
#include "watch.h"

bool give_to_management(struct worker *w, enum sight_point p, enum drop reason, struct rte_mbuf *m)
{
	if (watched(w))
		sight_stage(w, p, ROCE_TO_IB, reason, &m, 1);
	bool given = rte_ring_sp_enqueue(w->odd, m) == 0;
	if (watched(w))
		sight_taken(w, given);
	return given;
}

enum drop name_drop(const struct bench *b, struct burst *u, unsigned i, enum drop reason)
{
	struct packet *p = &u->other[i];
	if (u->cut[i].plain) {
		struct icrc_job icrc;
		enum drop d = parse(b, u->send[i].mbuf, p, &icrc);
		if (d == PASS && reason != DROP_icrc)
			d = transport(b, p);
		if (d != PASS)
			return d;
	}
	return reason == DROP_mc_unknown && p->control_group ? DROP_mc_control : reason;
}

/* IPv4's prefixes are 96 bits or longer here: a shorter one is IPv6's, and so holds no IPv4 address. */
static bool in_prefix(const struct prefix *f, const uint8_t *addr)
{
	unsigned whole = f->len / 8, rest = f->len % 8;
	if (f->len < 96 && is_ipv4(addr))
		return false;
	if (memcmp(f->addr, addr, whole) != 0)
		return false;
	return rest == 0 || ((f->addr[whole] ^ addr[whole]) >> (8 - rest)) == 0;
}

/* A source that has no stand-in yet: may it have one? */
static enum drop check_new_source(const struct worker *w, struct table_key k)
{
	const struct bench *b = w->bench;
	k.number = 0;
	if (table_find(&b->tables->nodes, table_hash(&b->tables->nodes, &k), &k))
		return DROP_loop_bridge; /* an IB node's address on Ethernet: a bridge wrote this */
	const struct allow *allow = __atomic_load_n(&b->allow, __ATOMIC_ACQUIRE);
	for (unsigned i = 0; i < allow->n; i++)
		if (in_prefix(&allow->prefix[i], k.addr))
			return PASS;
	return DROP_acl;
}

/* A packet from somebody who has no stand-in. */
static enum drop wait_for_standin(struct worker *w, struct burst *b, unsigned i)
{
	struct rte_mbuf *m = b->send[i].mbuf;
	enum drop d = check_new_source(w, b->lookup.from[i]);
	if (d)
		return d;
	m->hash.usr = ODD_STANDIN;
	if (!give_to_management(w, SIGHT_WAITING, PASS, m))
		return DROP_odd_full;
	w->counters.direction[ROCE_TO_IB].notes[NOTE_STANDIN_WAIT]++;
	return PASS;
}

static void set_aside(struct burst *b, struct rte_mbuf *m, uint16_t worker)
{
	b->aside.mbuf[b->aside.n] = m;
	b->aside.worker[b->aside.n++] = worker;
}

void hand_over(struct worker *w, struct aside *a)
{
	struct direction_counters *c = &w->counters.direction[ROCE_TO_IB];
	while (a->n) {
		struct rte_mbuf *own[BURST];
		uint16_t worker = a->worker[0];
		unsigned n = 0, rest = 0;
		for (unsigned i = 0; i < a->n; i++) {
			if (a->worker[i] == worker) {
				own[n++] = a->mbuf[i];
				continue;
			}
			a->mbuf[rest] = a->mbuf[i];
			a->worker[rest++] = a->worker[i];
		}
		a->n = rest;
		if (watched(w))
			sight_stage(w, SIGHT_HANDED, ROCE_TO_IB, PASS, own, n);
		unsigned taken = rte_ring_enqueue_burst(w->bench->again[worker], (void **)own, n, NULL);
		if (watched(w))
			sight_taken(w, taken);
		c->notes[NOTE_HANDED_OVER] += taken;
		for (unsigned i = taken; i < n; i++)
			drop_packet(w, ROCE_TO_IB, DROP_peer_full, own[i]);
	}
}

void turn_away(struct worker *w, struct burst *b, unsigned i, enum drop d, bool again)
{
	const struct standin_entry *standin = b->lookup.from_entry[i];
	if (!again)
		b->send[i].mbuf->hash.fdir.hi = latency_stamp(b->began); /* beside hash.usr; for when it comes again */
	if (!d && standin) {
		set_aside(b, b->send[i].mbuf, standin->worker);
		return;
	}
	d = name_drop(w->bench, b, i, d);
	if (!d)
		d = again ? DROP_standin_unknown : wait_for_standin(w, b, i);
	if (d)
		drop_packet(w, ROCE_TO_IB, d, b->send[i].mbuf);
}

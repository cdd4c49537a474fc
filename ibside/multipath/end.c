/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's calls. */
#include <string.h>

#include <rte_mbuf.h>

#include "end.h"

_Static_assert(MULTIPATH_PORTS <= 1 << (8 - IB_RECV_PORT_SHIFT), "a message tells its port");

/* Says that the worker reads the tables, before it does. */
static void enter(struct end *e)
{
	__atomic_store_n(&e->calls, e->calls + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void leave(struct end *e)
{
	__atomic_store_n(&e->calls, e->calls + 1, __ATOMIC_RELEASE);
}

static const struct view *view_of(const struct destination *d)
{
	return &d->view[__atomic_load_n(&d->written, __ATOMIC_ACQUIRE) & 1];
}

/* Fills in what a member has for itself. */
static void address(struct ib_send *to, const struct ib_send *s, const struct multipath *p, const struct view *v,
		    unsigned member)
{
	const struct way *way = &v->way[member];
	const struct pair *q = &p->pair[s->qp <= p->pairs ? s->qp : 0];

	*to = *s;
	to->qp = __atomic_load_n(&q->qp[member], __ATOMIC_RELAXED);
	if (s->flags & IB_SEND_IMM_QPN)
		to->imm = __atomic_load_n(&q->qpn[member], __ATOMIC_RELAXED);
	memcpy(to->ah.dgid, way->dgid, 16);
	to->ah.dlid = way->lid;
	to->ah.hop_limit = way->hop_limit;
	to->ah.static_rate = way->rate;
	to->ah.source = 0;
	if (v->group) {
		to->ah.sl = way->sl;
		to->dest_qkey = way->qkey;
	} else {
		if (s->ah.sl == v->sl)
			to->ah.sl = way->sl;
		to->flags = (uint16_t)((s->flags & ~IB_SEND_GRH) | (way->flags & WAY_GRH ? IB_SEND_GRH : 0));
	}
}

static struct rte_mbuf *copy_for(struct end *e, struct rte_mbuf *m)
{
	struct rte_mbuf *c = rte_pktmbuf_clone(m, e->pool); /* the payload is the same, the private area another */

	if (!c)
		multipath_count(&e->no_mbuf, 1);
	return c;
}

/* Puts a send on the lists of the members that are chosen. What none of them reaches is dropped. */
static void distribute(struct end *e, const struct ib_send *s)
{
	const struct multipath *p = e->shared;
	const struct destination *d = &p->destination[__atomic_load_n(&p->at[s->ah.dlid], __ATOMIC_ACQUIRE)];
	uint32_t by = __atomic_load_n(&d->choice, __ATOMIC_ACQUIRE) & CHOICE_PORTS;
	const struct view *v = view_of(d);
	struct rte_mbuf *m = s->mbuf;

	for (unsigned i = 0; i < p->ports; i++) {
		if (!(by & 1u << i) || !(v->way[i].flags & WAY_VALID))
			continue;
		struct rte_mbuf *mine = m ? m : copy_for(e, s->mbuf);
		if (!mine)
			continue;
		struct ib_send *to = &e->out[i][e->n_out[i]++];
		address(to, s, p, v, i);
		to->mbuf = mine;
		m = NULL;
	}
	if (!m)
		return;
	multipath_count(&e->no_way, 1);
	rte_pktmbuf_free(m);
}

/* What a member does not take is lost by it alone: the others' messages must not wait behind a fabric that stands. */
static void post_to(struct end *e, unsigned i)
{
	struct member_counters *c = &e->count[i];
	unsigned n = e->n_out[i], took = 0;

	if (!n)
		return;
	took = e->member[i]->post(e->member[i]->self, e->out[i], n);
	multipath_count(&c->posted, n);
	multipath_count(&c->sent, took);
	multipath_count(&c->full, n - took);
	for (unsigned k = took; k < n; k++)
		rte_pktmbuf_free(e->out[i][k].mbuf);
	e->n_out[i] = 0;
}

unsigned multipath_post(void *self, const struct ib_send *sends, unsigned n)
{
	struct end *e = self;

	for (unsigned from = 0; from < n; from += MULTIPATH_BURST) {
		enter(e);
		for (unsigned i = from; i < n && i < from + MULTIPATH_BURST; i++)
			distribute(e, &sends[i]);
		leave(e);
		for (unsigned i = 0; i < e->shared->ports; i++)
			post_to(e, i);
	}
	return n;
}

/* Puts the GID of the datapath's in place of the member's. The area is written only if they differ. */
static void rename_gid(uint8_t *at, const struct view *v)
{
	if (memcmp(at, v->gid, 16) != 0)
		memcpy(at, v->gid, 16);
}

/* Of a message with a GRH: its source becomes that which the datapath knows. Returns whether it is a member itself. */
static bool rename_source(const struct multipath *p, uint8_t *area, unsigned member)
{
	uint32_t from = multipath_name(p, area + 8, member);

	if (from && from != OWN_PORT)
		rename_gid(area + 8, view_of(&p->destination[from]));
	return from == OWN_PORT;
}

/* The bridge's own messages come back by another member of the same fabric, and never cross. */
static void take_group(const struct multipath *p, struct ib_recv *r, unsigned member, uint8_t *area)
{
	bool own = rename_source(p, area, member);
	uint32_t to = multipath_name(p, area + 24, member);

	if (own || to == OWN_PORT)
		return;
	r->flags |= IB_RECV_ASK;
	r->mbuf->hash.usr = to;
	if (to)
		rename_gid(area + 24, view_of(&p->destination[to]));
}

/* A group without a name has been left, or is being joined: workers may know it, but nothing tells whose turn it is. So
 * it is with a number that has become another group's since the message was polled. */
static enum ib_arrival judge(struct end *e, uint32_t to, unsigned member, const struct ib_recv *r)
{
	const struct destination *d = &e->shared->destination[to];
	uint32_t choice = __atomic_load_n(&d->choice, __ATOMIC_ACQUIRE), tell = choice >> CHOICE_TELL_SHIFT;

	if (!to || memcmp(rte_pktmbuf_mtod_offset(r->mbuf, uint8_t *, 24), view_of(d)->gid, 16) != 0)
		return IB_ARRIVAL_STANDBY;
	multipath_count(&e->arrived[to * MULTIPATH_PORTS + member], 1);
	if (!(choice >> CHOICE_TAKE_SHIFT & 1u << member))
		return IB_ARRIVAL_STANDBY;
	return tell && multipath_seen(e, to, member, tell, r) ? IB_ARRIVAL_DUPLICATE : IB_ARRIVAL_TAKEN;
}

enum ib_arrival multipath_arrived(void *self, const struct ib_recv *r)
{
	struct end *e = self;
	unsigned member = r->flags >> IB_RECV_PORT_SHIFT;

	enter(e);
	enum ib_arrival a = judge(e, r->mbuf->hash.usr, member, r);
	leave(e);
	if (a == IB_ARRIVAL_STANDBY)
		multipath_count(&e->count[member].standby, 1);
	else if (a == IB_ARRIVAL_DUPLICATE)
		multipath_count(&e->count[member].duplicate, 1);
	return a;
}

/* The first member's QPNs are the datapath's. A QPN that has no name must not pass for one of those. */
static void take_unicast(struct end *e, struct ib_recv *r, unsigned member)
{
	const struct multipath *p = e->shared;
	uint8_t key[16] = {0};

	memcpy(key, &r->qpn, sizeof(r->qpn));
	r->qpn = multipath_name(p, key, NAME_QPN | member);
	if (!r->qpn)
		multipath_count(&e->count[member].stranger, 1);
	if (r->flags & IB_RECV_GRH)
		rename_source(p, rte_pktmbuf_mtod(r->mbuf, uint8_t *), member);
}

static void take(struct end *e, struct ib_recv *r, unsigned member)
{
	uint8_t *area = rte_pktmbuf_mtod(r->mbuf, uint8_t *);

	if (!(r->flags & IB_RECV_GRH)) /* then the LID tells who sent it */
		r->slid = __atomic_load_n(&e->shared->slid[member][r->slid], __ATOMIC_RELAXED);
	if (r->mbuf->data_len < IB_GRH_LEN)
		return;
	if (r->flags & IB_RECV_GRH && area[0] >> 4 == 6 && area[24] == 0xff)
		take_group(e->shared, r, member, area);
	else
		take_unicast(e, r, member);
	r->flags |= (uint8_t)(member << IB_RECV_PORT_SHIFT);
}

unsigned multipath_poll(void *self, struct ib_recv *recvs, unsigned n)
{
	struct end *e = self;
	unsigned ports = e->shared->ports, got = 0;

	e->turn = (e->turn + 1) % ports;
	for (unsigned i = 0; i < ports && got < n; i++) {
		unsigned member = (e->turn + i) % ports;
		unsigned k = e->member[member]->poll(e->member[member]->self, recvs + got, n - got);

		if (!k)
			continue;
		multipath_count(&e->count[member].received, k);
		enter(e);
		for (unsigned j = got; j < got + k; j++)
			take(e, &recvs[j], member);
		leave(e);
		got += k;
	}
	return got;
}

void multipath_free_completed(void *self)
{
	struct end *e = self;

	for (unsigned i = 0; i < e->shared->ports; i++)
		e->member[i]->free(e->member[i]->self);
}

void multipath_arm(void *self)
{
	struct end *e = self;

	for (unsigned i = 0; i < e->shared->ports; i++)
		e->member[i]->arm(e->member[i]->self);
}

void multipath_disarm(void *self)
{
	struct end *e = self;

	for (unsigned i = 0; i < e->shared->ports; i++)
		e->member[i]->disarm(e->member[i]->self);
}

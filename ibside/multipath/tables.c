/* SPDX-License-Identifier: Apache-2.0 */
/* What management writes, and the making of it all. */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "end.h"

static uint32_t buckets_for(uint32_t names)
{
	uint32_t n = 64;

	while (n < names)
		n *= 2;
	return n;
}

struct multipath *multipath_new(unsigned ports, unsigned workers, uint32_t destinations, uint32_t pairs, uint32_t names)
{
	struct multipath *p = calloc(1, sizeof(*p) + workers * sizeof(struct end *));

	if (!p)
		return NULL;
	p->ports = ports;
	p->workers = workers;
	p->destinations = destinations;
	p->pairs = pairs;
	p->names = names;
	p->bucket_mask = buckets_for(names) - 1;
	p->destination = aligned_alloc(64, (destinations + 1) * sizeof(*p->destination));
	p->pair = calloc(pairs + 1, sizeof(*p->pair));
	p->name = calloc(names + 1, sizeof(*p->name));
	p->bucket = calloc(p->bucket_mask + 1, sizeof(*p->bucket));
	if (!p->destination || !p->pair || !p->name || !p->bucket) {
		multipath_free(p);
		return NULL;
	}
	memset(p->destination, 0, (destinations + 1) * sizeof(*p->destination));
	return p;
}

/* One descriptor wakes the worker for all members. Nobody takes events from it: edge-triggered, each of a member's is
 * one of it (epoll(7)). */
static void wake_by(struct end *e)
{
	bool can = true;

	e->epoll = epoll_create1(EPOLL_CLOEXEC);
	for (unsigned i = 0; i < e->shared->ports; i++) {
		can = can && e->member[i]->arm && e->epoll >= 0;
		for (unsigned k = 0; k < IB_WAKES && can; k++) {
			struct epoll_event event = {.events = EPOLLIN | EPOLLET};

			if (e->member[i]->wake[k] >= 0 &&
			    epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->member[i]->wake[k], &event) != 0)
				can = false;
		}
	}
	if (!can)
		return;
	e->ib_port.arm = multipath_arm;
	e->ib_port.disarm = multipath_disarm;
	e->ib_port.wake[0] = e->epoll;
}

static void free_end(struct end *e)
{
	if (!e)
		return;
	if (e->epoll >= 0)
		close(e->epoll);
	free(e->arrived);
	free(e->seen);
	free(e);
}

struct end *multipath_end(struct multipath *p, unsigned worker, struct ib_port **member, struct rte_mempool *pool)
{
	struct end *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->shared = p;
	e->pool = pool;
	e->epoll = -1;
	memcpy(e->member, member, p->ports * sizeof(*member));
	e->arrived = calloc((size_t)(p->destinations + 1) * MULTIPATH_PORTS, sizeof(*e->arrived));
	e->seen = calloc((size_t)DEDUP_SETS * DEDUP_WAYS * DEDUP_WINDOW, sizeof(*e->seen));
	if (!e->arrived || !e->seen) {
		free_end(e);
		return NULL;
	}
	for (unsigned i = 0; i < DEDUP_SETS * DEDUP_WAYS; i++)
		e->stream[i / DEDUP_WAYS][i % DEDUP_WAYS].seen = e->seen + (size_t)i * DEDUP_WINDOW;
	e->ib_port = (struct ib_port){.self = e,
				      .post = multipath_post,
				      .poll = multipath_poll,
				      .arrived = multipath_arrived,
				      .free = multipath_free_completed,
				      .wake = {-1, -1}};
	wake_by(e);
	p->end[worker] = e;
	return e;
}

void multipath_free(struct multipath *p)
{
	for (unsigned i = 0; i < p->workers; i++)
		free_end(p->end[i]);
	free(p->destination);
	free(p->pair);
	free(p->name);
	free(p->bucket);
	free(p);
}

void multipath_put(struct multipath *p, uint32_t destination, const struct view *v)
{
	struct destination *d = &p->destination[destination];

	d->view[(d->written + 1) & 1] = *v;
	__atomic_store_n(&d->written, d->written + 1, __ATOMIC_RELEASE);
	multipath_settle(p);
}

void multipath_choose(struct multipath *p, uint32_t destination, uint32_t choice)
{
	__atomic_store_n(&p->destination[destination].choice, choice, __ATOMIC_RELEASE);
}

void multipath_put_pair(struct multipath *p, uint32_t pair, const struct pair *q)
{
	for (unsigned i = 0; i < p->ports; i++) {
		__atomic_store_n(&p->pair[pair].qp[i], q->qp[i], __ATOMIC_RELAXED);
		__atomic_store_n(&p->pair[pair].qpn[i], q->qpn[i], __ATOMIC_RELAXED);
	}
}

void multipath_put_lid(struct multipath *p, uint16_t lid, uint32_t destination)
{
	__atomic_store_n(&p->at[lid], destination, __ATOMIC_RELEASE);
}

void multipath_put_slid(struct multipath *p, unsigned member, uint16_t slid, uint16_t lid)
{
	__atomic_store_n(&p->slid[member][slid], lid, __ATOMIC_RELAXED);
}

void multipath_forget_slids(struct multipath *p, unsigned member)
{
	for (unsigned slid = 0; slid < MULTIPATH_LIDS; slid++)
		multipath_put_slid(p, member, (uint16_t)slid, 0);
}

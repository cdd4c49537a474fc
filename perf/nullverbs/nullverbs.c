/* SPDX-License-Identifier: Apache-2.0 */
/* A production worker's port on the device, made by the calls that management makes. */
#include "nullverbs.h"

#include <errno.h>
#include <stdlib.h>

#include <rte_malloc.h>
#include <rte_mbuf.h>

#include "device.h"
#include "ibside/verbs/manage.h"

struct nullverbs {
	struct null_device *dev;
	struct verbs_device *port;
	struct verbs_worker *w;
	unsigned qps;
	struct verbs_qp *qp[NULLVERBS_MAX_QPS];
};

/* As verbs_device_open(), but without looking up a name. */
static int open_port(struct nullverbs *n, struct rte_mempool *pool)
{
	n->dev = null_device_new();
	n->port = calloc(1, sizeof(*n->port));
	struct ibv_pd *pd = rte_zmalloc("nullverbs", sizeof(*pd), 0);
	if (!n->dev || !n->port || !pd) {
		rte_free(n->dev);
		free(n->port);
		rte_free(pd);
		n->port = NULL;
		return ENOMEM;
	}
	pd->context = &n->dev->ctx.context;
	n->port->ctx = pd->context;
	n->port->pd = pd;
	n->port->port = 1;
	__atomic_store_n(&n->port->mtu, NULLVERBS_MTU, __ATOMIC_SEQ_CST);
	return verbs_device_register(n->port, pool);
}

struct ib_ah nullverbs_peer(unsigned peer)
{
	return (struct ib_ah){
		.dgid = {0xfe, 0x80, [14] = (uint8_t)(peer >> 8), [15] = (uint8_t)peer},
		.dlid = (uint16_t)(1 + peer),
		.hop_limit = 64,
	};
}

/* Makes all address handles. Sets of the cache may be too small for some of them. */
static int make_handles(struct nullverbs *n, unsigned peers)
{
	struct ah_entry *e;
	struct ibv_ah *ah;
	int err = 0;

	for (unsigned i = 0; i < peers; i++) {
		struct ib_ah to = nullverbs_peer(i);
		if (!verbs_ah_find(n->w, n->qp[i % n->qps], &to, true))
			return ENOSPC;
		while ((e = verbs_ah_next_request(n->w))) {
			err = verbs_ah_create(n->port, &e->key, 0, &ah);
			if (err)
				return err;
			verbs_ah_answer(n->w, e, ah);
		}
		verbs_free(n->w);
	}
	return n->w->counters.evicted ? ENOSPC : 0;
}

static int build(struct nullverbs *n, struct rte_mempool *pool, const struct nullverbs_sizes *s)
{
	struct verbs_sizes sizes = {.qps = s->qps, .receives = s->receives, .sends = s->sends, .ah_entries = 4096};
	/* Constant, so that the same peers share a set of the cache in each run. */
	static const uint64_t seed[4] = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb,
					 0xd6e8feb86659fd93};
	int err = open_port(n, pool);

	if (!err)
		err = verbs_worker_new(n->port, &sizes, &n->w);
	for (unsigned i = 0; !err && i < sizeof(seed) / sizeof(seed[0]); i++)
		n->w->ah_seed[i] = seed[i];
	for (; !err && n->qps < s->qps; n->qps += !err)
		err = verbs_qp_new(n->w, nullverbs_handle(n, n->qps), 0x1234, 0, s->depth, &n->qp[n->qps]);
	return err ? err : make_handles(n, s->peers);
}

int nullverbs_new(struct rte_mempool *pool, const struct nullverbs_sizes *s, struct nullverbs **out)
{
	if (s->qps < 1 || s->qps > NULLVERBS_MAX_QPS || s->peers > NULLVERBS_MAX_PEERS || (s->depth & (s->depth - 1)))
		return EINVAL;
	struct nullverbs *n = rte_zmalloc("nullverbs", sizeof(*n), RTE_CACHE_LINE_SIZE);
	if (!n)
		return ENOMEM;
	int err = build(n, pool, s);
	if (err)
		nullverbs_free(n);
	else
		*out = n;
	return err;
}

static int free_worker(struct nullverbs *n)
{
	struct ibv_ah *ah;

	null_carry_out(n->dev);
	int err = verbs_worker_stop(n->w);
	verbs_ah_release(n->w);
	while ((ah = verbs_ah_next_retired(n->w)))
		ibv_destroy_ah(ah);
	verbs_worker_free(n->w);
	return err;
}

int nullverbs_free(struct nullverbs *n)
{
	int err = n->w ? free_worker(n) : 0;
	int closing = n->port ? verbs_device_close(n->port) : 0;

	rte_free(n);
	return err ? err : closing;
}

struct ib_port *nullverbs_port(struct nullverbs *n)
{
	return &n->w->ib_port;
}

uint32_t nullverbs_handle(const struct nullverbs *n, unsigned qp)
{
	(void)n;
	return 1u << HANDLE_INDEX_BITS | (qp + 1);
}

uint32_t nullverbs_qpn(const struct nullverbs *n, unsigned qp)
{
	return n->qp[qp]->qp->qp_num;
}

unsigned nullverbs_carry_out(struct nullverbs *n)
{
	return null_carry_out(n->dev);
}

unsigned nullverbs_deliver(struct nullverbs *n, unsigned count, uint32_t len, unsigned qps)
{
	return null_deliver(n->dev, count, len, qps);
}

uint64_t nullverbs_send_bells(const struct nullverbs *n)
{
	return n->dev->rung;
}

uint64_t nullverbs_recv_bells(const struct nullverbs *n)
{
	return n->dev->recv_rung;
}

uint64_t nullverbs_drops(const struct nullverbs *n)
{
	struct verbs_counters c;
	uint64_t sum = 0;

	verbs_counters_read(n->w, &c);
	for (unsigned i = 0; i < SEND_DROPS; i++)
		sum += c.send_drops[i];
	for (unsigned i = 0; i < RECV_DROPS; i++)
		sum += c.recv_drops[i];
	return sum;
}

void nullverbs_note(struct nullverbs *n, struct nullverbs_sent *to, unsigned room)
{
	n->dev->notes = to;
	n->dev->notes_left = to ? room : 0;
}

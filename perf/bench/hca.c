/* SPDX-License-Identifier: Apache-2.0 */
#include "hca.h"

#include <errno.h>
#include <stdlib.h>

#include "../../ibside/verbs/manage.h"
#include "../../ibside/verbs/mlx5mem/mlx5mem.h"

enum { DEPTH = 128, SENDS = 8192, AH_ENTRIES = 4096 }; /* as a bridge has them */

struct hca {
	struct verbs_device *device;
	struct verbs_worker *w;
	unsigned qps;
	struct verbs_qp *qp[];
};

/* Stores to doorbell registers are not caught, which takes tens of microseconds each. No node has the port's LID:
 * messages to it would come back. */
bool hca_begin(void)
{
	enum { LAST_LID = 0xbfff };

	mlx5mem.traps = false;
	mlx5mem.lid = LAST_LID;
	return mlx5mem_begin();
}

uint32_t hca_handle(unsigned qp)
{
	return 1u << HANDLE_INDEX_BITS | (qp + 1);
}

static int make_worker(struct hca *h, const struct hca_sizes *s)
{
	/* Constant, so that the same peers share a set of the cache in each run. */
	static const uint64_t seed[] = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93};
	struct verbs_sizes sizes = {.qps = s->qps, .receives = s->receives, .sends = SENDS, .ah_entries = AH_ENTRIES};

	h->device->direct = s->direct && verbs_direct_supported(h->device);
	int err = verbs_worker_new(h->device, &sizes, &h->w);
	if (err)
		return err;
	for (unsigned i = 0; i < sizeof(seed) / sizeof(seed[0]); i++)
		h->w->ah_seed[i] = seed[i];
	for (; !err && h->qps < s->qps; h->qps += !err)
		err = verbs_qp_new(h->w, hca_handle(h->qps), s->qkey, 0, DEPTH, &h->qp[h->qps]);
	return !err && s->direct && !h->w->direct ? ENOTSUP : err;
}

int hca_new(struct rte_mempool *pool, const struct hca_sizes *s, struct hca **out)
{
	char names[64];
	struct hca *h = calloc(1, sizeof(*h) + s->qps * sizeof(h->qp[0]));

	if (!h)
		return ENOMEM;
	int err = verbs_device_open("mlx5_0", 1, &h->device, names, sizeof(names));
	if (!err)
		err = verbs_device_register(h->device, pool);
	if (!err)
		err = make_worker(h, s);
	if (err)
		hca_free(h);
	else
		*out = h;
	return err;
}

static int free_worker(struct hca *h)
{
	struct ibv_ah *ah;

	mlx5mem_turn(MLX5MEM_ALL);
	int err = verbs_worker_stop(h->w);
	verbs_ah_release(h->w);
	while ((ah = verbs_ah_next_retired(h->w)))
		ibv_destroy_ah(ah);
	verbs_worker_free(h->w);
	return err;
}

int hca_free(struct hca *h)
{
	int err = h->w ? free_worker(h) : 0;
	int closing = h->device ? verbs_device_close(h->device) : 0;

	free(h);
	return err ? err : closing;
}

struct ib_port *hca_port(struct hca *h)
{
	return &h->w->ib_port;
}

uint32_t hca_qpn(const struct hca *h, unsigned qp)
{
	return h->qp[qp]->qpn;
}

int hca_meet(struct hca *h, const struct ib_ah *peer)
{
	struct ah_entry *e;
	struct ibv_ah *ah;

	if (!verbs_ah_find(h->w, h->qp[0], peer, true))
		return ENOSPC;
	while ((e = verbs_ah_next_request(h->w))) {
		int err = verbs_ah_create(h->device, &e->key, 0, &ah);
		if (err)
			return err;
		verbs_ah_answer(h->w, e, ah);
	}
	verbs_free(h->w);
	return 0;
}

struct hca_counts hca_count(const struct hca *h)
{
	struct verbs_counters c;

	verbs_counters_read(h->w, &c);
	struct hca_counts n = {
		.posted = c.posted,
		.sent = c.sent,
		.delivered = c.delivered,
		.bells = c.lists,
		.asked = c.asked,
		.evicted = c.evicted,
		.faults = mlx5mem_count().faults,
	};
	for (unsigned i = 0; i < SEND_DROPS; i++)
		n.dropped += c.send_drops[i];
	for (unsigned i = 0; i < RECV_DROPS; i++)
		n.dropped += c.recv_drops[i];
	return n;
}

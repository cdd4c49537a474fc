/* SPDX-License-Identifier: Apache-2.0 */
/* A device's port, its protection domain, and the mempool's memory regions. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "manage.h"

_Static_assert(RTE_PKTMBUF_HEADROOM >= 128, "a received message has room for RoCE headers before the 40-byte area");

static struct ibv_context *open_by_name(const char *name, char *names, unsigned size)
{
	struct ibv_context *ctx = NULL;
	int n, err = ENODEV;
	struct ibv_device **list = ibv_get_device_list(&n);
	size_t used = 0;

	if (!list)
		return NULL;
	for (int i = 0; i < n; i++) {
		const char *this = ibv_get_device_name(list[i]);
		if (used < size)
			used += (size_t)snprintf(names + used, size - used, "%s%s", i ? ", " : "", this);
		if (strcmp(this, name) == 0 && !ctx) {
			ctx = ibv_open_device(list[i]);
			err = errno;
		}
	}
	ibv_free_device_list(list);
	errno = err;
	return ctx;
}

/* Whether every message must have a GRH: on Ethernet there is no other address, and a port may say so. */
static void read_grh(struct verbs_device *d, const struct ibv_port_attr *a)
{
	__atomic_store_n(&d->grh, d->ethernet || (a->flags & IBV_QPF_GRH_REQUIRED), __ATOMIC_SEQ_CST);
}

int verbs_device_open(const char *name, unsigned port, struct verbs_device **out, char *names, unsigned size)
{
	struct verbs_device *d = calloc(1, sizeof(*d));
	struct ibv_port_attr attr;
	int err;

	if (!d)
		return ENOMEM;
	d->port = (uint8_t)port;
	d->ctx = open_by_name(name, names, size);
	if (!d->ctx) {
		err = errno ? errno : ENODEV;
		free(d);
		return err;
	}
	err = ibv_query_port(d->ctx, d->port, &attr);
	if (!err) {
		d->ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
		read_grh(d, &attr);
		__atomic_store_n(&d->mtu, 128u << attr.active_mtu, __ATOMIC_SEQ_CST);
		fcntl(d->ctx->async_fd, F_SETFL, fcntl(d->ctx->async_fd, F_GETFL) | O_NONBLOCK);
		d->pd = ibv_alloc_pd(d->ctx);
		err = d->pd ? 0 : errno;
	}
	if (err)
		verbs_device_close(d);
	else
		*out = d;
	return err;
}

struct registering {
	struct verbs_device *dev;
	int err;
};

static void register_chunk(struct rte_mempool *mp, void *arg, struct rte_mempool_memhdr *h, unsigned i)
{
	struct registering *r = arg;
	struct verbs_device *d = r->dev;

	(void)mp;
	(void)i;
	if (r->err)
		return;
	if (d->mrs == VERBS_MAX_MRS) {
		r->err = E2BIG;
		return;
	}
	struct ibv_mr *mr = ibv_reg_mr(d->pd, h->addr, h->len, IBV_ACCESS_LOCAL_WRITE);
	if (!mr) {
		r->err = errno;
		return;
	}
	d->mr[d->mrs++] = (struct verbs_mr){(uintptr_t)h->addr, (uintptr_t)h->addr + h->len, mr->lkey, mr};
}

static int by_address(const void *a, const void *b)
{
	const struct verbs_mr *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

int verbs_device_register(struct verbs_device *d, struct rte_mempool *pool)
{
	struct registering r = {.dev = d};

	d->pool = pool;
	rte_mempool_mem_iter(pool, register_chunk, &r);
	qsort(d->mr, d->mrs, sizeof(d->mr[0]), by_address);
	return r.err;
}

int verbs_device_close(struct verbs_device *d)
{
	int err = 0, e;

	for (unsigned i = 0; i < d->mrs; i++) {
		e = ibv_dereg_mr(d->mr[i].mr);
		err = err ? err : e;
	}
	if (d->pd) {
		e = ibv_dealloc_pd(d->pd);
		err = err ? err : e;
	}
	if (ibv_close_device(d->ctx) && !err)
		err = errno;
	free(d);
	return err;
}

unsigned verbs_pool_room(struct rte_mempool *pool)
{
	unsigned room = rte_pktmbuf_data_room_size(pool);

	return room > RTE_PKTMBUF_HEADROOM ? room - RTE_PKTMBUF_HEADROOM : 0;
}

int verbs_gids(struct verbs_device *d, struct verbs_gid *to, unsigned n)
{
	struct ibv_gid_entry *e = calloc(n, sizeof(*e));
	ssize_t got = e ? ibv_query_gid_table(d->ctx, e, n, 0) : -ENOMEM;
	int out = 0;

	for (ssize_t i = 0; i < got; i++) {
		if (e[i].port_num != d->port)
			continue;
		struct verbs_gid *g = &to[out++];
		memcpy(g->gid, e[i].gid.raw, sizeof(g->gid));
		g->index = e[i].gid_index;
		g->type = e[i].gid_type;
		g->ifindex = e[i].ndev_ifindex;
	}
	free(e);
	return got < 0 ? (int)got : out;
}

int verbs_port_read(struct verbs_device *d, struct verbs_port *to)
{
	struct ibv_port_attr a;
	int err = ibv_query_port(d->ctx, d->port, &a);

	if (err)
		return err;
	*to = (struct verbs_port){
		.state = a.state,
		.mtu = a.active_mtu,
		.gids = (uint32_t)a.gid_tbl_len,
		.pkeys = a.pkey_tbl_len,
		.lid = a.lid,
		.sm_lid = a.sm_lid,
		.lmc = a.lmc,
		.width = a.active_width,
		.speed = a.active_speed,
	};
	read_grh(d, &a);
	if (a.active_mtu >= IBV_MTU_256 && a.active_mtu <= IBV_MTU_4096)
		__atomic_store_n(&d->mtu, 128u << a.active_mtu, __ATOMIC_SEQ_CST);
	return 0;
}

int verbs_pkey_read(struct verbs_device *d, unsigned index, uint16_t *pkey)
{
	__be16 p;

	if (ibv_query_pkey(d->ctx, d->port, (int)index, &p))
		return errno ? errno : EINVAL;
	*pkey = ntohs(p);
	return 0;
}

int verbs_async_next(struct verbs_device *d, struct verbs_async *to)
{
	struct ibv_async_event e;

	if (ibv_get_async_event(d->ctx, &e))
		return errno;
	*to = (struct verbs_async){.type = e.event_type};
	switch (e.event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
		to->handle = ((struct verbs_qp *)e.element.qp->qp_context)->handle;
		break;
	case IBV_EVENT_CQ_ERR:
		to->worker = e.element.cq->cq_context;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		to->worker = e.element.srq->srq_context;
		break;
	default:
		break;
	}
	ibv_ack_async_event(&e);
	return 0;
}

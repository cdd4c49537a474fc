/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libibverbs that management calls, for a null device; calls for other devices go on to the library.
 * The linker redirects the calls of this program (--wrap, see nullverbs_unsafe.go), so the port's C code is unchanged.
 * The data path needs no redirection: libibverbs calls a device through its context.
 */
#include <errno.h>
#include <string.h>

#include <rte_common.h>
#include <rte_malloc.h>

#include "device.h"

static struct ibv_device identity = {.node_type = IBV_NODE_CA, .name = "null"};

static bool ours(const struct ibv_context *c)
{
	return c->device == &identity;
}

/* Rings are page-aligned, as a provider's are. */
static void *ring(size_t size)
{
	enum { PAGE = 4096 };

	return rte_zmalloc("nullverbs", size, PAGE);
}

static void *lines(size_t size)
{
	return rte_zmalloc("nullverbs", size, RTE_CACHE_LINE_SIZE);
}

struct null_device *null_device_new(void)
{
	struct null_device *d = lines(sizeof(*d));
	if (!d)
		return NULL;
	d->ctx.sz = sizeof(d->ctx);
	d->ctx.context.device = &identity;
	d->ctx.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	d->ctx.context.ops.post_send = null_post_send;
	d->ctx.context.ops.post_srq_recv = null_post_srq_recv;
	d->ctx.context.ops.poll_cq = null_poll_cq;
	return d;
}

static int close_device(struct ibv_context *ctx)
{
	rte_free(device_of(ctx));
	return 0;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length)
{
	static uint32_t last = 0x1000;
	struct ibv_mr *mr = lines(sizeof(*mr));
	if (mr)
		*mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length, .lkey = ++last};
	return mr;
}

static int destroy_cq(struct ibv_cq *cq)
{
	struct null_cq *c = (struct null_cq *)cq;
	rte_free(c->ring);
	rte_free(c->record);
	rte_free(c);
	return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *ctx, int n, void *arg)
{
	struct null_cq *c = lines(sizeof(*c));
	if (!c)
		return NULL;
	c->cq = (struct ibv_cq){.context = ctx, .cq_context = arg, .cqe = n};
	pthread_spin_init(&c->lock, PTHREAD_PROCESS_PRIVATE);
	c->mask = rte_align32pow2((uint32_t)n + 1) - 1;
	c->log = (uint32_t)rte_fls_u32(c->mask);
	c->ring = ring((size_t)(c->mask + 1) * sizeof(*c->ring));
	c->record = lines(sizeof(*c->record));
	if (!c->ring || !c->record) {
		destroy_cq(&c->cq);
		errno = ENOMEM;
		return NULL;
	}
	for (uint32_t i = 0; i <= c->mask; i++)
		c->ring[i].kind_owner = DONE_NOTHING << 4;
	return &c->cq;
}

static int destroy_srq(struct ibv_srq *srq)
{
	struct null_srq *s = (struct null_srq *)srq;
	device_of(srq->context)->srq = NULL;
	rte_free(s->ring);
	rte_free(s->wr_id);
	rte_free(s->record);
	rte_free(s);
	return 0;
}

static struct ibv_srq *create_srq(struct ibv_pd *pd, const struct ibv_srq_init_attr *a)
{
	struct null_device *d = device_of(pd->context);
	uint32_t n = rte_align32pow2(a->attr.max_wr + 1);
	struct null_srq *s = d->srq || n > 1u << 16 ? NULL : lines(sizeof(*s));
	if (!s) {
		errno = d->srq ? EBUSY : ENOMEM;
		return NULL;
	}
	s->srq = (struct ibv_srq){.context = pd->context, .srq_context = a->srq_context, .pd = pd};
	pthread_spin_init(&s->lock, PTHREAD_PROCESS_PRIVATE);
	s->ring = ring(n * sizeof(*s->ring));
	s->wr_id = lines(n * sizeof(*s->wr_id));
	s->record = lines(sizeof(*s->record));
	if (!s->ring || !s->wr_id || !s->record) {
		destroy_srq(&s->srq);
		errno = ENOMEM;
		return NULL;
	}
	for (uint32_t i = 0; i + 1 < n; i++)
		s->ring[i].next = __builtin_bswap16((uint16_t)(i + 1));
	s->tail = n - 1;
	d->srq = s;
	return &s->srq;
}

static int destroy_qp(struct ibv_qp *qp)
{
	struct null_qp *q = (struct null_qp *)qp;
	q->dev->qp[qp->qp_num - FIRST_QPN] = NULL;
	rte_free(q->ring);
	rte_free(q->record);
	rte_free(q->wr_id);
	rte_free(q->head_at);
	rte_free(q);
	return 0;
}

static bool make_ring(struct null_qp *q, unsigned depth)
{
	uint32_t blocks = rte_align32pow2(depth * (1 + (sizeof(uint32_t) + MAX_INLINE + BLOCK - 1) / BLOCK));

	q->mask = blocks - 1;
	q->most = depth;
	q->ring = ring((size_t)blocks * BLOCK);
	q->end = q->ring + (size_t)blocks * BLOCK;
	q->record = lines(sizeof(*q->record));
	q->wr_id = lines(blocks * sizeof(*q->wr_id));
	q->head_at = lines(blocks * sizeof(*q->head_at));
	return q->ring && q->record && q->wr_id && q->head_at;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	struct null_device *d = device_of(pd->context);
	struct null_qp *q = NULL;

	errno = ENOMEM;
	if (a->qp_type != IBV_QPT_UD || a->cap.max_inline_data > MAX_INLINE || a->cap.max_send_sge > MAX_SGES ||
	    !a->srq || a->sq_sig_all)
		errno = EINVAL;
	else if (d->qps < NULLVERBS_MAX_QPS && (q = lines(sizeof(*q)))) {
		q->dev = d;
		q->qp = (struct ibv_qp){.context = pd->context,
					.qp_context = a->qp_context,
					.pd = pd,
					.send_cq = a->send_cq,
					.recv_cq = a->recv_cq,
					.srq = a->srq,
					.qp_num = FIRST_QPN + d->qps,
					.qp_type = a->qp_type};
		pthread_spin_init(&q->lock, PTHREAD_PROCESS_PRIVATE);
		d->qp[d->qps++] = q;
		if (make_ring(q, a->cap.max_send_wr))
			return &q->qp;
		destroy_qp(&q->qp);
	}
	return NULL;
}

static struct ibv_ah *create_ah(struct ibv_pd *pd, const struct ibv_ah_attr *a)
{
	struct null_ah *ah = lines(sizeof(*ah));
	if (!ah)
		return NULL;
	ah->ah = (struct ibv_ah){.context = pd->context, .pd = pd};
	memcpy(ah->address.path, a->grh.dgid.raw, sizeof(a->grh.dgid.raw));
	return &ah->ah;
}

static int release(void *p)
{
	rte_free(p);
	return 0;
}

static int change_state(struct ibv_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	if (mask & IBV_QP_STATE)
		qp->state = a->qp_state;
	return 0;
}

/* A function that the linker calls instead of libibverbs's. */
#define WRAP(type, name, params, args, context, own)                                                                   \
	type __real_##name params;                                                                                     \
	type __wrap_##name params;                                                                                     \
	type __wrap_##name params                                                                                      \
	{                                                                                                              \
		return ours(context) ? own : __real_##name args;                                                       \
	}

WRAP(int, ibv_close_device, (struct ibv_context * c), (c), c, close_device(c))
WRAP(int, ibv_dealloc_pd, (struct ibv_pd * pd), (pd), pd->context, release(pd))
#undef ibv_reg_mr /* a macro of verbs.h that calls the function */
WRAP(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd * pd, void *addr, size_t n, int access), (pd, addr, n, access),
     pd->context, reg_mr(pd, addr, n))
WRAP(int, ibv_dereg_mr, (struct ibv_mr * mr), (mr), mr->context, release(mr))
WRAP(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context * c), (c), c, NULL) /* it wakes nobody */
WRAP(struct ibv_cq *, ibv_create_cq,
     (struct ibv_context * c, int n, void *arg, struct ibv_comp_channel *ch, int vector), (c, n, arg, ch, vector), c,
     create_cq(c, n, arg))
WRAP(int, ibv_destroy_cq, (struct ibv_cq * cq), (cq), cq->context, destroy_cq(cq))
WRAP(struct ibv_srq *, ibv_create_srq, (struct ibv_pd * pd, struct ibv_srq_init_attr *a), (pd, a), pd->context,
     create_srq(pd, a))
WRAP(int, ibv_destroy_srq, (struct ibv_srq * s), (s), s->context, destroy_srq(s))
WRAP(struct ibv_qp *, ibv_create_qp, (struct ibv_pd * pd, struct ibv_qp_init_attr *a), (pd, a), pd->context,
     create_qp(pd, a))
WRAP(int, ibv_modify_qp, (struct ibv_qp * qp, struct ibv_qp_attr *a, int mask), (qp, a, mask), qp->context,
     change_state(qp, a, mask))
WRAP(int, ibv_destroy_qp, (struct ibv_qp * qp), (qp), qp->context, destroy_qp(qp))
WRAP(struct ibv_ah *, ibv_create_ah, (struct ibv_pd * pd, struct ibv_ah_attr *a), (pd, a), pd->context,
     create_ah(pd, a))
WRAP(int, ibv_destroy_ah, (struct ibv_ah * ah), (ah), ah->context, release(ah))

/* SPDX-License-Identifier: Apache-2.0 */
/* Commands: completion queues, shared receive queues, queue pairs, members of groups. */
#include <errno.h>
#include <string.h>

#include <rdma/mlx5-abi.h>

#include "device.h"

static unsigned log2_of(uint32_t n)
{
	return n > 1 ? 32 - (unsigned)__builtin_clz(n - 1) : 0;
}

static int create_cq(const struct mem_command *c)
{
	enum { NOT_WRITTEN = 0xf1, NOT_ARMED = 0x7fffffff };
	const struct ib_uverbs_create_cq *in = (const void *)c->in;
	struct mlx5_ib_create_cq d;

	mem_request(c, sizeof(*in), &d, sizeof(d));
	if (in->cqe == 0 || in->cqe > mlx5mem.max_cqe)
		return EINVAL;
	struct mem_cq *q = MEM_MAKE(mem.cq, c->context);
	if (!q)
		return ENOMEM;
	mem.cqs = q - mem.cq < mem.cqs ? mem.cqs : (unsigned)(q - mem.cq) + 1;
	q->buf = (void *)(uintptr_t)d.buf_addr;
	q->record = (void *)(uintptr_t)d.db_addr;
	q->log = log2_of(in->cqe + 1);
	/* The program has written 0, which is an arming, too: the device knows by the doorbell. */
	q->record[1] = q->armed = NOT_ARMED;
	q->size = d.cqe_size;
	q->user = in->user_handle;
	q->channel = NO_HANDLE;
	if (in->comp_channel >= 0 && in->comp_channel < MAX_FDS && mem.channel[in->comp_channel]) {
		q->channel = mem.channel[in->comp_channel] - 1;
		q->reader = in->comp_channel;
		mem.channels++;
	}
	for (uint32_t i = 0; i < 1u << q->log; i++)
		q->buf[(size_t)(i + 1) * q->size - 1] = NOT_WRITTEN;
	uint32_t n = (uint32_t)(q - mem.cq);
	struct ib_uverbs_create_cq_resp r = {.cq_handle = n, .cqe = (1u << q->log) - 1};
	struct mlx5_ib_create_cq_resp rd = {.cqn = n};
	mem_answer(c, &r, sizeof(r), &rd, sizeof(rd));
	return 0;
}

/* How many events of an object the program has read and has to acknowledge. The others are forgotten. */
static uint32_t events_read(const struct mem_object *o, uint64_t user)
{
	const struct mem_context *x = &mem.context[o->context];

	return o->events - mem_untell(x->reader, x->events, user, sizeof(struct ib_uverbs_async_event_desc));
}

static bool cq_in_use(const struct mem_cq *q)
{
	for (unsigned i = 0; i < mem.qps; i++)
		if (mem.qp[i].o.used && (mem.qp[i].send_cq == q || mem.qp[i].recv_cq == q))
			return true;
	return false;
}

static int destroy_cq(const struct mem_command *c)
{
	const struct ib_uverbs_destroy_cq *in = (const void *)c->in;
	struct mem_cq *q = MEM_OF(mem.cq, in->cq_handle);

	if (!q)
		return EINVAL;
	if (cq_in_use(q))
		return EBUSY;
	uint32_t unread = mem_untell(q->reader, q->channel, q->user, sizeof(struct ib_uverbs_comp_event_desc));
	struct ib_uverbs_destroy_cq_resp r = {.comp_events_reported = q->told - unread,
					      .async_events_reported = events_read(&q->o, q->user)};
	mem_answer(c, &r, sizeof(r), NULL, 0);
	if (q->channel >= 0)
		mem.channels--;
	mem_end(&q->o);
	return 0;
}

static int create_srq(const struct mem_command *c)
{
	const struct ib_uverbs_create_srq *in = (const void *)c->in;
	struct mlx5_ib_create_srq d;

	mem_request(c, sizeof(*in), &d, sizeof(d));
	if (!mem_pd_of(in->pd_handle) || in->max_wr == 0)
		return EINVAL;
	struct mem_rq *s = MEM_MAKE(mem.srq, c->context);
	if (!s)
		return ENOMEM;
	s->shared = true;
	s->pd = in->pd_handle;
	s->buf = (void *)(uintptr_t)d.buf_addr;
	s->record = (void *)(uintptr_t)d.db_addr;
	s->places = 1u << log2_of(in->max_wr + 1);
	s->stride = 1u << log2_of((uint32_t)sizeof(struct mlx5_wqe_srq_next_seg) +
				  in->max_sge * (uint32_t)sizeof(struct mlx5_wqe_data_seg));
	s->user = in->user_handle;
	uint32_t n = (uint32_t)(s - mem.srq);
	struct ib_uverbs_create_srq_resp r = {.srq_handle = n, .max_wr = in->max_wr, .max_sge = in->max_sge, .srqn = n};
	struct mlx5_ib_create_srq_resp rd = {.srqn = n};
	mem_answer(c, &r, sizeof(r), &rd, sizeof(rd));
	return 0;
}

static int destroy_srq(const struct mem_command *c)
{
	const struct ib_uverbs_destroy_srq *in = (const void *)c->in;
	struct mem_rq *s = MEM_OF(mem.srq, in->srq_handle);

	if (!s)
		return EINVAL;
	for (unsigned i = 0; i < mem.qps; i++)
		if (mem.qp[i].o.used && mem.qp[i].rq == s)
			return EBUSY;
	struct ib_uverbs_destroy_srq_resp r = {.events_reported = events_read(&s->o, s->user)};
	mem_answer(c, &r, sizeof(r), NULL, 0);
	mem_end(&s->o);
	return 0;
}

static void lay_out(struct mem_qp *q, const struct mlx5_ib_create_qp *d, struct mem_rq *srq)
{
	q->sq = (uint8_t *)(uintptr_t)d->buf_addr + ((uint64_t)d->rq_wqe_count << d->rq_wqe_shift);
	q->blocks = d->sq_wqe_count;
	q->record = (void *)(uintptr_t)d->db_addr;
	q->uidx = d->uidx;
	q->own = (struct mem_rq){
		.pd = q->pd,
		.buf = (void *)(uintptr_t)d->buf_addr,
		.record = &q->record[MLX5_RCV_DBR],
		.places = d->rq_wqe_count,
		.stride = 1u << d->rq_wqe_shift,
	};
	q->rq = srq ? srq : &q->own;
}

/* Makes a queue pair; the number is the lowest that is free, as with devices. */
static int make_qp(const struct mem_command *c, const struct ib_uverbs_ex_create_qp *in,
		   const struct mlx5_ib_create_qp *d, struct ib_uverbs_create_qp_resp *r)
{
	struct mem_cq *send_cq = MEM_OF(mem.cq, in->send_cq_handle), *recv_cq = MEM_OF(mem.cq, in->recv_cq_handle);
	struct mem_rq *srq = in->is_srq ? MEM_OF(mem.srq, in->srq_handle) : NULL;
	bool block = in->create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	unsigned there = 0;

	if (!send_cq || !recv_cq || (in->is_srq && !srq) || !mem_pd_of(in->pd_handle))
		return EINVAL;
	if (in->qp_type != IBV_QPT_UD || (in->create_flags & ~(uint32_t)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB))
		return EOPNOTSUPP;
	mem.count.blocking += block;
	if (block && mlx5mem.block_refusal)
		return mlx5mem.block_refusal;
	for (unsigned i = 0; i < mem.qps; i++)
		there += mem.qp[i].o.used;
	struct mem_qp *q = there < mlx5mem.max_qp ? MEM_MAKE(mem.qp, c->context) : NULL;
	if (!q)
		return ENOMEM;
	uint32_t n = (uint32_t)(q - mem.qp);
	mem.qps = n < mem.qps ? mem.qps : n + 1;
	q->qpn = MLX5MEM_FIRST_QPN + n;
	q->pd = in->pd_handle;
	q->send_cq = send_cq;
	q->recv_cq = recv_cq;
	q->blocks_own_multicast = block;
	mem.count.plain += !block;
	q->all_signaled = in->sq_sig_all;
	q->user = in->user_handle;
	lay_out(q, d, srq);
	*r = (struct ib_uverbs_create_qp_resp){
		.qp_handle = n,
		.qpn = q->qpn,
		.max_send_wr = in->max_send_wr,
		.max_recv_wr = in->max_recv_wr,
		.max_send_sge = in->max_send_sge,
		.max_recv_sge = in->max_recv_sge,
		.max_inline_data = in->max_inline_data,
	};
	q->cap = *r;
	return 0;
}

/* The old command, which has no flags. */
static int create_qp(const struct mem_command *c)
{
	const struct ib_uverbs_create_qp *in = (const void *)c->in;
	struct mlx5_ib_create_qp d;
	struct ib_uverbs_create_qp_resp r;
	struct mlx5_ib_create_qp_resp rd = {0};
	struct ib_uverbs_ex_create_qp ex = {
		.user_handle = in->user_handle,
		.pd_handle = in->pd_handle,
		.send_cq_handle = in->send_cq_handle,
		.recv_cq_handle = in->recv_cq_handle,
		.srq_handle = in->srq_handle,
		.max_send_wr = in->max_send_wr,
		.max_recv_wr = in->max_recv_wr,
		.max_send_sge = in->max_send_sge,
		.max_recv_sge = in->max_recv_sge,
		.max_inline_data = in->max_inline_data,
		.sq_sig_all = in->sq_sig_all,
		.qp_type = in->qp_type,
		.is_srq = in->is_srq,
	};

	mem_request(c, sizeof(*in), &d, sizeof(d));
	int err = make_qp(c, &ex, &d, &r);
	if (!err)
		mem_answer(c, &r, sizeof(r), &rd, sizeof(rd));
	return err;
}

static int create_qp_ex(const struct mem_command *c)
{
	const struct ib_uverbs_ex_create_qp *in = (const void *)c->in;
	struct mlx5_ib_create_qp d;
	struct mlx5_ib_create_qp_resp rd = {0};
	struct ib_uverbs_ex_create_qp_resp r = {.response_length = sizeof(r)};

	mem_request(c, sizeof(*in), &d, sizeof(d));
	int err = make_qp(c, in, &d, &r.base);
	if (!err)
		mem_answer(c, &r, sizeof(r), &rd, sizeof(rd));
	return err;
}

/* Which attributes a change to a state needs; -1: it is not allowed. To RESET and ERR one may go from everywhere. */
static int needed(enum ibv_qp_state from, enum ibv_qp_state to)
{
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return 0;
	if (to == IBV_QPS_INIT && (from == IBV_QPS_RESET || from == IBV_QPS_INIT))
		return from == IBV_QPS_RESET ? IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY : 0;
	if (to == IBV_QPS_RTR && from == IBV_QPS_INIT)
		return 0;
	if (to == IBV_QPS_RTS && from == IBV_QPS_RTR)
		return IBV_QP_SQ_PSN;
	if (to == IBV_QPS_RTS && (from == IBV_QPS_RTS || from == IBV_QPS_SQD || from == IBV_QPS_SQE))
		return 0;
	return -1;
}

static int modify_qp(const struct mem_command *c)
{
	const struct ib_uverbs_modify_qp *in = (const void *)c->in;
	struct mem_qp *q = MEM_OF(mem.qp, in->qp_handle);
	int mask = (int)in->attr_mask, need = 0;

	if (!q)
		return EINVAL;
	enum ibv_qp_state to = mask & IBV_QP_STATE ? in->qp_state : q->state;
	if (mask & IBV_QP_STATE)
		need = needed(q->state, to);
	if (need < 0 || (mask & need) != need || ((mask & IBV_QP_PORT) && in->port_num != 1) ||
	    ((mask & IBV_QP_PKEY_INDEX) && in->pkey_index >= MLX5MEM_PKEYS))
		return EINVAL;
	if ((mask & IBV_QP_STATE) && mlx5mem.before_state)
		mlx5mem.before_state(q->qpn, (int)to);
	if (mask & IBV_QP_QKEY)
		q->qkey = in->qkey;
	if (mask & IBV_QP_PKEY_INDEX)
		q->pkey_index = in->pkey_index;
	if (mask & IBV_QP_STATE)
		mem_qp_state(q, to);
	return 0;
}

static int query_qp(const struct mem_command *c)
{
	const struct ib_uverbs_query_qp *in = (const void *)c->in;
	const struct mem_qp *q = MEM_OF(mem.qp, in->qp_handle);

	if (!q)
		return EINVAL;
	struct ib_uverbs_query_qp_resp r = {
		.max_send_wr = q->cap.max_send_wr,
		.max_recv_wr = q->cap.max_recv_wr,
		.max_send_sge = q->cap.max_send_sge,
		.max_recv_sge = q->cap.max_recv_sge,
		.max_inline_data = q->cap.max_inline_data,
		.qkey = q->qkey,
		.pkey_index = q->pkey_index,
		.qp_state = q->state,
		.cur_qp_state = q->state,
		.port_num = 1,
	};
	mem_answer(c, &r, sizeof(r), NULL, 0);
	return 0;
}

static int destroy_qp(const struct mem_command *c)
{
	const struct ib_uverbs_destroy_qp *in = (const void *)c->in;
	struct mem_qp *q = MEM_OF(mem.qp, in->qp_handle);

	if (!q)
		return EINVAL;
	for (unsigned i = 0; i < mem.members; i++)
		if (mem.member[i].o.used && mem.member[i].qp == q)
			return EBUSY;
	if (mlx5mem.before_state)
		mlx5mem.before_state(q->qpn, IBV_QPS_RESET);
	struct ib_uverbs_destroy_qp_resp r = {.events_reported = events_read(&q->o, q->user)};
	mem_answer(c, &r, sizeof(r), NULL, 0);
	uint32_t qpn = q->qpn;
	mem_end(&q->o);
	while (mem.qps > 0 && !mem.qp[mem.qps - 1].o.used)
		mem.qps--;
	if (mlx5mem.after_destroy)
		mlx5mem.after_destroy(qpn);
	return 0;
}

static struct mem_member *member(const struct mem_qp *q, const uint8_t *gid)
{
	for (unsigned i = 0; i < mem.members; i++) {
		struct mem_member *m = &mem.member[i];
		if (m->o.used && m->qp == q && memcmp(m->gid, gid, sizeof(m->gid)) == 0)
			return m;
	}
	return NULL;
}

static int attach(const struct mem_command *c)
{
	const struct ib_uverbs_attach_mcast *in = (const void *)c->in;
	struct mem_qp *q = MEM_OF(mem.qp, in->qp_handle);

	if (!q || in->gid[0] != 0xff)
		return EINVAL;
	if (member(q, in->gid))
		return 0;
	struct mem_member *m = MEM_MAKE(mem.member, c->context);
	if (!m)
		return ENOMEM;
	memcpy(m->gid, in->gid, sizeof(m->gid));
	m->qp = q;
	unsigned n = (unsigned)(m - mem.member) + 1;
	mem.members = n < mem.members ? mem.members : n;
	return 0;
}

static int detach(const struct mem_command *c)
{
	const struct ib_uverbs_detach_mcast *in = (const void *)c->in;
	const struct mem_qp *q = MEM_OF(mem.qp, in->qp_handle);
	struct mem_member *m = q ? member(q, in->gid) : NULL;

	if (!m)
		return EINVAL;
	mem_end(&m->o);
	return 0;
}

int mem_queue_command(const struct mem_command *c)
{
	switch (c->number) {
	case IB_USER_VERBS_CMD_CREATE_CQ:
		return create_cq(c);
	case IB_USER_VERBS_CMD_DESTROY_CQ:
		return destroy_cq(c);
	case IB_USER_VERBS_CMD_CREATE_SRQ:
		return create_srq(c);
	case IB_USER_VERBS_CMD_DESTROY_SRQ:
		return destroy_srq(c);
	case IB_USER_VERBS_CMD_CREATE_QP:
		return create_qp(c);
	case IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_CREATE_QP:
		return create_qp_ex(c);
	case IB_USER_VERBS_CMD_MODIFY_QP:
		return modify_qp(c);
	case IB_USER_VERBS_CMD_QUERY_QP:
		return query_qp(c);
	case IB_USER_VERBS_CMD_DESTROY_QP:
		return destroy_qp(c);
	case IB_USER_VERBS_CMD_ATTACH_MCAST:
		return attach(c);
	case IB_USER_VERBS_CMD_DETACH_MCAST:
		return detach(c);
	default:
		return EOPNOTSUPP;
	}
}

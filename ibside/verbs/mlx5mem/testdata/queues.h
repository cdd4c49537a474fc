/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of selftest.c: other queues and domains, and limits. */
#include <poll.h>

static void own_receive_queue(void)
{
	struct ibv_qp *q = make_qp(pd, NULL, 0);
	struct ibv_sge sge = {.length = ROOM, .lkey = mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_wc wc[DEPTH];

	WANT(q && to_rts(q) == 0);
	for (uint64_t i = 0; i < 3 * DEPTH; i++) {
		wr.wr_id = i;
		sge.addr = (uintptr_t)memory + i % DEPTH * ROOM;
		WANT(ibv_post_recv(q, &wr, &bad) == 0 && mlx5mem_buffers(q->qp_num) == 1);
		memset(payload(), (int)i, 100);
		WANT(send_one(0, plain, q->qp_num, 100, IBV_SEND_SIGNALED, 0) == 0 && mlx5mem_turn(MLX5MEM_ALL) == 1);
		WANT(take(rcq, wc, 1) == 1 && wc[0].wr_id == i && wc[0].byte_len == 140 && wc[0].qp_num == q->qp_num);
		WANT(memory[i % DEPTH * ROOM + 139] == i && take(scq, wc, 1) == 1);
	}
	WANT(ibv_post_recv(q, &wr, &bad) == 0 && ibv_post_recv(q, &wr, &bad) == 0 && set_state(q, IBV_QPS_ERR) == 0);
	WANT(take(rcq, wc, DEPTH) == 2 && wc[1].status == IBV_WC_WR_FLUSH_ERR);
	WANT(ibv_destroy_qp(q) == 0);
}

/* A completion is told when it comes after the arming, and when it came before that but had not been taken. */
static void waits(void)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(ctx);
	struct ibv_cq *cq = ch ? ibv_create_cq(ctx, 15, (void *)7, ch, 0) : NULL, *which;
	struct ibv_qp_init_attr a = {.send_cq = cq,
				     .recv_cq = cq,
				     .srq = srq,
				     .qp_type = IBV_QPT_UD,
				     .cap = {.max_send_wr = 4, .max_send_sge = 1}};
	struct pollfd p = {.events = POLLIN};
	struct ibv_wc wc;
	void *context;

	WANT(cq);
	struct ibv_qp *q = ibv_create_qp(pd, &a);
	WANT(q && to_rts(q) == 0);
	p.fd = ch->fd;
	for (int early = 0; early < 2; early++) {
		WANT(early || ibv_req_notify_cq(cq, 0) == 0);
		WANT(poll(&p, 1, 0) == 0);
		WANT(send_one(0, plain, q->qp_num, 64, 0, 0) == 0 && mlx5mem_turn(MLX5MEM_ALL) == 1);
		WANT(!early || (poll(&p, 1, 0) == 0 && ibv_req_notify_cq(cq, 0) == 0 && mlx5mem_turn(0) == 0));
		WANT(poll(&p, 1, 0) == 1 && ibv_get_cq_event(ch, &which, &context) == 0 && which == cq &&
		     context == (void *)7);
		ibv_ack_cq_events(cq, 1);
		WANT(take(cq, &wc, 1) == 1);
	}
	WANT(ibv_req_notify_cq(cq, 1) == 0 && send_one(0, plain, q->qp_num, 64, 0, 0) == 0 &&
	     mlx5mem_turn(MLX5MEM_ALL) == 1);
	WANT(poll(&p, 1, 0) == 0);
	WANT(send_one(0, plain, q->qp_num, 64, IBV_SEND_SOLICITED, 0) == 0 && mlx5mem_turn(MLX5MEM_ALL) == 1);
	WANT(poll(&p, 1, 0) == 1); /* nobody reads it before the queue goes */
	WANT(ibv_destroy_qp(q) == 0 && ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(ch) == 0);
}

/* A thread domain has a doorbell register of its own. */
static void domains(void)
{
	struct ibv_td_init_attr ta = {0};
	struct ibv_td *td = ibv_alloc_td(ctx, &ta);
	struct ibv_parent_domain_init_attr pa = {.pd = pd, .td = td};
	struct ibv_pd *parent = td ? ibv_alloc_parent_domain(ctx, &pa) : NULL;
	struct mlx5dv_qp a = {0}, b = {0};
	struct ibv_wc wc;

	WANT(parent);
	for (int i = 1; i < QPS; i++) {
		WANT(ibv_destroy_qp(qp[i]) == 0);
		qp[i] = make_qp(parent, srq, 64);
		WANT(qp[i] && to_rts(qp[i]) == 0);
		WANT(send_one(i, plain, qp[0]->qp_num, 64, IBV_SEND_SIGNALED | IBV_SEND_INLINE, 0) == 0);
		WANT(mlx5mem_turn(MLX5MEM_ALL) == 1 && received(NULL) == 1 && take(scq, &wc, 1) == 1);
	}
	struct mlx5dv_obj oa = {.qp = {.in = qp[1], .out = &a}}, ob = {.qp = {.in = qp[2], .out = &b}};
	WANT(mlx5dv_init_obj(&oa, MLX5DV_OBJ_QP) == 0 && mlx5dv_init_obj(&ob, MLX5DV_OBJ_QP) == 0);
	WANT(a.bf.reg == b.bf.reg && a.bf.size == 256);
	for (int i = 1; i < QPS; i++) {
		WANT(ibv_destroy_qp(qp[i]) == 0);
		qp[i] = NULL;
	}
	WANT(ibv_dealloc_pd(parent) == 0 && ibv_dealloc_td(td) == 0);
}

static void limits(void)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 300, .max_sge = 1}};
	struct ibv_device_attr d;

	mlx5mem.max_srq_wr = 256;
	mlx5mem.max_cqe = 100;
	mlx5mem.max_qp = QPS + 1;
	mlx5mem.max_send_bytes = 128;
	struct ibv_context *c = open_device();
	WANT(ibv_query_device(c, &d) == 0 && d.max_srq_wr == 256 && d.max_cqe == 100 && d.max_qp == QPS + 1);
	struct ibv_pd *p = ibv_alloc_pd(c);
	WANT(p && !ibv_create_srq(p, &sa) && errno == EINVAL);
	WANT(!ibv_create_cq(c, 200, NULL, NULL, 0) && errno == EINVAL);
	sa.attr.max_wr = 100;
	struct ibv_srq *s = ibv_create_srq(p, &sa);
	struct ibv_cq *cq = ibv_create_cq(c, 60, NULL, NULL, 0);
	struct ibv_qp_init_attr a = {.send_cq = cq,
				     .recv_cq = cq,
				     .srq = s,
				     .qp_type = IBV_QPT_UD,
				     .cap = {.max_send_wr = 4, .max_send_sge = 4, .max_inline_data = 64}};
	WANT(s && cq && !ibv_create_qp(p, &a) && errno == EINVAL);
	a.cap.max_inline_data = 32;
	struct ibv_qp *one = ibv_create_qp(p, &a);
	WANT(one && !ibv_create_qp(p, &a) && errno == ENOMEM);
	WANT(ibv_destroy_cq(cq) == EBUSY && ibv_destroy_srq(s) == EBUSY && ibv_dealloc_pd(p) == EBUSY);
	WANT(ibv_destroy_qp(one) == 0 && ibv_destroy_srq(s) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(p) == 0);
	WANT(ibv_close_device(c) == 0);
}

/* What a context has not destroyed ends with it. */
static void two_contexts(void)
{
	uint64_t before = mlx5mem_count().live;
	struct ibv_context *c = open_device();
	struct ibv_pd *p = ibv_alloc_pd(c);
	struct ibv_mr *m = ibv_reg_mr(p, memory, 100, 0);

	WANT(m && m->lkey != mr->lkey && mlx5mem_count().live == before + 3);
	WANT(ibv_dereg_mr(m) == 0 && ibv_dealloc_pd(p) == 0);
	p = ibv_alloc_pd(c);
	WANT(p && ibv_close_device(c) == 0 && mlx5mem_count().live == before);
	free(p);
	WANT(send_one(0, plain, qp[1]->qp_num, 64, 0, 0) == 0 && mlx5mem_turn(MLX5MEM_ALL) == 1 && received(NULL) == 1);
}

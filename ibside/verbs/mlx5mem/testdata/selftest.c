/* SPDX-License-Identifier: Apache-2.0 */
/* The installed libmlx5 on the device: what is sent arrives, what is wrong is found. With an argument, without traps.
 */
#include "rig.h"

/* Every length, inline and by pointer, so many that all queues go round several times. */
static void everything_arrives(void)
{
	struct ibv_wc wc;

	for (uint32_t i = 0, len = 0; len <= 4096; i++, len += len < 260 ? 1 : 131) {
		unsigned in = len <= 200 && i % 3, grh = i & 1, a = i % QPS, b = (i + 1) % QPS;
		for (uint32_t k = 0; k < len; k++)
			payload()[k] = (uint8_t)(k * 7 + i);
		WANT(send_one((int)a, grh ? global : plain, qp[b]->qp_num, len,
			      IBV_SEND_SIGNALED | (in ? IBV_SEND_INLINE : 0), i % 5 ? 0 : i + 1) == 0);
		WANT(mlx5mem_waiting() == 1 && mlx5mem_turn(MLX5MEM_ALL) == 1);
		WANT(take(scq, &wc, 1) == 1 && wc.status == IBV_WC_SUCCESS && wc.wr_id == len);
		WANT(take(rcq, &wc, 1) == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len == len + 40);
		WANT(wc.qp_num == qp[b]->qp_num && wc.src_qp == qp[a]->qp_num && wc.slid == LID && wc.sl == 3);
		WANT(!!(wc.wc_flags & IBV_WC_GRH) == grh);
		WANT(!!(wc.wc_flags & IBV_WC_WITH_IMM) == !(i % 5) && (i % 5 || wc.imm_data == htonl(i + 1)));
		uint8_t *got = memory + wc.wr_id * ROOM;
		WANT(memcmp(got + 40, payload(), len) == 0);
		WANT(!grh || (got[7] == 9 && memcmp(got + 8, own_gid, 16) == 0 && memcmp(got + 24, own_gid, 16) == 0));
		post_receive(wc.wr_id);
	}
}

/* A request as the device reads it. */
static void requests(void)
{
	struct mlx5mem_sent s[3];
	struct ibv_sge sge[3] = {{(uintptr_t)payload(), 10, mr->lkey},
				 {(uintptr_t)payload(), 0, mr->lkey},
				 {(uintptr_t)payload() + 10, 20, mr->lkey}};
	struct ibv_send_wr *bad,
		wr = {.sg_list = sge, .num_sge = 3, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SOLICITED};

	wr.wr.ud.ah = make_ah(99, own_gid);
	wr.wr.ud.remote_qpn = 0x48;
	wr.wr.ud.remote_qkey = 0x80000001;
	memset(payload(), 0x5a, 64);
	mlx5mem_note(s, 3);
	WANT(ibv_post_send(qp[0], &wr, &bad) == 0 && send_one(0, plain, 0x49, 64, IBV_SEND_INLINE, 9) == 0);
	WANT(mlx5mem_waiting() == 2 && mlx5mem_turn(1) == 1 && mlx5mem_waiting() == 1 &&
	     mlx5mem_turn(MLX5MEM_ALL) == 1);
	WANT(mlx5mem_note(NULL, 0) == 2);
	WANT(s[0].qpn == qp[0]->qp_num && s[0].dest_qpn == 0x48 && s[0].qkey == QKEY && s[0].dlid == 99 &&
	     s[0].sl == 3);
	WANT(s[0].grh && s[0].hop_limit == 9 && s[0].tclass == 0x20 && s[0].flow_label == 0x12345);
	WANT(memcmp(s[0].dgid, own_gid, 16) == 0 && s[0].sgid_index == 0 && s[0].static_rate == 0);
	WANT(s[0].len == 30 && s[0].pieces == 2 && s[0].lkey == mr->lkey && s[0].blocks == 2 && s[0].data[29] == 0x5a);
	WANT(s[0].solicited && !s[0].signaled && !s[0].has_imm);
	WANT(s[1].dest_qpn == 0x49 && s[1].len == 64 && s[1].lkey == 0 && s[1].blocks == 3 && ntohl(s[1].imm) == 9);
	WANT(s[1].has_imm && !s[1].grh && !s[1].solicited && s[1].qkey == QKEY);
	WANT(ibv_destroy_ah(wr.wr.ud.ah) == 0 && received(NULL) == 0);
}

static struct ibv_qp *make_blocking(void)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = scq,
		.recv_cq = rcq,
		.srq = srq,
		.qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = DEPTH, .max_send_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = pd,
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
	};

	return ibv_create_qp_ex(ctx, &a);
}

static void groups(void)
{
	struct ibv_ah *ah = make_ah(0xc001, mgid);
	union ibv_gid g;

	memcpy(g.raw, mgid, 16);
	WANT(ibv_destroy_qp(qp[3]) == 0);
	qp[3] = make_blocking();
	WANT(qp[3] && to_rts(qp[3]) == 0);
	for (int i = 0; i < QPS; i++)
		WANT(ibv_attach_mcast(qp[i], &g, 0xc001) == 0);
	WANT(send_one(0, ah, 0xffffff, 64, IBV_SEND_INLINE, 0) == 0 && mlx5mem_turn(MLX5MEM_ALL) == 1 &&
	     received(NULL) == QPS);
	WANT(send_one(3, ah, 0xffffff, 64, 0, 0) == 0 && mlx5mem_turn(MLX5MEM_ALL) == 1 && received(NULL) == QPS - 1);
	WANT(ibv_destroy_qp(qp[3]) == EBUSY);
	for (int i = 0; i < QPS; i++)
		WANT(ibv_detach_mcast(qp[i], &g, 0xc001) == 0 && ibv_detach_mcast(qp[i], &g, 0xc001) != 0);
	WANT(send_one(0, ah, 0xffffff, 64, 0, 0) == 0 && mlx5mem_turn(MLX5MEM_ALL) == 1 && received(NULL) == 0);
	mlx5mem.block_refusal = EOPNOTSUPP;
	WANT(!make_blocking());
	WANT(ibv_destroy_ah(ah) == 0);
}

static void states(void)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS};
	struct ibv_qp_init_attr ia;
	struct ibv_wc wc[DEPTH];

	WANT(ibv_query_qp(qp[1], &a, IBV_QP_STATE | IBV_QP_QKEY, &ia) == 0 && a.qp_state == IBV_QPS_RTS &&
	     a.qkey == QKEY);
	for (int i = 0; i < 5; i++)
		WANT(send_one(1, plain, qp[0]->qp_num, 64, i % 2 ? IBV_SEND_INLINE : 0, 0) == 0);
	WANT(set_state(qp[1], IBV_QPS_ERR) == 0);
	WANT(send_one(1, plain, qp[0]->qp_num, 64, 0, 0) == 0 && mlx5mem_turn(MLX5MEM_ALL) == 0);
	WANT(take(scq, wc, DEPTH) == 6);
	for (int i = 0; i < 6; i++)
		WANT(wc[i].status == IBV_WC_WR_FLUSH_ERR && wc[i].qp_num == qp[1]->qp_num);
	WANT(set_state(qp[1], IBV_QPS_RTS) == EINVAL && set_state(qp[1], IBV_QPS_RTR) == EINVAL);
	WANT(set_state(qp[1], IBV_QPS_RESET) == 0 && set_state(qp[1], IBV_QPS_INIT) == EINVAL);
	WANT(send_one(0, plain, qp[1]->qp_num, 64, 0, 0) == 0 && mlx5mem_turn(MLX5MEM_ALL) == 1 && received(NULL) == 0);
	WANT(to_rts(qp[1]) == 0);
	for (int i = 0; i < 3; i++)
		WANT(send_one(1, plain, qp[0]->qp_num, 64, 0, 0) == 0);
	WANT(set_state(qp[1], IBV_QPS_RESET) == 0 && to_rts(qp[1]) == 0 && mlx5mem_turn(MLX5MEM_ALL) == 0);
	WANT(send_one(1, plain, qp[0]->qp_num, 64, 0, 0) == 0 && mlx5mem_turn(MLX5MEM_ALL) == 1 && received(NULL) == 1);
}

static void failures(void)
{
	struct ibv_wc wc[DEPTH];

	mlx5mem_fail_send(qp[2]->qp_num, 2, FAIL);
	for (int i = 0; i < 5; i++)
		WANT(send_one(2, plain, qp[0]->qp_num, 64, 0, 0) == 0);
	WANT(send_one(1, plain, qp[0]->qp_num, 64, IBV_SEND_SIGNALED, 0) == 0 && mlx5mem_turn(MLX5MEM_ALL) == 4);
	WANT(received(NULL) == 3 && take(scq, wc, DEPTH) == 4);
	WANT(wc[0].status == IBV_WC_SUCCESS && wc[0].qp_num == qp[1]->qp_num);
	WANT(wc[1].status == IBV_WC_LOC_QP_OP_ERR && wc[1].qp_num == qp[2]->qp_num);
	WANT(wc[2].status == IBV_WC_WR_FLUSH_ERR && wc[3].status == IBV_WC_WR_FLUSH_ERR);
	mlx5mem_fail_receive(0, 1, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
	for (int i = 0; i < 3; i++)
		WANT(send_one(1, plain, qp[0]->qp_num, 64, 0, 0) == 0);
	WANT(mlx5mem_turn(MLX5MEM_ALL) == 3 && take(rcq, wc, DEPTH) == 2);
	WANT(wc[0].status == IBV_WC_SUCCESS && wc[1].status == IBV_WC_LOC_PROT_ERR && wc[1].qp_num == qp[0]->qp_num);
}

/* Messages that nobody wants are dropped: of a wrong number, LID, Q_Key or partition, and those without a buffer. */
static void drops(void)
{
	struct mlx5mem_arrival a = {
		.qpn = qp[0]->qp_num, .src_qpn = 0x55, .qkey = QKEY, .len = 3, .data = "abc", .slid = 77};
	struct ibv_qp_attr m = {.pkey_index = 1, .qp_state = IBV_QPS_RESET};
	struct ibv_wc wc;

	WANT(mlx5mem_deliver(&a) == 1 && received(&wc) == 1 && wc.src_qp == 0x55 && wc.slid == 77 && wc.byte_len == 43);
	WANT(memcmp(memory + wc.wr_id * ROOM + 40, "abc", 3) == 0 && !(wc.wc_flags & IBV_WC_GRH));
	a.qkey++;
	WANT(mlx5mem_deliver(&a) == 0);
	a.qpn = 0x999;
	WANT(mlx5mem_deliver(&a) == 0 && mlx5mem_count().dropped >= 2 && received(NULL) == 0);
	for (int i = 0; i < RECEIVES + 1; i++) {
		WANT(send_one(1, plain, qp[0]->qp_num, 64, IBV_SEND_SIGNALED, 0) == 0 &&
		     mlx5mem_turn(MLX5MEM_ALL) == 1);
		WANT(take(scq, &wc, 1) == 1);
	}
	WANT(mlx5mem_buffers(qp[0]->qp_num) == 0 && received(NULL) == RECEIVES);
	WANT(mlx5mem_buffers(qp[0]->qp_num) == RECEIVES);
	mlx5mem_set_pkey(1, 0x7fff);
	mlx5mem_set_pkey(2, 0x8123);
	for (uint16_t place = 1; place < 3; place++) {
		m.qp_state = IBV_QPS_RESET;
		m.pkey_index = place;
		WANT(ibv_modify_qp(qp[1], &m, IBV_QP_STATE) == 0 && to_rts(qp[1]) == 0);
		WANT(ibv_modify_qp(qp[1], &m, IBV_QP_PKEY_INDEX) == 0);
		WANT(send_one(1, plain, qp[0]->qp_num, 64, 0, 0) == 0 && mlx5mem_turn(MLX5MEM_ALL) == 1);
		WANT(received(NULL) == (place == 1)); /* a limited member reaches a full one */
	}
}

static void tables(void)
{
	static const uint8_t other[16] = {0x20, 0x01, [15] = 9};
	struct ibv_port_attr p;
	struct ibv_gid_entry e[MLX5MEM_GIDS];
	union ibv_gid g;
	__be16 pkey;

	WANT(ibv_query_port(ctx, 1, &p) == 0 && p.state == IBV_PORT_ACTIVE && p.active_mtu == IBV_MTU_4096 &&
	     p.lid == LID);
	WANT(p.link_layer == IBV_LINK_LAYER_INFINIBAND && ibv_query_port(ctx, 2, &p) != 0);
	WANT(ibv_query_gid(ctx, 1, 0, &g) == 0 && memcmp(g.raw, own_gid, 16) == 0);
	WANT(ibv_query_gid_table(ctx, e, MLX5MEM_GIDS, 0) == 1 && e[0].gid_type == IBV_GID_TYPE_IB);
	mlx5mem_set_gid(3, other);
	WANT(ibv_query_gid_table(ctx, e, MLX5MEM_GIDS, 0) == 2 && e[1].gid_index == 3 && e[1].gid.raw[15] == 9);
	WANT(ibv_query_pkey(ctx, 1, 0, &pkey) == 0 && ntohs(pkey) == 0xffff);
	mlx5mem_set_pkey(5, 0x8001);
	WANT(ibv_query_pkey(ctx, 1, 5, &pkey) == 0 && ntohs(pkey) == 0x8001 && mlx5mem_pkey(5) == 0x8001);
	mlx5mem.state = IBV_PORT_DOWN;
	mlx5mem.lid = 0x20;
	mlx5mem.flags = IBV_QPF_GRH_REQUIRED;
	WANT(ibv_query_port(ctx, 1, &p) == 0 && p.state == IBV_PORT_DOWN && p.lid == 0x20 &&
	     p.flags == IBV_QPF_GRH_REQUIRED);
	WANT(ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
}

static void events(void)
{
	struct ibv_async_event e;

	mlx5mem_event(IBV_EVENT_QP_FATAL, qp[1]->qp_num);
	mlx5mem_event(IBV_EVENT_CQ_ERR, qp[1]->qp_num);
	mlx5mem_event(IBV_EVENT_SRQ_ERR, qp[1]->qp_num);
	mlx5mem_event(IBV_EVENT_LID_CHANGE, 0);
	WANT(ibv_get_async_event(ctx, &e) == 0 && e.event_type == IBV_EVENT_QP_FATAL && e.element.qp == qp[1]);
	ibv_ack_async_event(&e);
	WANT(ibv_get_async_event(ctx, &e) == 0 && e.event_type == IBV_EVENT_CQ_ERR && e.element.cq == rcq);
	ibv_ack_async_event(&e);
	WANT(ibv_get_async_event(ctx, &e) == 0 && e.event_type == IBV_EVENT_SRQ_ERR && e.element.srq == srq);
	ibv_ack_async_event(&e);
	WANT(ibv_get_async_event(ctx, &e) == 0 && e.event_type == IBV_EVENT_LID_CHANGE && e.element.port_num == 1);
	ibv_ack_async_event(&e);
	mlx5mem_event(IBV_EVENT_QP_FATAL, qp[1]->qp_num); /* nobody reads it before the queue pair goes */
	mlx5mem_event(IBV_EVENT_QP_FATAL, qp[2]->qp_num);
	WANT(ibv_destroy_qp(qp[1]) == 0);
	qp[1] = NULL;
	WANT(ibv_get_async_event(ctx, &e) == 0 && e.element.qp == qp[2]);
	ibv_ack_async_event(&e);
}

#include "queues.h"
#include "faults.h"
#include "begin.h"

static const struct {
	const char *name;
	void (*run)(void);
	bool traps; /* needs them */
} cases[] = {
	{"everything arrives", everything_arrives, false},
	{"requests", requests, false},
	{"groups", groups, false},
	{"states", states, false},
	{"failures", failures, false},
	{"drops", drops, false},
	{"tables", tables, false},
	{"events", events, false},
	{"own receive queue", own_receive_queue, false},
	{"waiting for completions", waits, false},
	{"domains", domains, false},
	{"limits", limits, false},
	{"two contexts", two_contexts, false},
	{"by hand", by_hand, false},
	{"faults of requests", request_faults, false},
	{"faults of memory", memory_faults, false},
	{"faults of queues", queue_faults, false},
	{"doorbells", doorbells, true},
};

int main(int argc, char **argv)
{
	bool traps = argc == 1 && mlx5mem.traps;

	(void)argv;
	running = "passes through until it begins";
	passes_through();
	begins();
	printf("%s: ok\n", running);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		running = cases[i].name;
		if (cases[i].traps && !traps)
			continue;
		mlx5mem_default();
		mlx5mem.traps = traps;
		mlx5mem_set_pkey(1, 0);
		mlx5mem_set_pkey(2, 0);
		set_up();
		cases[i].run();
		take_down();
		WANT(mlx5mem_count().faults == 0);
		printf("%s: ok\n", running);
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the cases of selftest.c share: a device with queues, four queue pairs, and memory. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "../mlx5mem.h"

#define WANT(cond)                                                                                                     \
	do {                                                                                                           \
		if (!(cond)) {                                                                                         \
			printf("%s:%d: %s: not so: %s (%s)\n%s", __FILE__, __LINE__, running, #cond, strerror(errno),  \
			       mlx5mem_faults());                                                                      \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

enum {
	QPS = 4,
	DEPTH = 16,
	RECEIVES = 64,
	ROOM = 4096 + 40,
	QKEY = 0x1234,
	LID = 7,
	FAIL = MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR
};

static const char *running;
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *scq, *rcq;
static struct ibv_srq *srq;
static struct ibv_qp *qp[QPS];
static struct ibv_mr *mr;
static struct ibv_ah *plain, *global; /* both to the port itself */
static uint8_t *memory;               /* RECEIVES rooms, then one to send from */
static const uint8_t own_gid[16] = {0xfe, 0x80, [8] = 2, [15] = 1};
static const uint8_t mgid[16] = {0xff, 0x12, [15] = 1};

static uint8_t *payload(void)
{
	return memory + (size_t)RECEIVES * ROOM;
}

static void post_receive(uint64_t i)
{
	struct ibv_sge sge = {(uintptr_t)memory + i * ROOM, ROOM, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	WANT(ibv_post_srq_recv(srq, &wr, &bad) == 0);
}

static int to_rts(struct ibv_qp *q)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	int err = ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	a.qp_state = IBV_QPS_RTR;
	err = err ? err : ibv_modify_qp(q, &a, IBV_QP_STATE);
	a.qp_state = IBV_QPS_RTS;
	return err ? err : ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

static int set_state(struct ibv_qp *q, enum ibv_qp_state s)
{
	struct ibv_qp_attr a = {.qp_state = s};

	return ibv_modify_qp(q, &a, IBV_QP_STATE);
}

static struct ibv_qp *make_qp(struct ibv_pd *domain, struct ibv_srq *from, uint32_t inlined)
{
	struct ibv_qp_init_attr a = {
		.send_cq = scq,
		.recv_cq = rcq,
		.srq = from,
		.qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = DEPTH, .max_send_sge = 4, .max_inline_data = inlined},
	};

	if (!from) {
		a.cap.max_recv_wr = DEPTH;
		a.cap.max_recv_sge = 1;
	}
	return ibv_create_qp(domain, &a);
}

static struct ibv_ah *make_ah(uint16_t dlid, const uint8_t *gid)
{
	struct ibv_ah_attr a = {.dlid = dlid, .sl = 3, .src_path_bits = 0, .port_num = 1, .is_global = gid != 0};

	if (gid)
		memcpy(a.grh.dgid.raw, gid, 16);
	a.grh.flow_label = 0x12345;
	a.grh.traffic_class = 0x20;
	a.grh.hop_limit = 9;
	struct ibv_ah *ah = ibv_create_ah(pd, &a);
	WANT(ah);
	return ah;
}

static struct ibv_context *open_device(void)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	WANT(list && n == 1 && strcmp(ibv_get_device_name(list[0]), "mlx5_0") == 0);
	struct ibv_context *c = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	WANT(c && mlx5dv_is_supported(c->device));
	return c;
}

static void set_up(void)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = RECEIVES, .max_sge = 1}};

	ctx = open_device();
	pd = ibv_alloc_pd(ctx);
	scq = ibv_create_cq(ctx, 63, NULL, NULL, 0);
	rcq = ibv_create_cq(ctx, 127, NULL, NULL, 0);
	srq = ibv_create_srq(pd, &sa);
	WANT(pd && scq && rcq && srq);
	memory = aligned_alloc(4096, (size_t)(RECEIVES + 1) * 8192);
	mr = ibv_reg_mr(pd, memory, (size_t)(RECEIVES + 1) * ROOM, IBV_ACCESS_LOCAL_WRITE);
	WANT(memory && mr);
	for (int i = 0; i < QPS; i++) {
		qp[i] = make_qp(pd, srq, 200);
		WANT(qp[i] && to_rts(qp[i]) == 0 && qp[i]->qp_num == MLX5MEM_FIRST_QPN + (uint32_t)i);
	}
	for (uint64_t i = 0; i < RECEIVES; i++)
		post_receive(i);
	plain = make_ah(LID, NULL);
	global = make_ah(LID, own_gid);
}

static void take_down(void)
{
	for (int i = 0; i < QPS; i++)
		WANT(!qp[i] || ibv_destroy_qp(qp[i]) == 0);
	WANT(ibv_destroy_ah(plain) == 0 && ibv_destroy_ah(global) == 0);
	WANT(ibv_destroy_srq(srq) == 0 && ibv_destroy_cq(scq) == 0 && ibv_destroy_cq(rcq) == 0);
	WANT(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(ctx) == 0);
	free(memory);
	WANT(mlx5mem_count().live == 0);
}

/* Posts a message of len bytes from a queue pair. */
static int send_one(int from, struct ibv_ah *ah, uint32_t to, uint32_t len, unsigned flags, uint32_t imm)
{
	struct ibv_sge sge = {(uintptr_t)payload(), len, mr->lkey};
	struct ibv_send_wr *bad, wr = {
					 .wr_id = len,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .send_flags = flags,
					 .opcode = imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
					 .imm_data = htonl(imm),
					 .wr.ud = {.ah = ah, .remote_qpn = to, .remote_qkey = QKEY},
				 };

	return ibv_post_send(qp[from], &wr, &bad);
}

static unsigned take(struct ibv_cq *cq, struct ibv_wc *wc, int most)
{
	int n = ibv_poll_cq(cq, most, wc);

	WANT(n >= 0);
	return (unsigned)n;
}

/* How many messages came; their buffers are posted again. */
static unsigned received(struct ibv_wc *last)
{
	struct ibv_wc wc[RECEIVES];
	unsigned n = take(rcq, wc, RECEIVES);

	for (unsigned i = 0; i < n; i++)
		post_receive(wc[i].wr_id);
	if (n && last)
		*last = wc[n - 1];
	return n;
}

/* That there were this many faults, the last with such a text. */
static bool faulted(unsigned n, const char *text)
{
	bool ok = mlx5mem_count().faults == n && strstr(mlx5mem_faults(), text);

	if (ok)
		mlx5mem_forget_faults();
	return ok;
}

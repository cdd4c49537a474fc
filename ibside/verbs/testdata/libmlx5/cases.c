/* SPDX-License-Identifier: Apache-2.0 */
/* The port's C side on the installed libmlx5 and the device made of memory: one case after another, each with a worker
 * of its own, whose counters must balance at the end and whose mbufs must all be back in the pool. */
#include <infiniband/mlx5dv.h>

#include "../../mlx5mem/mlx5mem.h"

#include "../common.h"

enum { MAX_SRQ_WR = 300, MAX_CQE = 511, DLID = 99 };

static struct mlx5mem_sent sent[VERBS_BURST + DEPTH];
static struct mlx5mem_counters made; /* queue pairs, at the beginning of the case */

static const char *device_says(void)
{
	return mlx5mem_faults();
}

static void carry_out(unsigned n)
{
	WANT(mlx5mem_turn(n) == n);
}

/* Carries out all sends, and notes them: of the first queue pair first. */
static unsigned carry_out_all(void)
{
	mlx5mem_note(sent, sizeof(sent) / sizeof(sent[0]));
	unsigned n = mlx5mem_turn(MLX5MEM_ALL);
	WANT(mlx5mem_note(NULL, 0) == n || n > sizeof(sent) / sizeof(sent[0]));
	return n;
}

/* A message for a queue pair comes from the fabric. */
static unsigned arrive(const struct verbs_qp *q)
{
	struct mlx5mem_arrival a = {.qpn = q->qpn, .src_qpn = 9, .qkey = q->qkey, .slid = 5, .sl = 3};

	return mlx5mem_deliver(&a);
}

/* How many messages a queue pair still receives when it is stopped. */
static unsigned arriving;

static void arrive_late(uint32_t qpn, int state)
{
	struct mlx5mem_arrival a = {.qpn = qpn, .qkey = 0x1234};

	for (unsigned i = 0; state != IBV_QPS_RTS && i < arriving; i++)
		mlx5mem_deliver(&a);
}

static bool all_slots(void)
{
	return w->recv_free + mlx5mem_buffers(qp[0]->qpn) == RECEIVES;
}

static void signals(void)
{
	struct ib_send s[VERBS_BURST];
	unsigned silent = 0;

	warm();
	uint64_t bells = mlx5mem_count().bells;
	for (unsigned i = 0; i < VERBS_BURST; i++)
		s[i] = to(i % 3, 1, 10);
	WANT(verbs_post(w, s, VERBS_BURST) == VERBS_BURST);
	WANT(count()->lists == 3 && mlx5mem_count().bells == bells + (mlx5mem.traps ? 3 : 0));
	WANT(carry_out_all() == VERBS_BURST);
	for (unsigned i = 0; i < VERBS_BURST; i++) {
		bool last = i + 1 == VERBS_BURST || sent[i].qpn != sent[i + 1].qpn;
		WANT(sent[i].signaled || !last);
		silent = sent[i].signaled ? 0 : silent + 1;
		WANT(silent < DEPTH / 2);
	}
	WANT(sent[0].lkey == 0 && sent[0].len == 10 && count()->inlined == VERBS_BURST);
	verbs_free(w);
	WANT(count()->sent == VERBS_BURST && drops() == 0);
}

/* Every word of a message is where the device looks for it. */
static void fields(void)
{
	struct ib_send s = to(2, 1, 11);

	warm();
	s.dest_qkey = 0x76543210;
	s.dest_qpn = 0xabcdef;
	s.flags |= IB_SEND_IMM | IB_SEND_SOLICITED;
	s.imm = 0x01020304;
	verbs_post(w, &s, 1);
	WANT(carry_out_all() == 1);
	WANT(sent[0].qpn == qp[2]->qpn && sent[0].dest_qpn == 0xabcdef && sent[0].qkey == 0x76543210);
	WANT(sent[0].has_imm && ntohl(sent[0].imm) == 0x01020304 && sent[0].solicited && sent[0].dlid == DLID);
	WANT(sent[0].len == 11 && sent[0].data[10] == 0x5a);
	s = to(3, 1, 500);
	verbs_post(w, &s, 1);
	WANT(carry_out_all() == 1 && !sent[0].has_imm && !sent[0].solicited && sent[0].qkey == 0);
	WANT(sent[0].qpn == qp[3]->qpn && sent[0].len == 500 && sent[0].lkey == w->dev->mr[0].lkey);
	WANT(sent[0].data[MLX5MEM_NOTED - 1] == 0x5a);
	verbs_free(w);
	WANT(count()->sent == 2);
}

/* Pieces of 0 bytes would be of 2^31 to the device. */
static void pieces_and_empty_messages(void)
{
	struct ib_send s = to(0, 1, 100), empty = to(0, 1, 0);

	warm();
	rte_pktmbuf_chain(s.mbuf, message(0));
	rte_pktmbuf_chain(s.mbuf, message(5));
	verbs_post(w, &s, 1);
	WANT(carry_out_all() == 1 && sent[0].pieces == 2 && sent[0].len == 105);
	verbs_post(w, &empty, 1);
	WANT(carry_out_all() == 1 && sent[0].pieces == 0 && sent[0].blocks == 1);
	WANT(count()->inlined == 1);
	verbs_free(w);
}

static void longest_message(void)
{
	warm();
	w->dev->mtu = 500;
	post(0, 1, 1, 500);
	WANT(carry_out_all() == 1 && sent[0].len == 500);
	post(0, 1, 1, 501);
	WANT(count()->send_drops[SEND_DROP_mtu] == 1 && mlx5mem_waiting() == 0);
	verbs_free(w);
}

static void queue_full(void)
{
	warm();
	post(0, 1, 200, 100);
	WANT(count()->send_drops[SEND_DROP_qp_full] == 200 - DEPTH);
	carry_out(DEPTH);
	verbs_free(w);
	WANT(count()->sent == DEPTH);
	for (unsigned i = 0; i < 4; i++)
		post(i, 1, 100, 100);
	WANT(count()->send_drops[SEND_DROP_cq_full] == 400 - w->send_capacity);
	carry_out(w->send_capacity);
	for (int i = 0; i < 4; i++)
		verbs_free(w);
	post(2, 1, 1, 100);
	WANT(mlx5mem_waiting() == 1);
}

/* Takes room of a queue, past the port. How much there was. */
static unsigned fill(const struct verbs_qp *q, unsigned most)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .wr.ud = {.ah = handle, .remote_qpn = 0x48}};
	unsigned n = 0;

	while (n < most && ibv_post_send(q->qp, &wr, &bad) == 0)
		n++;
	return n;
}

static void post_failed(void)
{
	struct ib_send s[20];

	warm();
	unsigned room = fill(qp[1], 4 * DEPTH);
	WANT(room >= DEPTH && room < 4 * DEPTH && fill(qp[0], room - 10) == room - 10);
	for (unsigned i = 0; i < 20; i++)
		s[i] = to(0, 1, 100);
	verbs_post(w, s, 20);
	WANT(count()->send_drops[SEND_DROP_post_failed] == 10);
	WANT(verbs_errors(w) == 1 && verbs_qp_take_error(qp[0]));
	verbs_qp_drain(w, qp[0]);
	post(0, 1, 1, 100);
	WANT(count()->send_drops[SEND_DROP_qp_down] == 1);
	verbs_free(w);
	WANT(verbs_qp_ended(qp[0]) && count()->send_drops[SEND_DROP_wc_flushed] == 10);
	WANT(verbs_qp_cycle(w, qp[0], 0) == 0 && qp[0]->qp->state == IBV_QPS_RTS);
	carry_out(room);
	post(0, 1, 1, 100);
	WANT(mlx5mem_waiting() == 1);
	WANT(w->taken - w->ended - w->cleared == 1); /* what was refused holds no place */
}

static void error_in_a_list(void)
{
	struct ib_send s[10];

	warm();
	for (unsigned i = 0; i < 10; i++)
		s[i] = to(0, 1, 100);
	verbs_post(w, s, 10);
	post(1, 1, 1, 100);
	mlx5mem_fail_send(qp[0]->qpn, 4, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	carry_out(6); /* the fifth fails, the others behind it are flushed */
	verbs_free(w);
	WANT(count()->sent == 5 && count()->send_drops[SEND_DROP_wc_error] == 1);
	WANT(count()->send_drops[SEND_DROP_wc_flushed] == 5);
	WANT(verbs_qp_take_error(qp[0]) && !verbs_qp_take_error(qp[1]));
	WANT(verbs_ah_next_retired(w) == handle && !verbs_ah_next_retired(w));
	post(1, 1, 1, 100);
	WANT(count()->asked == 1);
}

/* A reset discards the sends under way. */
static void sends_reset(void)
{
	warm();
	post(0, 1, 5, 100);
	verbs_qp_drain(w, qp[0]); /* their completions are there, and the device takes them back */
	WANT(verbs_qp_cycle(w, qp[0], 0) == 0 && verbs_qp_ended(qp[0]) && drops() == 5);
	post(0, 1, 3, 100);
	carry_out(3);
	verbs_free(w);
	WANT(count()->sent == 3 && verbs_qp_ended(qp[0]));
	post(1, 1, 2, 100);
	WANT(verbs_qp_destroy(w, qp[1]) == 0 && drops() == 7);
	qp[1] = NULL;
}

/* All the room there is is for several handles; one has half of it. */
static void pending_room(void)
{
	w->pending_most = 8;
	post(0, 1, 5, 100);
	WANT(count()->send_drops[SEND_DROP_ah_pending] == 1);
	post(0, 2, 3, 100);
	post(0, 3, 2, 100);
	WANT(w->pending_n == 8 && count()->send_drops[SEND_DROP_ah_pending] == 2);
	WANT(answer(handle) == 3);
	WANT(w->pending_n == 0 && mlx5mem_waiting() == 8);
	carry_out(8);
	verbs_free(w);
}

static void messages_pending(void)
{
	post(0, 1, VERBS_PENDING / 2 + 6, 100);
	post(1, 2, 3, 100);
	WANT(count()->send_drops[SEND_DROP_ah_pending] == 6 && mlx5mem_waiting() == 0 && count()->asked == 2);
	WANT(answer(handle) == 2 && mlx5mem_waiting() == DEPTH + 3);
	WANT(count()->send_drops[SEND_DROP_qp_full] == VERBS_PENDING / 2 - DEPTH); /* all are of one queue pair */
	WANT(carry_out_all() == DEPTH + 3);
	for (unsigned i = 0; i < DEPTH; i++)
		WANT(sent[i].qpn == qp[0]->qpn && ntohl(sent[i].imm) == i);
	verbs_free(w);
	post(0, 3, 2, 100);
	struct ah_entry *e = verbs_ah_next_request(w);
	verbs_ah_answer(w, e, NULL);
	verbs_free(w);
	post(0, 3, 1, 100);
	WANT(count()->send_drops[SEND_DROP_ah_failed] == 3 && !verbs_ah_next_request(w));
	verbs_ah_answer(w, e, NULL); /* drop it */
	verbs_free(w);
	post(0, 3, 1, 100);
	WANT(verbs_ah_next_request(w) == e && count()->asked == 4);
	verbs_ah_answer(w, e, handle);
}

/* Their handle is there and dropped at once, as when the port's LID changes: they ask again, and keep their order. */
static void pending_flushed(void)
{
	post(0, 1, 5, 100);
	verbs_ah_flush(w);
	WANT(answer(handle) == 1 && mlx5mem_waiting() == 0 && verbs_ah_next_retired(w) == handle);
	WANT(answer(handle) == 1 && carry_out_all() == 5);
	for (unsigned i = 0; i < 5; i++)
		WANT(ntohl(sent[i].imm) == i);
	verbs_free(w);
}

/* The cache of this worker has one set. */
static void handles_evicted(void)
{
	for (uint8_t i = 0; i < VERBS_AH_WAYS + 2; i++)
		post(0, i, 1, 100);
	WANT(count()->send_drops[SEND_DROP_ah_full] == 2 && answer(handle) == VERBS_AH_WAYS);
	for (uint8_t i = 0; i < 4; i++)
		post(1, 100 + i, 1, 100);
	WANT(count()->evicted == 4 && answer(handle) == 4);
	WANT(verbs_ah_next_retired(w) == handle);
	carry_out(VERBS_AH_WAYS + 4);
	verbs_free(w);
	uint64_t before = count()->asked;
	post(0, 100, 1, 100);
	WANT(count()->asked == before);
	verbs_ah_flush(w);
	verbs_free(w);
	post(0, 100, 1, 100);
	WANT(count()->asked == before + 1);
	unsigned n = 0;
	while (verbs_ah_next_retired(w))
		n++;
	WANT(n == 3 + VERBS_AH_WAYS);
}

static struct ibv_mr *region(struct verbs_mr *to, uintptr_t start, uintptr_t end)
{
	struct ibv_mr *mr = ibv_reg_mr(w->dev->pd, (void *)start, end - start, IBV_ACCESS_LOCAL_WRITE);

	WANT(mr);
	*to = (struct verbs_mr){start, end, mr->lkey, NULL};
	return mr;
}

/* A message's pieces may lie in different regions, as in a mempool of several chunks. */
static void memory(void)
{
	struct verbs_device *d = w->dev;
	struct verbs_mr all = d->mr[0];
	struct ib_send s = to(0, 1, 100), five = to(0, 1, 1), gap = to(0, 1, 1);
	uintptr_t p = rte_pktmbuf_mtod(s.mbuf, uintptr_t), at = rte_pktmbuf_mtod(gap.mbuf, uintptr_t);
	struct ibv_mr *mr[3];

	warm();
	WANT(d->mrs == 1);
	d->mrs = 3;
	mr[0] = region(&d->mr[0], all.start, p - 8);
	mr[1] = region(&d->mr[1], p, p + 100);
	mr[2] = region(&d->mr[2], p + 108, all.end);
	rte_pktmbuf_chain(s.mbuf, message(5));
	verbs_post(w, &s, 1);
	WANT(carry_out_all() == 1 && sent[0].pieces == 2 && sent[0].lkey == mr[1]->lkey && sent[0].len == 105);
	d->mrs = 2;
	d->mr[0] = (struct verbs_mr){all.start, at, all.lkey, NULL};
	d->mr[1] = (struct verbs_mr){at + 8, all.end, all.lkey, NULL};
	verbs_post(w, &gap, 1);
	WANT(count()->send_drops[SEND_DROP_not_registered] == 1);
	for (int i = 0; i < VERBS_MAX_SGE; i++)
		rte_pktmbuf_chain(five.mbuf, message(1));
	verbs_post(w, &five, 1);
	WANT(count()->send_drops[SEND_DROP_segments] == 1);
	d->mrs = 1;
	d->mr[0] = all;
	for (int i = 0; i < 3; i++)
		WANT(ibv_dereg_mr(mr[i]) == 0);
	verbs_free(w);
}

#include "receives.h"
#include "handles.h"
#include "stops.h"
#include "wakes.h"
#include "blocks.h"
#include "run.h"

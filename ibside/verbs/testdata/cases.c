/* SPDX-License-Identifier: Apache-2.0 */
/* The port's C side against the device of mock.c: one case after another, each with a worker of its own, whose counters
 * must balance at the end and whose mbufs must all be back in the pool. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_mempool.h>

#include "mock.h"

#define WANT(cond)                                                                                                     \
	do {                                                                                                           \
		if (!(cond)) {                                                                                         \
			printf("%s:%d: %s: not so: %s\n", __FILE__, __LINE__, running, #cond);                         \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

enum { DEPTH = 128, RECEIVES = 128, MBUFS = 4095 };

static const char *running;
static struct rte_mempool *pool;
static struct verbs_worker *w;
static struct verbs_qp *qp[4];
static struct ibv_ah handle;

static struct verbs_counters *count(void)
{
	return &w->counters;
}

static struct rte_mbuf *message(unsigned len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

	WANT(m);
	memset(rte_pktmbuf_append(m, (uint16_t)len), 0x5a, len);
	return m;
}

/* To peer, from one of the four queue pairs. */
static struct ib_send to(unsigned from, uint8_t peer, unsigned len)
{
	return (struct ib_send){
		.mbuf = message(len),
		.ah = {.dgid = {0xfe, 0x80, [15] = peer}, .hop_limit = 64},
		.qp = qp[from]->handle,
		.dest_qpn = 0x48,
		.flags = IB_SEND_GRH,
	};
}

static void post(unsigned from, uint8_t peer, unsigned n, unsigned len)
{
	for (unsigned i = 0; i < n; i++) {
		struct ib_send s = to(from, peer, len);
		s.imm = i;
		s.flags |= IB_SEND_IMM;
		WANT(verbs_post(w, &s, 1) == 1);
	}
}

static unsigned answer(struct ibv_ah *ah)
{
	struct ah_entry *e;
	unsigned n = 0;

	for (; (e = verbs_ah_next_request(w)); n++)
		verbs_ah_answer(w, e, ah);
	verbs_free(w);
	return n;
}

/* Makes an address handle for peer 1, and resets the counters of the message that this took. */
static void warm(void)
{
	post(0, 1, 1, 1);
	WANT(answer(&handle) == 1);
	mock_complete(1, IBV_WC_SUCCESS);
	verbs_free(w);
	WANT(count()->sent == 1);
	*count() = (struct verbs_counters){0};
	mock.lists = 0;
}

static uint64_t drops(void)
{
	struct verbs_counters c;
	uint64_t sum = 0;

	verbs_counters_read(w, &c);
	for (unsigned i = 0; i < SEND_DROPS; i++)
		sum += c.send_drops[i];
	return sum;
}

static void signals(void)
{
	struct ib_send s[VERBS_BURST];
	unsigned silent = 0;

	warm();
	for (unsigned i = 0; i < VERBS_BURST; i++)
		s[i] = to(i % 3, 1, 10);
	WANT(verbs_post(w, s, VERBS_BURST) == VERBS_BURST);
	WANT(mock.lists == 3);
	for (unsigned i = 0; i < VERBS_BURST; i++) {
		bool signaled = mock.sends[i + 1].send_flags & IBV_SEND_SIGNALED;
		bool last = i + 1 == VERBS_BURST || mock.send_qp[i + 1] != mock.send_qp[i + 2];
		WANT(signaled || !last);
		silent = signaled ? 0 : silent + 1;
		WANT(silent < DEPTH / 2);
	}
	WANT(mock.sends[1].send_flags & IBV_SEND_INLINE);
	mock_complete(VERBS_BURST, IBV_WC_SUCCESS);
	verbs_free(w);
	WANT(count()->sent == VERBS_BURST && drops() == 0);
}

static void queue_full(void)
{
	warm();
	post(0, 1, 200, 100);
	WANT(count()->send_drops[SEND_DROP_qp_full] == 200 - DEPTH);
	mock_complete(DEPTH, IBV_WC_SUCCESS);
	verbs_free(w);
	WANT(count()->sent == DEPTH);
	for (unsigned i = 0; i < 4; i++)
		post(i, 1, 100, 100);
	WANT(count()->send_drops[SEND_DROP_cq_full] == 400 - w->send_capacity);
	mock_complete(400, IBV_WC_SUCCESS);
	for (int i = 0; i < 4; i++)
		verbs_free(w);
	post(2, 1, 1, 100);
	WANT(mock.send_n == 1);
}

static void post_failed(void)
{
	struct ib_send s[20];

	warm();
	for (unsigned i = 0; i < 20; i++)
		s[i] = to(0, 1, 100);
	mock.send_room = 10;
	verbs_post(w, s, 20);
	mock.send_room = MOCK_QUEUE;
	WANT(count()->send_drops[SEND_DROP_post_failed] == 10);
	WANT(verbs_errors(w) == 1 && verbs_qp_take_error(qp[0]));
	verbs_qp_drain(w, qp[0]);
	post(0, 1, 1, 100);
	WANT(count()->send_drops[SEND_DROP_qp_down] == 1);
	mock_complete(10, IBV_WC_WR_FLUSH_ERR);
	verbs_free(w);
	WANT(verbs_qp_ended(qp[0]) && count()->send_drops[SEND_DROP_wc_flushed] == 10);
	WANT(verbs_qp_cycle(w, qp[0], 0) == 0 && qp[0]->qp->state == IBV_QPS_RTS);
	post(0, 1, 1, 100);
	WANT(mock.send_n == 1);
}

static void error_in_a_list(void)
{
	struct ib_send s[10];

	warm();
	for (unsigned i = 0; i < 10; i++)
		s[i] = to(0, 1, 100);
	verbs_post(w, s, 10);
	post(1, 1, 1, 100);
	mock_complete(4, IBV_WC_SUCCESS);
	mock_complete(1, IBV_WC_LOC_QP_OP_ERR);
	mock_complete(5, IBV_WC_WR_FLUSH_ERR);
	mock_complete(1, IBV_WC_SUCCESS);
	verbs_free(w);
	WANT(count()->sent == 5 && count()->send_drops[SEND_DROP_wc_error] == 1);
	WANT(count()->send_drops[SEND_DROP_wc_flushed] == 5);
	WANT(verbs_qp_take_error(qp[0]) && !verbs_qp_take_error(qp[1]));
	WANT(verbs_ah_next_retired(w) == &handle && !verbs_ah_next_retired(w));
	post(1, 1, 1, 100);
	WANT(count()->asked == 1);
}

/* A reset discards the sends under way; their late completions complete nothing. */
static void late_completions(void)
{
	warm();
	post(0, 1, 5, 100);
	verbs_qp_drain(w, qp[0]);
	WANT(verbs_qp_cycle(w, qp[0], 0) == 0 && verbs_qp_ended(qp[0]) && drops() == 5);
	post(0, 1, 3, 100);
	mock_complete(5, IBV_WC_SUCCESS);
	verbs_free(w);
	WANT(count()->sent == 0 && !verbs_qp_ended(qp[0]));
	mock_complete(3, IBV_WC_SUCCESS);
	verbs_free(w);
	WANT(count()->sent == 3 && verbs_qp_ended(qp[0]));
	post(1, 1, 2, 100);
	WANT(verbs_qp_destroy(w, qp[1]) == 0 && drops() == 7);
	mock.send_n = 0;
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
	WANT(answer(&handle) == 3);
	WANT(w->pending_n == 0 && mock.send_n == 8);
	mock_complete(8, IBV_WC_SUCCESS);
	verbs_free(w);
}

static void messages_pending(void)
{
	post(0, 1, VERBS_PENDING / 2 + 6, 100);
	post(1, 2, 3, 100);
	WANT(count()->send_drops[SEND_DROP_ah_pending] == 6 && mock.send_n == 0 && count()->asked == 2);
	WANT(answer(&handle) == 2 && mock.send_n == DEPTH + 3);
	WANT(count()->send_drops[SEND_DROP_qp_full] == VERBS_PENDING / 2 - DEPTH); /* all are of one queue pair */
	for (unsigned i = 0; i < DEPTH; i++)
		WANT(ntohl(mock.sends[i].imm_data) == i);
	mock_complete(DEPTH + 3, IBV_WC_SUCCESS);
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
	verbs_ah_answer(w, e, &handle);
}

/* The cache of this worker has one set. */
static void handles_evicted(void)
{
	for (uint8_t i = 0; i < VERBS_AH_WAYS + 2; i++)
		post(0, i, 1, 100);
	WANT(count()->send_drops[SEND_DROP_ah_full] == 2 && answer(&handle) == VERBS_AH_WAYS);
	for (uint8_t i = 0; i < 4; i++)
		post(1, 100 + i, 1, 100);
	WANT(count()->evicted == 4 && answer(&handle) == 4);
	WANT(verbs_ah_next_retired(w) == &handle);
	mock_complete(VERBS_AH_WAYS + 4, IBV_WC_SUCCESS);
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

static void memory(void)
{
	struct verbs_device *d = w->dev;
	struct verbs_mr all = d->mr[0];
	struct ib_send s = to(0, 1, 100), five = to(0, 1, 1);
	uintptr_t p = rte_pktmbuf_mtod(s.mbuf, uintptr_t);

	warm();
	mock.send_first = mock.send_n = 0;
	d->mrs = 3; /* as after rte_mempool_mem_iter() over three chunks */
	d->mr[0] = (struct verbs_mr){all.start, p - 8, 1, NULL};
	d->mr[1] = (struct verbs_mr){p, p + 8, 2, NULL};
	d->mr[2] = (struct verbs_mr){p + 16, all.end, 3, NULL};
	rte_pktmbuf_chain(s.mbuf, message(5));
	verbs_post(w, &s, 1);
	WANT(mock.sends[0].num_sge == 2 && mock.sges[0][0].lkey == 2 && mock.sges[0][0].length == 100);
	WANT(mock.sges[0][1].lkey != 2 && mock.sges[0][1].length == 5);
	struct ib_send gap = to(0, 1, 1);
	uintptr_t at = rte_pktmbuf_mtod(gap.mbuf, uintptr_t);
	d->mr[1].start = at < p ? p : at + 8;
	d->mr[0].end = d->mr[0].end > at ? at : d->mr[0].end;
	d->mr[2].start = at > p ? at + 16 : d->mr[2].start;
	verbs_post(w, &gap, 1);
	WANT(count()->send_drops[SEND_DROP_not_registered] == 1);
	for (int i = 0; i < VERBS_MAX_SGE; i++)
		rte_pktmbuf_chain(five.mbuf, message(1));
	verbs_post(w, &five, 1);
	WANT(count()->send_drops[SEND_DROP_segments] == 1);
	d->mrs = 1;
	d->mr[0] = all;
}

/* There is a place for the completion of every buffer, and what the device says of itself is what it holds. */
static void receive_queues(void)
{
	struct verbs_limits most = {0};
	struct verbs_sizes s = {.qps = 1, .sends = 64, .ah_entries = VERBS_AH_WAYS};
	struct verbs_worker *another = NULL;

	WANT(mock.srq_wr == RECEIVES && mock.recv_cqe >= RECEIVES);
	WANT(verbs_limits_read(w->dev, &most) == 0);
	WANT(most.receives == MOCK_MAX_SRQ_WR && most.completions == MOCK_MAX_CQE);
	s.receives = (unsigned)most.completions + 1;
	WANT(verbs_worker_new(w->dev, &s, &another) == EINVAL && !another);
}

static void receives(void)
{
	struct ibv_wc good = {.qp_num = qp[1]->qp->qp_num, .src_qp = 9, .slid = 5, .sl = 3}, bad = good;
	struct ib_recv r[VERBS_BURST];

	WANT(mock_buffers() == RECEIVES);
	good.wc_flags = IBV_WC_GRH | IBV_WC_WITH_IMM;
	good.imm_data = htonl(0x01020304);
	bad.status = IBV_WC_LOC_QP_OP_ERR;
	for (int i = 0; i < 50; i++)
		mock_receive(i == 20 ? &bad : &good, "payload", 7);
	WANT(verbs_poll(w, r, 30) == 29 && verbs_poll(w, r + 29, VERBS_BURST) == 20);
	WANT(r[0].imm == 0x01020304 && r[0].flags == (IB_RECV_IMM | IB_RECV_GRH));
	WANT(r[0].sl == (w->dev->ethernet ? 0 : 3) && r[0].slid == 5);
	WANT(r[0].mbuf->data_off == RTE_PKTMBUF_HEADROOM && r[0].mbuf->pkt_len == IB_GRH_LEN + 7);
	WANT(memcmp(rte_pktmbuf_mtod_offset(r[0].mbuf, char *, IB_GRH_LEN), "payload", 7) == 0);
	WANT(verbs_qp_take_error(qp[1]) && count()->recv_drops[RECV_DROP_wc_error] == 1);
	for (unsigned i = 0; i < 49; i++)
		rte_pktmbuf_free(r[i].mbuf);
	mock.recv_room = 10;
	verbs_free(w); /* the library takes ten, and gives the others back */
	WANT(mock_buffers() == RECEIVES - 50 + (w->direct ? 50 : 10));
	mock.recv_room = MOCK_QUEUE;
	verbs_free(w);
	WANT(mock_buffers() == RECEIVES);
	for (unsigned i = 0; w->dev->ethernet && i < mock.recv_n; i++) {
		static const uint8_t zero[IB_GRH_LEN / 2];
		unsigned at = (mock.recv_first + i) % MOCK_QUEUE;
		WANT(memcmp((void *)(uintptr_t)mock.recv_sges[at].addr, zero, sizeof(zero)) == 0);
	}
	mock_receive(&good, "left behind", 11);
}

static void no_buffers(void)
{
	struct rte_mbuf *all[4096];
	struct ibv_wc wc = {.qp_num = 1};
	struct ib_recv r[VERBS_BURST];
	unsigned n = 0;

	for (; (all[n] = rte_pktmbuf_alloc(pool)); n++)
		;
	for (int i = 0; i < 40; i++)
		mock_receive(&wc, "", 0);
	unsigned got = verbs_poll(w, r, VERBS_BURST);
	verbs_free(w);
	WANT(got == 40 && count()->no_buffers == 1 && mock_buffers() == RECEIVES - 40);
	rte_pktmbuf_free_bulk(all, n);
	verbs_free(w);
	WANT(mock_buffers() == RECEIVES);
	for (unsigned i = 0; i < got; i++)
		rte_pktmbuf_free(r[i].mbuf);
}

static unsigned sends_left, sends_lost, receives_left;

static void closed_with_work_left(void)
{
	struct ibv_wc wc = {.qp_num = 1};

	post(0, 1, 3, 100);
	mock_receive(&wc, "", 0);
	mock.arriving = 2;
	sends_left = 3;
	receives_left = 1 + 4 * mock.arriving;
}

static void check_end(void)
{
	struct verbs_counters c;
	uint64_t sent, received;

	mock_complete(MOCK_QUEUE / 4, IBV_WC_SUCCESS);
	WANT(verbs_worker_stop(w) == 0);
	verbs_ah_release(w);
	verbs_counters_read(w, &c);
	WANT(sends_left == 0 || c.send_drops[SEND_DROP_shutdown] == sends_left);
	WANT(sends_lost == 0 || c.send_drops[SEND_DROP_qp_reset] == sends_lost);
	WANT(receives_left == 0 || c.recv_drops[RECV_DROP_shutdown] == receives_left);
	sends_left = sends_lost = receives_left = 0;
	sent = c.sent;
	received = c.delivered;
	for (unsigned i = 0; i < SEND_DROPS; i++)
		sent += c.send_drops[i];
	for (unsigned i = 0; i < RECV_DROPS; i++)
		received += c.recv_drops[i];
	WANT(c.posted == sent && c.received == received);
	verbs_worker_free(w);
}

#include "handles.h"
#include "stops.h"
#include "blocks.h"
#include "wakes.h"
#include "rings.h"
#include "run.h"

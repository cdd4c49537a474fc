/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of cases.c: what only a worker meets that uses its queues directly. */

#include "../direct.h"

static bool going;

static void *go(void *arg)
{
	enum { PAUSE_US = 1000 };

	for (; __atomic_load_n(&going, __ATOMIC_SEQ_CST); usleep(PAUSE_US))
		verbs_free(w);
	return arg;
}

/* The rings keep the completions of a queue pair that was reset, and its blocks are counted from 0 again: it must not
 * come up, nor end, before the worker has passed them. */
static void late_completions_of_rings(void)
{
	pthread_t worker;

	warm();
	post(0, 1, 5, 100);
	post(1, 1, 5, 100);
	verbs_qp_drain(w, qp[0]);
	mock_complete(5, IBV_WC_WR_FLUSH_ERR);
	WANT(verbs_qp_cycle(w, qp[0], 0) == ETIMEDOUT && !verbs_qp_ended(qp[0])); /* there is no worker */
	WANT(verbs_qp_end(w, qp[1]) == ETIMEDOUT && verbs_qp_of(w, qp[1]->handle) == qp[1] && drops() == 0);
	__atomic_store_n(&going, true, __ATOMIC_SEQ_CST);
	WANT(pthread_create(&worker, NULL, go, NULL) == 0);
	WANT(verbs_qp_cycle(w, qp[0], 0) == 0 && verbs_qp_ended(qp[0]) && drops() == 5);
	__atomic_store_n(&going, false, __ATOMIC_SEQ_CST);
	WANT(pthread_join(worker, NULL) == 0);
	post(0, 1, 3, 100);
	WANT(mock.sends[(mock.send_first + mock.send_n - 3) % MOCK_QUEUE].wr_id == 0);
	verbs_free(w);
	WANT(count()->sent == 0 && !verbs_qp_ended(qp[0]));
	mock.send_first += 5; /* those of the other one, which was reset */
	mock.send_n -= 5;
	mock_complete(3, IBV_WC_SUCCESS);
	verbs_free(w);
	WANT(count()->sent == 3 && verbs_qp_ended(qp[0]));
	sends_lost = 10;
}

/* The device looks at each barrier what has been stored (rings.c). An empty message has one block: then the next
 * request begins where others had their payload. */
static void order_of_stores(void)
{
	enum { ROUNDS = 100 };

	warm();
	for (unsigned i = 0; i < ROUNDS; i++) {
		post(i % 2, 1, 29, i % 7 ? 100 : 20);
		post(i % 2, 1, 1, 0);
		carry_out(30);
		for (unsigned k = 0; k < 40; k++)
			mock_receive(qp[1]);
		work_once();
		WANT(count()->sent == (i + 1) * 30 && count()->delivered == (i + 1) * 40 && all_slots());
	}
	WANT(drops() == 0);
}

/* Queues of a form that the port does not know are left to the library: they are made again, for it. */
static void completions_of_another_form(void)
{
	const struct verbs_sizes s = {.worker = 1, .qps = 1, .receives = 64, .sends = 256, .ah_entries = 64};
	struct verbs_worker *other;

	mock.cqe_size = 128;
	WANT(verbs_worker_new(w->dev, &s, &other) == 0 && !other->direct && other->recv_free == 0);
	WANT(verbs_worker_stop(other) == 0);
	verbs_worker_free(other);
}

/* Queue pairs complete beside each other: a place that was taken first may come back last, and is not filled before. */
static void places_in_another_order(void)
{
	struct mlx5_cqe64 *e = ((struct mock_cq *)w->recv_cq)->ring;
	const struct direct_srq *s = &w->direct->srq;
	uint16_t tail = s->tail;

	mock_receive(qp[1]);
	mock_receive(qp[1]);
	WANT(e[0].wqe_counter == htobe16(0) && e[1].wqe_counter == htobe16(1));
	e[0].wqe_counter = htobe16(1);
	e[1].wqe_counter = htobe16(0);
	work_once();
	WANT(be16toh(direct_place(s, tail)->next_wqe_index) == 1 && be16toh(direct_place(s, 1)->next_wqe_index) == 0);
	WANT(s->tail == 0 && all_slots());
}

/* The port has asked for none: the message's buffer would be empty. */
static void payload_in_a_completion(void)
{
	struct ib_recv r;

	mock_receive(qp[1]);
	((struct mock_cq *)w->recv_cq)->ring[0].op_own |= MLX5_INLINE_SCATTER_32;
	WANT(verbs_poll(w, &r, 1) == 0 && count()->recv_drops[RECV_DROP_wc_error] == 1);
	verbs_free(w);
	WANT(all_slots() && verbs_qp_take_error(qp[1]));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of cases.c: queue pairs that end while messages for them lie in the completion queue. The device then discards
 * those, so the worker has to take them before: each occupies one of its places for receive buffers. */

static void reset_with_messages(void)
{
	arriving = 5;
	verbs_qp_drain(w, qp[1]);
	WANT(!verbs_qp_drained(w, qp[1]));
	work_once(); /* had it begun before, it would have seen nothing */
	WANT(!verbs_qp_drained(w, qp[1]) && count()->delivered == 5);
	work_once();
	WANT(verbs_qp_drained(w, qp[1]) && verbs_qp_cycle(w, qp[1], 0) == 0);
	WANT(qp[1]->qp->state == IBV_QPS_RTS && all_slots());
}

/* When messages never end, all earlier ones are known to be taken after as many as there are places. */
static void reset_under_load(void)
{
	struct ib_recv r;
	unsigned n = 0;

	arriving = 5;
	verbs_qp_drain(w, qp[1]);
	for (; !verbs_qp_drained(w, qp[1]); n++) {
		WANT(n < 1000);
		WANT(arrive(qp[2]) == 1);
		WANT(verbs_poll(w, &r, 1) == 1);
		rte_pktmbuf_free(r.mbuf);
		verbs_free(w);
	}
	WANT(n >= RECEIVES && verbs_qp_cycle(w, qp[1], 0) == 0);
	for (int i = 0; i < 2; i++)
		work_once();
	WANT(all_slots());
}

static bool working;

static void *work(void *arg)
{
	enum { PAUSE_US = 2000 };

	for (; __atomic_load_n(&working, __ATOMIC_SEQ_CST); usleep(PAUSE_US))
		work_once();
	return arg;
}

static void destroyed_with_messages(void)
{
	pthread_t worker;

	__atomic_store_n(&working, true, __ATOMIC_SEQ_CST);
	WANT(pthread_create(&worker, NULL, work, NULL) == 0);
	arriving = 5;
	for (unsigned i = 1; i < 4; i++) {
		WANT(verbs_qp_destroy(w, qp[i]) == 0);
		qp[i] = NULL;
	}
	__atomic_store_n(&working, false, __ATOMIC_SEQ_CST);
	WANT(pthread_join(worker, NULL) == 0);
	WANT(count()->delivered == 15 && all_slots());
}

/* A number rests with its queue pair: what comes late for it reaches no other, and what came before is taken. */
static void number_rests(void)
{
	struct verbs_qp *next;
	pthread_t worker;
	uint32_t qpn = qp[1]->qpn;

	__atomic_store_n(&working, true, __ATOMIC_SEQ_CST);
	WANT(pthread_create(&worker, NULL, work, NULL) == 0);
	arriving = 5;
	WANT(verbs_qp_rest(w, qp[1]) == 0);
	arriving = 0;
	WANT(qp[1]->qp->state == IBV_QPS_RESET && verbs_qp_of(w, qp[1]->handle) == NULL);
	WANT(verbs_qp_new(w, 2 << HANDLE_INDEX_BITS | 2, 0x1234, 0, DEPTH, &next) == 0 && next->qpn != qpn);
	__atomic_store_n(&working, false, __ATOMIC_SEQ_CST);
	WANT(pthread_join(worker, NULL) == 0);
	WANT(count()->delivered == 5 && all_slots());
	WANT(verbs_qp_free(qp[1]) == 0 && verbs_qp_destroy(w, next) == 0);
	WANT(verbs_qp_new(w, 3 << HANDLE_INDEX_BITS | 2, 0x1234, 0, DEPTH, &qp[1]) == 0 && qp[1]->qpn == qpn);
}

static void poll_of_another(uint32_t qpn)
{
	(void)qpn;
	mlx5mem.after_destroy = NULL;
	mlx5mem_fail_receive(qp[2]->qpn, 0, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	WANT(arrive(qp[2]) == 0);
	work_once();
}

/* The worker looks up a failed queue pair by its number while another is being destroyed. */
static void destroyed_beside_a_failure(void)
{
	mlx5mem.after_destroy = poll_of_another;
	WANT(verbs_qp_destroy(w, qp[1]) == 0);
	qp[1] = NULL;
	WANT(verbs_qp_take_error(qp[2]));
}

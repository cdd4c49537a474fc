/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of cases.c: queue pairs that end while messages for them lie in the completion queue. The device then discards
 * those, so the worker has to take them before: each occupies one of its places for receive buffers. */

static void work_once(void)
{
	struct ib_recv r[VERBS_BURST];
	unsigned n = verbs_poll(w, r, VERBS_BURST);

	for (unsigned i = 0; i < n; i++)
		rte_pktmbuf_free(r[i].mbuf);
	verbs_free(w);
}

static bool all_slots(void)
{
	return w->recv_free + mock_buffers() == RECEIVES;
}

/* The completion queues are lost under traffic: nothing comes back from the device any more. What the worker posts then
 * is dropped by name as soon as there is no room, and at the end the rest. */
static void completion_queues_lost(void)
{
	struct ibv_wc wc = {.qp_num = qp[1]->qp->qp_num};
	struct ib_recv r[VERBS_BURST];

	warm();
	post(0, 1, 50, 100);
	for (unsigned i = 0; i < 5; i++)
		mock_receive(&wc, "", 0);
	mock_complete(20, IBV_WC_SUCCESS);
	work_once();
	WANT(count()->sent == 20 && count()->delivered == 5);
	mock_receive(&wc, "", 0);
	mock_complete(10, IBV_WC_SUCCESS);
	mock.cq_error = true;
	for (unsigned i = 0; i < 3; i++) {
		post(0, 1, DEPTH, 100);
		WANT(verbs_poll(w, r, VERBS_BURST) == 0);
		verbs_free(w);
	}
	WANT(count()->sent == 20 && count()->delivered == 5 && count()->received == 5);
	WANT(drops() == 3 * DEPTH + 30 - DEPTH && count()->send_drops[SEND_DROP_qp_full] == drops());
	verbs_qp_drain(w, qp[2]); /* nobody knows what has come for it */
	for (unsigned i = 0; i < 3; i++)
		work_once();
	WANT(!verbs_qp_drained(w, qp[2]));
	sends_lost = DEPTH;
}

static void reset_with_messages(void)
{
	mock.arriving = 5;
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
	struct ibv_wc wc = {.qp_num = qp[2]->qp->qp_num};
	struct ib_recv r;
	unsigned n = 0;

	mock.arriving = 5;
	verbs_qp_drain(w, qp[1]);
	for (; !verbs_qp_drained(w, qp[1]); n++) {
		WANT(n < 1000);
		mock_receive(&wc, "", 0);
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
	mock.arriving = 5;
	for (unsigned i = 0; i < 4; i++) {
		WANT(verbs_qp_destroy(w, qp[i]) == 0);
		qp[i] = NULL;
	}
	__atomic_store_n(&working, false, __ATOMIC_SEQ_CST);
	WANT(pthread_join(worker, NULL) == 0);
	WANT(count()->delivered == 20 && all_slots());
}

/* A number rests with its queue pair: what comes late for it reaches no other, and what came before is taken. */
static void number_rests(void)
{
	struct verbs_qp *next;
	pthread_t worker;
	uint32_t qpn = qp[1]->qpn;

	__atomic_store_n(&working, true, __ATOMIC_SEQ_CST);
	WANT(pthread_create(&worker, NULL, work, NULL) == 0);
	mock.arriving = 5;
	WANT(verbs_qp_rest(w, qp[1]) == 0);
	mock.arriving = 0;
	WANT(qp[1]->qp->state == IBV_QPS_RESET && verbs_qp_of(w, qp[1]->handle) == NULL);
	WANT(verbs_qp_new(w, 2 << HANDLE_INDEX_BITS | 2, 0x1234, 0, DEPTH, &next) == 0 && next->qpn != qpn);
	__atomic_store_n(&working, false, __ATOMIC_SEQ_CST);
	WANT(pthread_join(worker, NULL) == 0);
	WANT(count()->delivered == 5 && all_slots());
	WANT(verbs_qp_free(qp[1]) == 0 && verbs_qp_destroy(w, next) == 0);
	WANT(verbs_qp_new(w, 3 << HANDLE_INDEX_BITS | 2, 0x1234, 0, DEPTH, &qp[1]) == 0 && qp[1]->qpn == qpn);
}

static void poll_of_another(void)
{
	struct ibv_wc wc = {.qp_num = qp[2]->qp->qp_num, .status = IBV_WC_LOC_QP_OP_ERR};

	mock_receive(&wc, "", 0);
	work_once();
	mock.after_destroy = NULL;
}

/* The worker looks up a failed queue pair by its number while another is being destroyed. */
static void destroyed_beside_a_failure(void)
{
	mock.after_destroy = poll_of_another;
	WANT(verbs_qp_destroy(w, qp[1]) == 0);
	qp[1] = NULL;
	WANT(verbs_qp_take_error(qp[2]));
}

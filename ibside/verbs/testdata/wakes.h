/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of cases.c: what wakes a worker that sleeps. */
static unsigned readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return (unsigned)poll(&p, 1, 0);
}

/* Whether management has rung since the last call. */
static bool rung(void)
{
	uint64_t n;

	return read(w->ib_port.wake[1], &n, sizeof(n)) > 0;
}

/* Sends end and a message comes while the worker sleeps. It is told of each; awake it is told of nothing. */
static void wake_ups_by_completions(void)
{
	struct ibv_wc good = {.qp_num = qp[1]->qp->qp_num};
	struct ib_recv r[VERBS_BURST];

	verbs_arm(w);
	mock_receive(&good, "x", 1);
	WANT(readable(w->ib_port.wake[0]));
	verbs_disarm(w);
	WANT(mock.unacknowledged == 0 && !readable(w->ib_port.wake[0]));
	mock_receive(&good, "x", 1);
	WANT(!readable(w->ib_port.wake[0]));
	post(0, 1, 2, 1);
	verbs_arm(w);
	mock_complete(1, IBV_WC_SUCCESS);
	WANT(readable(w->ib_port.wake[0]));
	mock_receive(&good, "x", 1);
	verbs_disarm(w);
	WANT(mock.unacknowledged == 0 && !readable(w->ib_port.wake[0]));
	mock_complete(1, IBV_WC_SUCCESS);
	verbs_free(w);
	WANT(verbs_poll(w, r, VERBS_BURST) == 3);
	for (unsigned i = 0; i < 3; i++)
		rte_pktmbuf_free(r[i].mbuf);
}

static void wake_ups(void)
{
	warm();
	WANT(rung() && !rung()); /* by the answer */
	wake_ups_by_completions();
	verbs_ah_flush(w);
	WANT(rung());
	verbs_free(w);
	verbs_qp_drain(w, qp[0]);
	WANT(rung() && !rung());
	WANT(verbs_qp_cycle(w, qp[0], 0) == 0);
}

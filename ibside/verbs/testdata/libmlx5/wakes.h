/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of cases.c: what wakes a worker that sleeps. */

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	mlx5mem_turn(0); /* the device sees an arming then */
	return poll(&p, 1, 0) > 0;
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
	struct ib_recv r[VERBS_BURST];
	int fd = w->ib_port.wake[0];

	verbs_arm(w);
	WANT(!readable(fd) && arrive(qp[1]) == 1 && readable(fd));
	verbs_disarm(w);
	WANT(!readable(fd) && arrive(qp[1]) == 1 && !readable(fd));
	WANT(verbs_poll(w, r, VERBS_BURST) == 2);
	rte_pktmbuf_free(r[0].mbuf);
	rte_pktmbuf_free(r[1].mbuf);
	post(0, 1, 2, 1);
	verbs_arm(w);
	carry_out(1);
	WANT(readable(fd) && arrive(qp[1]) == 1);
	verbs_disarm(w); /* two have told of themselves */
	WANT(!readable(fd));
	carry_out(1);
	work_once();
	WANT(count()->delivered == 3 && count()->sent == 2);
	WANT(w->recv_cq->comp_events_completed == 2 && w->send_cq->comp_events_completed == 1);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* The port's C side against the device of mock.c, where libmlx5 on mlx5mem (libmlx5/cases.c) cannot show a case: one
 * after another, each with a worker of its own, whose counters must balance at the end and whose mbufs must all be back
 * in the pool. */
#include "common.h"

#include "mock.h"

static const char *device_says(void)
{
	return "";
}

static void carry_out(unsigned n)
{
	mock_complete(n, IBV_WC_SUCCESS);
}

static bool all_slots(void)
{
	return w->recv_free + mock_buffers() == RECEIVES;
}

/* A reset discards the sends under way; their late completions complete nothing. */
static void late_completions(void)
{
	warm();
	post(0, 1, 5, 100);
	verbs_qp_drain(w, qp[0]);
	WANT(verbs_qp_cycle(w, qp[0], 0) == 0 && verbs_qp_ended(qp[0]) && drops() == 5);
	post(0, 1, 3, 100);
	carry_out(5);
	verbs_free(w);
	WANT(count()->sent == 0 && !verbs_qp_ended(qp[0]));
	carry_out(3);
	verbs_free(w);
	WANT(count()->sent == 3 && verbs_qp_ended(qp[0]));
}

/* A message waits for its address handle, and then for the device; what is posted later is not waited for. */
static void sends_end(void)
{
	uint32_t until = 7;

	WANT(!verbs_pends(w) && !verbs_qp_sends(qp[0], &until));
	post(0, 1, 2, 100);
	WANT(verbs_pends(w) && !verbs_qp_sends(qp[0], &until));
	WANT(answer(handle) == 1);
	WANT(!verbs_pends(w) && verbs_qp_sends(qp[0], &until));
	carry_out(1);
	verbs_free(w);
	WANT(!verbs_qp_ended_until(qp[0], until));
	post(0, 1, 1, 100);
	carry_out(1);
	verbs_free(w);
	WANT(verbs_qp_ended_until(qp[0], until) && verbs_qp_sends(qp[0], &until) && !verbs_qp_sends(qp[1], &until));
}

/* The library takes some of the buffers, and gives the others back. */
static void buffers_refused(void)
{
	for (int i = 0; i < 50; i++)
		mock_receive(qp[1]);
	mock.recv_room = 10;
	work_once();
	WANT(count()->delivered == 50 && mock_buffers() == RECEIVES - 50 + 10);
	mock.recv_room = MOCK_QUEUE;
	verbs_free(w);
	WANT(mock_buffers() == RECEIVES);
}

/* The completion queues are lost under traffic: nothing comes back from the device any more. What the worker posts then
 * is dropped by name as soon as there is no room, and at the end the rest. */
static void completion_queues_lost(void)
{
	struct ib_recv r[VERBS_BURST];

	warm();
	post(0, 1, 50, 100);
	for (unsigned i = 0; i < 5; i++)
		mock_receive(qp[1]);
	carry_out(20);
	work_once();
	WANT(count()->sent == 20 && count()->delivered == 5);
	mock_receive(qp[1]);
	carry_out(10);
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

#include "rings.h"
#include "run.h"

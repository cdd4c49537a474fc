/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of cases.c: devices that keep a queue pair's own multicast from it, and those that do not. */

/* Sends and receives by a queue pair, and makes another worker, which asks nothing of the device again. */
static void works(void)
{
	const struct verbs_sizes s = {.worker = 1, .qps = 1, .receives = 64, .sends = 256, .ah_entries = 64};
	struct ibv_wc wc = {.qp_num = qp[1]->qp->qp_num};
	struct verbs_worker *other;
	unsigned asked = mock.blocking;
	struct ib_recv r;

	warm();
	post(1, 1, 1, 100);
	mock_complete(1, IBV_WC_SUCCESS);
	verbs_free(w);
	WANT(count()->sent == 1 && qp[1]->max_inline <= 32);
	mock_receive(&wc, "payload", 7);
	WANT(verbs_poll(w, &r, 1) == 1);
	rte_pktmbuf_free(r.mbuf);
	WANT(verbs_worker_new(w->dev, &s, &other) == 0 && mock.blocking == asked);
	WANT(verbs_worker_stop(other) == 0);
	verbs_worker_free(other);
}

/* Queue pairs that send and those that receive are the same kind. The first one tells whether there are such. */
static void own_multicast_blocked(void)
{
	WANT(w->dev->blocks_own_multicast && mock.plain == 0);
	WANT(mock.blocking == 1 + 4 * 2); /* 64 bytes of payload are refused, 32 are not */
	WANT(qp[0]->qpn == MOCK_FIRST_QPN);
	works();
}

static void own_multicast_comes_back(void)
{
	WANT(!w->dev->blocks_own_multicast && mock.plain == 4 && mock.blocking == 1);
	works();
}

static void own_multicast_on_ethernet(void)
{
	WANT(!w->dev->blocks_own_multicast && mock.plain == 4 && mock.blocking == 0);
	works();
}

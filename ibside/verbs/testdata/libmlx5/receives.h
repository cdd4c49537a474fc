/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of cases.c: receive buffers, and what comes into them. */

/* There is a place for the completion of every buffer, and what the device says of itself is what it holds. */
static void receive_queues(void)
{
	struct verbs_limits most = {0};
	struct verbs_sizes s = {.qps = 1, .sends = 64, .ah_entries = VERBS_AH_WAYS};
	struct verbs_worker *another = NULL;
	uint32_t room = 0;

	WANT(mlx5mem_buffers(qp[0]->qpn) == RECEIVES);
	WANT(mlx5mem_next_buffer(qp[0]->qpn, &room) && room == IB_GRH_LEN + PAYLOAD);
	for (unsigned i = 0; i < RECEIVES; i++)
		WANT(arrive(qp[i % 4]) == 1); /* a completion queue that is too small is a fault */
	WANT(arrive(qp[0]) == 0);
	for (unsigned i = 0; i < RECEIVES; i += VERBS_BURST)
		work_once();
	WANT(count()->delivered == RECEIVES);
	WANT(verbs_limits_read(w->dev, &most) == 0);
	WANT(most.receives == MAX_SRQ_WR && most.completions == MAX_CQE);
	s.receives = (unsigned)most.completions + 1;
	WANT(verbs_worker_new(w->dev, &s, &another) == EINVAL && !another);
}

static void receives(void)
{
	static const uint8_t grh[IB_GRH_LEN] = {0x60, [IB_GRH_LEN - 1] = 7};
	struct mlx5mem_arrival a = {.qpn = qp[1]->qpn,
				    .src_qpn = 9,
				    .qkey = 0x1234,
				    .slid = 5,
				    .sl = 3,
				    .grh = grh,
				    .has_imm = true,
				    .imm = htonl(0x01020304),
				    .len = 7,
				    .data = "payload"};
	struct ib_recv r[VERBS_BURST];

	mlx5mem_fail_receive(qp[2]->qpn, 0, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	for (int i = 0; i < 50; i++) {
		a.qpn = qp[i == 20 ? 2 : 1]->qpn;
		WANT(mlx5mem_deliver(&a) == (i != 20));
	}
	WANT(verbs_poll(w, r, 30) == 29 && verbs_poll(w, r + 29, VERBS_BURST) == 20);
	WANT(r[0].imm == 0x01020304 && r[0].flags == (IB_RECV_IMM | IB_RECV_GRH));
	WANT(r[0].sl == (w->dev->ethernet ? 0 : 3) && r[0].slid == 5);
	WANT(r[0].qpn == qp[1]->qpn && r[0].src_qpn == 9);
	WANT(r[0].mbuf->data_off == RTE_PKTMBUF_HEADROOM && r[0].mbuf->pkt_len == IB_GRH_LEN + 7);
	WANT(memcmp(rte_pktmbuf_mtod(r[0].mbuf, char *), grh, IB_GRH_LEN) == 0);
	WANT(memcmp(rte_pktmbuf_mtod_offset(r[0].mbuf, char *, IB_GRH_LEN), "payload", 7) == 0);
	WANT(verbs_qp_take_error(qp[2]) && count()->recv_drops[RECV_DROP_wc_error] == 1);
	WANT(!verbs_qp_take_error(qp[1]));
	for (unsigned i = 0; i < 49; i++)
		rte_pktmbuf_free(r[i].mbuf);
	verbs_free(w);
	WANT(all_slots() && w->recv_free < VERBS_BURST / 2);
	a.has_imm = false;
	a.grh = NULL;
	WANT(mlx5mem_deliver(&a) == 1 && verbs_poll(w, r, 1) == 1 && r[0].flags == 0 && r[0].imm == 0);
	rte_pktmbuf_free(r[0].mbuf);
	WANT(arrive(qp[3]) == 1); /* left behind */
}

/* On Ethernet an IPv4 header fills the second half of an area: what a buffer held before is not taken for the first. */
static void areas(void)
{
	static const uint8_t zero[IB_GRH_LEN / 2];
	uint8_t grh[IB_GRH_LEN];
	struct mlx5mem_arrival a = {.qpn = qp[1]->qpn, .qkey = 0x1234, .grh = grh};
	struct ib_recv r[VERBS_BURST];

	memset(grh, 0xff, sizeof(grh));
	for (unsigned i = 0; i < 2 * 4096; i += VERBS_BURST) {
		a.grh = i < 4096 ? grh : NULL;
		for (unsigned k = 0; k < VERBS_BURST; k++)
			WANT(mlx5mem_deliver(&a) == 1);
		WANT(verbs_poll(w, r, VERBS_BURST) == VERBS_BURST);
		for (unsigned k = 0; k < VERBS_BURST; k++) {
			WANT(a.grh || memcmp(rte_pktmbuf_mtod(r[k].mbuf, void *), zero, sizeof(zero)) == 0);
			rte_pktmbuf_free(r[k].mbuf);
		}
		verbs_free(w);
	}
}

static void no_buffers(void)
{
	struct rte_mbuf *all[4096];
	struct ib_recv r[VERBS_BURST];
	unsigned n = 0;

	for (; (all[n] = rte_pktmbuf_alloc(pool)); n++)
		;
	for (int i = 0; i < 40; i++)
		WANT(arrive(qp[1]) == 1);
	unsigned got = verbs_poll(w, r, VERBS_BURST);
	verbs_free(w);
	WANT(got == 40 && count()->no_buffers == 1 && mlx5mem_buffers(qp[1]->qpn) == RECEIVES - 40);
	rte_pktmbuf_free_bulk(all, n);
	verbs_free(w);
	WANT(mlx5mem_buffers(qp[1]->qpn) == RECEIVES);
	for (unsigned i = 0; i < got; i++)
		rte_pktmbuf_free(r[i].mbuf);
}

static void closed_with_work_left(void)
{
	post(0, 1, 3, 100);
	WANT(arrive(qp[0]) == 1);
	arriving = 2;
	sends_left = 3;
	receives_left = 1 + 4 * arriving;
}

/* Blocks and buffers are counted beyond the ring's end, and beyond 16 bits. An empty message has one block: then the
 * next request begins where others had their payload. */
static void rings_go_round(void)
{
	enum { ROUNDS = 2000 };

	warm();
	for (unsigned i = 0; i < ROUNDS; i++) {
		post(i % 2, 1, 29, i % 7 ? 100 : 20);
		post(i % 2, 1, 1, 0);
		carry_out(30);
		for (unsigned k = 0; k < 40; k++)
			WANT(arrive(qp[1]) == 1);
		work_once();
		verbs_free(w);
		WANT(count()->sent == (i + 1) * 30 && count()->delivered == (i + 1) * 40 && all_slots());
	}
	WANT(drops() == 0);
}

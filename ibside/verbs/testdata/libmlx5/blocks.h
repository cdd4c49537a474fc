/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of cases.c: devices that keep a queue pair's own multicast from it, and those that do not. */

/* How many copies of its own multicast a queue pair gets. */
static unsigned own_copies(void)
{
	struct ib_send s = to(1, 1, 10);
	union ibv_gid g = {.raw = {0xff, 0x12, [15] = 1}};
	struct ibv_ah_attr a = {.dlid = 0xc001, .port_num = 1, .is_global = 1, .grh.dgid = g};
	struct ibv_ah *group = ibv_create_ah(w->dev->pd, &a);
	struct ib_recv r[2];

	WANT(group && ibv_attach_mcast(qp[1]->qp, &g, 0xc001) == 0);
	s.ah.dgid[0] = 0xff;
	s.dest_qpn = 0xffffff;
	s.dest_qkey = qp[1]->qkey;
	WANT(verbs_post(w, &s, 1) == 1 && answer(group) == 1);
	carry_out(1);
	verbs_free(w);
	unsigned n = verbs_poll(w, r, 2);
	for (unsigned i = 0; i < n; i++)
		rte_pktmbuf_free(r[i].mbuf);
	WANT(ibv_detach_mcast(qp[1]->qp, &g, 0xc001) == 0 && ibv_destroy_ah(group) == 0);
	return n;
}

/* Sends and receives by a queue pair, and makes another worker, which asks nothing of the device again. */
static void works(void)
{
	const struct verbs_sizes s = {.worker = 1, .qps = 1, .receives = 64, .sends = 256, .ah_entries = 64};
	struct verbs_worker *other;
	uint64_t asked = mlx5mem_count().blocking;
	struct ib_recv r;

	warm();
	post(1, 1, 1, 100);
	carry_out(1);
	verbs_free(w);
	WANT(count()->sent == 1 && qp[1]->max_inline < 64); /* the device has no room for 64 */
	WANT(arrive(qp[1]) == 1 && verbs_poll(w, &r, 1) == 1);
	rte_pktmbuf_free(r.mbuf);
	WANT(verbs_worker_new(w->dev, &s, &other) == 0 && mlx5mem_count().blocking == asked);
	WANT(verbs_worker_stop(other) == 0);
	verbs_worker_free(other);
}

/* Queue pairs that send and those that receive are the same kind. The first one tells whether there are such. */
static void own_multicast_blocked(void)
{
	WANT(w->dev->blocks_own_multicast && made.plain == 0 && made.blocking == 1 + 4);
	WANT(qp[0]->qpn == MLX5MEM_FIRST_QPN);
	works();
	WANT(own_copies() == 0);
}

static void own_multicast_comes_back(void)
{
	WANT(!w->dev->blocks_own_multicast && made.plain == 4 && made.blocking == 1);
	works();
	WANT(own_copies() == 1);
}

static void own_multicast_on_ethernet(void)
{
	WANT(!w->dev->blocks_own_multicast && made.plain == 4 && made.blocking == 0);
	works();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The list of cases.c's cases, and main. */

/* How a case is run. The device is of InfiniBand; what is different on Ethernet is the port's. */
enum way { BY_LIBRARY, ON_ETHERNET, DIRECT, WAYS };
static const char *const way_names[] = {"InfiniBand", "Ethernet", "direct"};

enum {
	ETHERNET = 1 << ON_ETHERNET,
	INFINIBAND = 1 << BY_LIBRARY | 1 << DIRECT,
	LIBRARY = 1 << BY_LIBRARY | 1 << ON_ETHERNET, /* only it can fail, or has events */
	ALL = ETHERNET | INFINIBAND,
	/* rings too often for doorbells that are caught one by one: in all ways, or where they are libmlx5's own */
	UNTRAPPED = 1 << WAYS,
	LIBRARY_UNTRAPPED = 1 << (WAYS + 1),
};

static const struct {
	const char *name;
	void (*run)(void);
	unsigned ah_entries;
	unsigned ways;
	int refusal; /* of queue pairs that do not get their own multicast back */
} cases[] = {
	{"signals", signals, 64, ALL, 0},
	{"fields", fields, 64, ALL, 0},
	{"pieces and empty messages", pieces_and_empty_messages, 64, ALL, 0},
	{"the longest message", longest_message, 64, ALL, 0},
	{"queue full", queue_full, 64, ALL | LIBRARY_UNTRAPPED, 0},
	{"post_failed", post_failed, 64, LIBRARY | LIBRARY_UNTRAPPED, 0},
	{"error in a list", error_in_a_list, 64, ALL, 0},
	{"sends reset", sends_reset, 64, LIBRARY, 0},
	{"messages pending", messages_pending, 64, ALL, 0},
	{"room for pending messages", pending_room, 64, ALL, 0},
	{"pending messages whose handle is dropped", pending_flushed, 64, ALL, 0},
	{"handles evicted", handles_evicted, VERBS_AH_WAYS, ALL, 0},
	{"handles evicted in a burst", handles_evicted_in_a_burst, VERBS_AH_WAYS, ALL, 0},
	{"handles of InfiniBand", handles_of_infiniband, 1024, INFINIBAND, 0},
	{"handles of a path", handles_of_a_path, 1024, INFINIBAND, 0},
	{"handles of a port that wants a GRH", handles_of_a_port_that_wants_grh, 1024, INFINIBAND, 0},
	{"handles pending", handles_pending, 4096, ALL, 0},
	{"handles late", handles_late, 64, ALL, 0},
	{"messages pending twice", messages_pending_twice, VERBS_AH_WAYS, ALL, 0},
	{"handles of Ethernet", handles_of_ethernet, 1024, ETHERNET, 0},
	{"memory", memory, 64, ALL, 0},
	{"receive queues", receive_queues, 64, ALL, 0},
	{"receives", receives, 64, ALL, 0},
	{"rings go round", rings_go_round, 64, ALL | UNTRAPPED, 0},
	{"areas", areas, 64, ETHERNET, 0},
	{"no buffers", no_buffers, 64, ALL, 0},
	{"wake-ups", wake_ups, 64, ALL, 0},
	{"reset with messages", reset_with_messages, 64, ALL, 0},
	{"reset under load", reset_under_load, 64, ALL, 0},
	{"destroyed with messages", destroyed_with_messages, 64, ALL, 0},
	{"a number rests", number_rests, 64, ALL, 0},
	{"destroyed beside a failure", destroyed_beside_a_failure, 64, ALL, 0},
	{"closed with work left", closed_with_work_left, 64, ALL, 0},
	{"own multicast blocked", own_multicast_blocked, 64, INFINIBAND, 0},
	{"own multicast not blocked: EINVAL", own_multicast_comes_back, 64, INFINIBAND, EINVAL},
	{"own multicast not blocked: EOPNOTSUPP", own_multicast_comes_back, 64, INFINIBAND, EOPNOTSUPP},
	{"own multicast not blocked: ENOSYS", own_multicast_comes_back, 64, INFINIBAND, ENOSYS},
	{"own multicast on Ethernet", own_multicast_on_ethernet, 64, ETHERNET, 0},
};

static struct verbs_device *open_device(enum way way)
{
	struct verbs_device *d = NULL;
	char names[64];

	WANT(verbs_device_open("mlx5_0", 1, &d, names, sizeof(names)) == 0);
	d->ethernet = d->grh = way == ON_ETHERNET;
	d->direct = way == DIRECT;
	WANT(verbs_device_register(d, pool) == 0);
	return d;
}

static struct ibv_ah *make_handle(const struct verbs_device *d)
{
	struct ibv_ah_attr a = {.dlid = DLID, .port_num = 1};
	struct ibv_ah *ah = ibv_create_ah(d->pd, &a);

	WANT(ah);
	return ah;
}

static void run_case(unsigned i, enum way way)
{
	static uint64_t seed; /* of the last worker's cache */
	struct verbs_sizes s = {.qps = 8, .receives = RECEIVES, .sends = 256, .ah_entries = cases[i].ah_entries};

	running = cases[i].name;
	mlx5mem_default();
	mlx5mem.max_srq_wr = MAX_SRQ_WR;
	mlx5mem.max_cqe = MAX_CQE;
	mlx5mem.max_send_bytes = 128;
	mlx5mem.block_refusal = cases[i].refusal;
	mlx5mem.before_state = arrive_late;
	if (cases[i].ways & (way == DIRECT ? UNTRAPPED : UNTRAPPED | LIBRARY_UNTRAPPED))
		mlx5mem.traps = false;
	arriving = 0;
	made = mlx5mem_count();
	struct verbs_device *d = open_device(way);
	handle = make_handle(d);
	WANT(verbs_worker_new(d, &s, &w) == 0 && (w->direct != NULL) == (way == DIRECT));
	WANT(w->ah_seed[0] != seed && w->ah_seed[0] != w->ah_seed[1]);
	seed = w->ah_seed[0];
	for (unsigned k = 0; k < 4; k++)
		WANT(verbs_qp_new(w, 1 << HANDLE_INDEX_BITS | (k + 1), 0x1234, 0, DEPTH, &qp[k]) == 0);
	made.plain = mlx5mem_count().plain - made.plain;
	made.blocking = mlx5mem_count().blocking - made.blocking;
	cases[i].run();
	mlx5mem_turn(MLX5MEM_ALL);
	check_end();
	WANT(ibv_destroy_ah(handle) == 0 && verbs_device_close(d) == 0);
	WANT(rte_mempool_in_use_count(pool) == 0);
	WANT(mlx5mem_count().live == 0 && mlx5mem_count().faults == 0);
	printf("%s, %s: ok\n", running, way_names[way]);
}

int main(void)
{
	mlx5mem_begin();
	make_pool();
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (enum way way = 0; way < WAYS; way++)
			if (cases[i].ways & 1u << way)
				run_case(i, way);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The list of cases.c's cases, and main. */
static const struct {
	const char *name;
	void (*run)(void);
	unsigned ah_entries;
	bool ethernet;
	int refusal; /* of queue pairs that do not get their own multicast back */
} cases[] = {
	{"signals", signals, 64, true, 0},
	{"queue full", queue_full, 64, true, 0},
	{"post_failed", post_failed, 64, true, 0},
	{"error in a list", error_in_a_list, 64, true, 0},
	{"late completions", late_completions, 64, true, 0},
	{"messages pending", messages_pending, 64, true, 0},
	{"room for pending messages", pending_room, 64, true, 0},
	{"handles evicted", handles_evicted, VERBS_AH_WAYS, true, 0},
	{"handles evicted in a burst", handles_evicted_in_a_burst, VERBS_AH_WAYS, true, 0},
	{"handles of InfiniBand", handles_of_infiniband, 1024, false, 0},
	{"handles of a path", handles_of_a_path, 1024, false, 0},
	{"handles of a port that wants a GRH", handles_of_a_port_that_wants_grh, 1024, false, 0},
	{"handles pending", handles_pending, 4096, true, 0},
	{"handles late", handles_late, 64, true, 0},
	{"messages pending twice", messages_pending_twice, VERBS_AH_WAYS, true, 0},
	{"handles of Ethernet", handles_of_ethernet, 1024, true, 0},
	{"memory", memory, 64, true, 0},
	{"receive queues", receive_queues, 64, true, 0},
	{"receives", receives, 64, true, 0},
	{"receives of InfiniBand", receives, 64, false, 0},
	{"no buffers", no_buffers, 64, true, 0},
	{"reset with messages", reset_with_messages, 64, true, 0},
	{"reset under load", reset_under_load, 64, true, 0},
	{"destroyed with messages", destroyed_with_messages, 64, true, 0},
	{"a number rests", number_rests, 64, true, 0},
	{"destroyed beside a failure", destroyed_beside_a_failure, 64, true, 0},
	{"closed with work left", closed_with_work_left, 64, true, 0},
	{"completion queues lost", completion_queues_lost, 64, true, 0},
	{"completion queues lost, InfiniBand", completion_queues_lost, 64, false, 0},
	{"own multicast blocked", own_multicast_blocked, 64, false, 0},
	{"own multicast not blocked: EINVAL", own_multicast_comes_back, 64, false, EINVAL},
	{"own multicast not blocked: EOPNOTSUPP", own_multicast_comes_back, 64, false, EOPNOTSUPP},
	{"own multicast not blocked: ENOSYS", own_multicast_comes_back, 64, false, ENOSYS},
	{"own multicast on Ethernet", own_multicast_on_ethernet, 64, true, 0},
};

static void run_case(unsigned i)
{
	static uint64_t seed; /* of the last worker's cache */
	struct verbs_sizes s = {.qps = 8, .receives = RECEIVES, .sends = 256, .ah_entries = cases[i].ah_entries};

	running = cases[i].name;
	mock_refusal = cases[i].refusal;
	w = mock_worker(pool, &s, cases[i].ethernet);
	WANT(w && (w->td != NULL) == !cases[i].ethernet);
	WANT(w->ah_seed[0] != seed && w->ah_seed[0] != w->ah_seed[1]);
	seed = w->ah_seed[0];
	for (unsigned k = 0; k < 4; k++)
		WANT(verbs_qp_new(w, 1 << HANDLE_INDEX_BITS | (k + 1), 0x1234, 0, DEPTH, &qp[k]) == 0);
	WANT(qp[0]->max_inline == 0 || qp[0]->max_inline <= 32);
	cases[i].run();
	check_end();
	WANT(rte_mempool_in_use_count(pool) == 0);
	printf("%s: ok\n", running);
}

int main(void)
{
	static char *args[] = {"cases", "--no-huge", "--no-pci",     "--no-shconf",
			       "-m",    "64",        "--lcores=0@0", "--log-level=error"};

	if (rte_eal_init(sizeof(args) / sizeof(args[0]), args) < 0)
		return 2;
	pool = rte_pktmbuf_pool_create("packets", 4095, 0, 0, RTE_PKTMBUF_HEADROOM + IB_GRH_LEN + 1024, SOCKET_ID_ANY);
	running = "start";
	WANT(pool);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		run_case(i);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The list of cases.c's cases, and main. */
static const struct {
	const char *name;
	void (*run)(void);
	unsigned ah_entries;
	bool ethernet;
	int refusal; /* of queue pairs that do not get their own multicast back */
	enum { BOTH, LIBRARY, DIRECT } ways;
} cases[] = {
	{"signals", signals, 64, true, 0, BOTH},
	{"queue full", queue_full, 64, true, 0, BOTH},
	{"post_failed", post_failed, 64, true, 0, LIBRARY},
	{"error in a list", error_in_a_list, 64, true, 0, BOTH},
	{"late completions", late_completions, 64, true, 0, LIBRARY},
	{"messages pending", messages_pending, 64, true, 0, BOTH},
	{"room for pending messages", pending_room, 64, true, 0, BOTH},
	{"handles evicted", handles_evicted, VERBS_AH_WAYS, true, 0, BOTH},
	{"handles evicted in a burst", handles_evicted_in_a_burst, VERBS_AH_WAYS, true, 0, BOTH},
	{"handles of InfiniBand", handles_of_infiniband, 1024, false, 0, BOTH},
	{"handles of a path", handles_of_a_path, 1024, false, 0, BOTH},
	{"handles of a port that wants a GRH", handles_of_a_port_that_wants_grh, 1024, false, 0, BOTH},
	{"handles pending", handles_pending, 4096, true, 0, BOTH},
	{"handles late", handles_late, 64, true, 0, BOTH},
	{"messages pending twice", messages_pending_twice, VERBS_AH_WAYS, true, 0, BOTH},
	{"handles of Ethernet", handles_of_ethernet, 1024, true, 0, LIBRARY},
	{"memory", memory, 64, true, 0, BOTH},
	{"receive queues", receive_queues, 64, true, 0, BOTH},
	{"receives", receives, 64, true, 0, BOTH},
	{"wake-ups", wake_ups, 64, true, 0, LIBRARY},
	{"receives of InfiniBand", receives, 64, false, 0, BOTH},
	{"no buffers", no_buffers, 64, true, 0, BOTH},
	{"reset with messages", reset_with_messages, 64, true, 0, BOTH},
	{"reset under load", reset_under_load, 64, true, 0, BOTH},
	{"destroyed with messages", destroyed_with_messages, 64, true, 0, BOTH},
	{"a number rests", number_rests, 64, true, 0, BOTH},
	{"destroyed beside a failure", destroyed_beside_a_failure, 64, true, 0, BOTH},
	{"closed with work left", closed_with_work_left, 64, true, 0, BOTH},
	{"completion queues lost", completion_queues_lost, 64, true, 0, LIBRARY},
	{"completion queues lost, InfiniBand", completion_queues_lost, 64, false, 0, LIBRARY},
	{"own multicast blocked", own_multicast_blocked, 64, false, 0, BOTH},
	{"own multicast not blocked: EINVAL", own_multicast_comes_back, 64, false, EINVAL, BOTH},
	{"own multicast not blocked: EOPNOTSUPP", own_multicast_comes_back, 64, false, EOPNOTSUPP, BOTH},
	{"own multicast not blocked: ENOSYS", own_multicast_comes_back, 64, false, ENOSYS, BOTH},
	{"late completions of rings", late_completions_of_rings, 64, false, 0, DIRECT},
	{"rings go round", rings_go_round, 64, false, 0, DIRECT},
	{"pieces and empty messages", pieces_and_empty_messages, 64, false, 0, DIRECT},
	{"places in another order", places_in_another_order, 64, false, 0, DIRECT},
	{"completions of another form", completions_of_another_form, 64, false, 0, DIRECT},
	{"payload in a completion", payload_in_a_completion, 64, false, 0, DIRECT},
	{"own multicast on Ethernet", own_multicast_on_ethernet, 64, true, 0, LIBRARY},
};

static int by_address(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return x < y ? -1 : x > y;
}

/* Whether each mbuf is there once. */
static bool whole_pool(void)
{
	static struct rte_mbuf *all[MBUFS];

	if (rte_pktmbuf_alloc_bulk(pool, all, MBUFS))
		return false;
	qsort(all, MBUFS, sizeof(all[0]), by_address);
	for (unsigned i = 1; i < MBUFS; i++)
		if (all[i] == all[i - 1])
			return false;
	rte_pktmbuf_free_bulk(all, MBUFS);
	return true;
}

static void run_case(unsigned i, bool direct)
{
	static uint64_t seed; /* of the last worker's cache */
	struct verbs_sizes s = {.qps = 8, .receives = RECEIVES, .sends = 256, .ah_entries = cases[i].ah_entries};

	running = cases[i].name;
	mock_refusal = cases[i].refusal;
	bool ethernet = cases[i].ethernet && !direct;
	w = mock_worker(pool, &s, (struct mock_use){.ethernet = ethernet, .direct = direct});
	WANT(w && (w->direct != NULL) == direct && (w->td != NULL) == !ethernet);
	WANT(w->ah_seed[0] != seed && w->ah_seed[0] != w->ah_seed[1]);
	seed = w->ah_seed[0];
	for (unsigned k = 0; k < 4; k++)
		WANT(verbs_qp_new(w, 1 << HANDLE_INDEX_BITS | (k + 1), 0x1234, 0, DEPTH, &qp[k]) == 0);
	WANT(qp[0]->max_inline == 0 || qp[0]->max_inline <= 32);
	cases[i].run();
	check_end();
	WANT(rte_mempool_in_use_count(pool) == 0 && whole_pool());
	printf("%s%s: ok\n", running, direct ? ", direct" : "");
}

int main(void)
{
	static char *args[] = {"cases", "--no-huge", "--no-pci",     "--no-shconf",
			       "-m",    "64",        "--lcores=0@0", "--log-level=error"};

	if (rte_eal_init(sizeof(args) / sizeof(args[0]), args) < 0)
		return 2;
	pool = rte_pktmbuf_pool_create("packets", MBUFS, 0, 0, RTE_PKTMBUF_HEADROOM + IB_GRH_LEN + 1024, SOCKET_ID_ANY);
	running = "start";
	WANT(pool);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (cases[i].ways != DIRECT)
			run_case(i, false);
		if (cases[i].ways != LIBRARY)
			run_case(i, true);
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The list of cases.c's cases, and main. */
static const struct {
	const char *name;
	void (*run)(void);
	bool direct;
} cases[] = {
	{"late completions", late_completions, false},
	{"sends end", sends_end, false},
	{"buffers refused", buffers_refused, false},
	{"completion queues lost", completion_queues_lost, false},
	{"late completions of rings", late_completions_of_rings, true},
	{"the order of stores", order_of_stores, true},
	{"places in another order", places_in_another_order, true},
	{"completions of another form", completions_of_another_form, true},
	{"payload in a completion", payload_in_a_completion, true},
};

static void run_case(unsigned i)
{
	struct verbs_sizes s = {.qps = 8, .receives = RECEIVES, .sends = 256, .ah_entries = 64};
	static struct ibv_ah ah;

	running = cases[i].name;
	handle = &ah;
	w = mock_worker(pool, &s, cases[i].direct);
	WANT(w && w->td && (w->direct != NULL) == cases[i].direct);
	for (unsigned k = 0; k < 4; k++)
		WANT(verbs_qp_new(w, 1 << HANDLE_INDEX_BITS | (k + 1), 0x1234, 0, DEPTH, &qp[k]) == 0);
	cases[i].run();
	carry_out(MOCK_QUEUE / 4);
	check_end();
	WANT(rte_mempool_in_use_count(pool) == 0);
	printf("%s: ok\n", running);
}

int main(void)
{
	make_pool();
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		run_case(i);
	return 0;
}

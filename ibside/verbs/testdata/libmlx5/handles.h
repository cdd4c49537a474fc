/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of cases.c: which messages share an address handle. */
/* Counts the handles for peers that differ in one field each, and for one that equals the first. */
static unsigned handles_for(bool grh)
{
	const struct ib_ah all[] = {
		{.dlid = 7, .sl = 1},
		{.dlid = 8, .sl = 1},
		{.dlid = 7, .sl = 2},
		{.dlid = 7, .sl = 1, .hop_limit = 1},
		{.dlid = 7, .sl = 1, .tclass = 1},
		{.dlid = 7, .sl = 1, .source = 1},
		{.dlid = 7, .sl = 1, .static_rate = 3},
		{.dlid = 7, .sl = 1, .flow_label = 0x80000},
		{.dlid = 7, .sl = 1, .dgid = {0x80}},
		{.dlid = 7, .sl = 1, .dgid = {[7] = 1}},
		{.dlid = 7, .sl = 1, .dgid = {[8] = 1}},
		{.dlid = 7, .sl = 1, .dgid = {[15] = 1}},
		{.dlid = 7, .sl = 1},
	};
	uint64_t before = count()->asked;

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		WANT(verbs_ah_find(w, qp[0], &all[i], grh));
	return (unsigned)(count()->asked - before);
}

static struct ah_entry *find(struct ib_ah ah, bool grh)
{
	return verbs_ah_find(w, qp[1], &ah, grh);
}

/* This worker's link is InfiniBand: fields that do not matter without a GRH make no other handle. */
static void handles_of_infiniband(void)
{
	struct ib_ah a = {.dlid = 7, .sl = 1, .hop_limit = 3}, b = {.dlid = 7, .sl = 1, .tclass = 9};

	WANT(find(a, false) == find(b, false));
	WANT(find(a, true) != find(b, true));
	WANT(handles_for(false) == 3); /* one of the four is there */
	WANT(handles_for(true) == 11);
	WANT(handles_for(true) == 0);
}

/* Fields that a frame's sender chooses freely make no other handle where no router uses them. The path's own do. */
static void handles_of_a_path(void)
{
	const struct ib_ah near = {.dlid = 7, .dgid = {0xfe, 0x80, [15] = 1}, .hop_limit = 1},
			   label = {.dlid = 7, .dgid = {0xfe, 0x80, [15] = 1}, .hop_limit = 1, .flow_label = 5},
			   routed = {.dlid = 7, .dgid = {0xfe, 0x80, [15] = 1}, .hop_limit = 64, .flow_label = 0xfffff},
			   slow = {.dlid = 7, .dgid = {0xfe, 0x80, [15] = 1}, .hop_limit = 1, .static_rate = 2};

	struct ah_entry *e = find(near, true);
	WANT(e && e->key.ah.hop_limit == 1 && e->key.ah.flow_label == 0 && e->key.grh == 1 &&
	     e->key.ah.static_rate == 0);
	WANT(find(label, true) == e && find(routed, true) != e && find(routed, true)->key.ah.hop_limit == 64);
	WANT(find(slow, true) != e && find(slow, true)->key.ah.static_rate == 2);
	e = find(near, false);
	WANT(e->key.ah.hop_limit == 0 && e->key.grh == 0 && find(routed, false) == e);
	WANT(find(slow, false) != e && find(slow, false)->key.ah.static_rate == 2);
}

/* A port that wants a GRH gets one, whatever the worker wants. */
static void handles_of_a_port_that_wants_grh(void)
{
	const struct ib_ah a = {.dlid = 7, .dgid = {0xfe, 0x80, [15] = 1}, .hop_limit = 1};

	WANT(find(a, false)->key.grh == 0);
	__atomic_store_n(&w->dev->grh, true, __ATOMIC_SEQ_CST);
	struct ah_entry *e = find(a, false);
	WANT(e->key.grh == 1 && e->key.ah.dgid[15] == 1 && e->key.ah.dlid == 7 && find(a, true) == e);
}

/* A queue pair that requests many handles does not prevent another's requests; and may go on when it has been
 * answered. */
static void handles_pending(void)
{
	struct ah_entry *e;

	for (uint8_t i = 0; i < VERBS_AHS_PENDING_PER_QP + 10; i++)
		post(0, i, 1, 100);
	WANT(count()->asked == VERBS_AHS_PENDING_PER_QP && count()->send_drops[SEND_DROP_ah_pending] == 10);
	post(1, 200, 1, 100);
	WANT(count()->asked == VERBS_AHS_PENDING_PER_QP + 1);
	while ((e = verbs_ah_next_request(w))) /* half of them cannot be had */
		verbs_ah_answer(w, e, e->key.ah.dgid[15] & 1 ? NULL : handle);
	verbs_free(w);
	WANT(qp[0]->pending_ahs == 0 && qp[1]->pending_ahs == 0);
	for (uint8_t i = 0; i < VERBS_AHS_PENDING_PER_QP + 10; i++)
		post(0, 100 + i, 1, 100);
	WANT(count()->asked == 2 * VERBS_AHS_PENDING_PER_QP + 1 && count()->send_drops[SEND_DROP_ah_pending] == 20);
	mlx5mem_turn(MLX5MEM_ALL);
	verbs_free(w);
	WANT(verbs_qp_destroy(w, qp[0]) == 0); /* while its handles are pending */
	WANT(verbs_qp_new(w, 2 << HANDLE_INDEX_BITS | 1, 0x1234, 0, DEPTH, &qp[0]) == 0);
	post(0, 250, 1, 100); /* the last one asked for: the others' answers are not this queue pair's */
	for (unsigned i = 0; i < VERBS_AHS_PENDING_PER_QP; i++)
		verbs_ah_answer(w, verbs_ah_next_request(w), handle);
	verbs_free(w);
	WANT(qp[0]->pending_ahs == 1 && count()->send_drops[SEND_DROP_no_qp] == VERBS_AHS_PENDING_PER_QP);
	WANT(answer(handle) == 1 && qp[0]->pending_ahs == 0);
}

/* A message keeps its handle when another of the same burst takes its entry. The cache of this worker has one set. */
static void handles_evicted_in_a_burst(void)
{
	struct ib_send s[VERBS_AH_WAYS + 1];

	for (uint8_t i = 0; i < VERBS_AH_WAYS; i++)
		post(0, i, 1, 100);
	WANT(answer(handle) == VERBS_AH_WAYS && carry_out_all() == VERBS_AH_WAYS);
	for (uint8_t i = 0; i <= VERBS_AH_WAYS; i++)
		s[i] = to(1, i, 100);
	verbs_post(w, s, VERBS_AH_WAYS + 1);
	WANT(count()->evicted == 1 && carry_out_all() == VERBS_AH_WAYS);
	for (unsigned i = 0; i < VERBS_AH_WAYS; i++)
		WANT(sent[i].dlid == DLID);
}

/* A handle from before a request to flush all is flushed, though the worker takes it after that. */
static void handles_late(void)
{
	post(0, 1, 2, 100);
	verbs_ah_answer(w, verbs_ah_next_request(w), handle);
	verbs_ah_flush(w);
	verbs_free(w);
	WANT(verbs_ah_next_retired(w) == handle && mlx5mem_waiting() == 0 && count()->asked == 2);
	WANT(answer(handle) == 1 && mlx5mem_waiting() == 2);
}

/* An entry whose messages wait may belong to another peer by the time that they are handled. */
static void messages_pending_twice(void)
{
	post(0, 1, 3, 100);
	struct ah_entry *e = verbs_ah_next_request(w);
	verbs_ah_answer(w, e, NULL);
	verbs_ah_answer(w, e, NULL); /* and at once: clear that it failed */
	verbs_free(w);
	WANT(e->state == AH_PENDING && e->pending_sends == 3 && w->pending_n == 3);
	WANT(answer(handle) == 1 && e->pending_sends == 0 && w->pending_n == 0 && mlx5mem_waiting() == 3);
}

/* On Ethernet there is always a GRH, and no LID. */
static void handles_of_ethernet(void)
{
	WANT(handles_for(false) == 11 && handles_for(true) == 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of cases.c: which address handles are one. */
/* How many handles there are for peers that differ in one field each, and one that is like the first. */
static unsigned handles_for(bool grh)
{
	const struct ib_ah all[] = {
		{.dlid = 7, .sl = 1},
		{.dlid = 8, .sl = 1},
		{.dlid = 7, .sl = 2},
		{.dlid = 7, .sl = 1, .hop_limit = 1},
		{.dlid = 7, .sl = 1, .tclass = 1},
		{.dlid = 7, .sl = 1, .source = 1},
		{.dlid = 7, .sl = 1, .flow_label = 0x80000},
		{.dlid = 7, .sl = 1, .dgid = {0x80}},
		{.dlid = 7, .sl = 1, .dgid = {[7] = 1}},
		{.dlid = 7, .sl = 1, .dgid = {[8] = 1}},
		{.dlid = 7, .sl = 1, .dgid = {[15] = 1}},
		{.dlid = 7, .sl = 1},
	};
	uint64_t before = count()->asked;

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		WANT(verbs_ah_find(w, &all[i], grh));
	return (unsigned)(count()->asked - before);
}

/* This worker's link is InfiniBand: what does not matter without a GRH makes no other handle. */
static void handles_of_infiniband(void)
{
	struct ib_ah a = {.dlid = 7, .sl = 1, .hop_limit = 3}, b = {.dlid = 7, .sl = 1, .tclass = 9};

	WANT(verbs_ah_find(w, &a, false) == verbs_ah_find(w, &b, false));
	WANT(verbs_ah_find(w, &a, true) != verbs_ah_find(w, &b, true));
	WANT(handles_for(false) == 2); /* one of the three is there */
	WANT(handles_for(true) == 11);
}

/* On Ethernet there is always a GRH, and no LID. */
static void handles_of_ethernet(void)
{
	WANT(handles_for(false) == 10 && handles_for(true) == 0);
}

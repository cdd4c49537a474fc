/* SPDX-License-Identifier: Apache-2.0 */
#include "unknown.h"

#include <rte_cycles.h>

/* A key is asked for once in a slice of time, 0.1 s: management itself asks for it once in some seconds. */
enum { SLICES_PER_SECOND = 10 };

static bool may_ask(struct worker *w, enum punt kind, const struct table_key *k, struct punter from)
{
	struct asked *a = &w->asked[kind == PUNT_SOURCE ? IB_TO_ROCE : ROCE_TO_IB];
	uint64_t now = rte_rdtsc(), addr[2];
	memcpy(addr, k->addr, sizeof addr);
	uint64_t what = addr[0] ^ addr[1] ^ k->number;
	if (now - a->since >= rte_get_tsc_hz() / SLICES_PER_SECOND)
		*a = (struct asked){.since = now};
	for (unsigned i = 0; i < a->n; i++)
		if (a->what[i] == what)
			return false;
	if (a->of[from.host] >= ASKED_MOST - a->n || !punt_has_room(w, from))
		return false;
	a->of[from.host]++;
	a->what[a->n++] = what;
	return true;
}

void free_or_ask(struct worker *w, enum punt kind, const struct table_key *k, struct punter from, struct rte_mbuf *m)
{
	if (may_ask(w, kind, k, from)) {
		rte_pktmbuf_reset(m);
		memcpy(rte_pktmbuf_append(m, sizeof *k), k, sizeof *k);
		if (punt(w, m, kind, from))
			return;
	}
	rte_pktmbuf_free(m);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "unknown.h"

#include <rte_cycles.h>

/* A key is asked for once in a slice of time, 0.1 s: management itself asks for it once in some seconds. */
enum { SLICES_PER_SECOND = 10 };

static bool may_ask(struct worker *w, const struct table_key *k, struct punter from)
{
	uint64_t now = rte_rdtsc(), addr[2];
	memcpy(addr, k->addr, sizeof addr);
	uint64_t what = addr[0] ^ addr[1] ^ k->number;
	if (now - w->asked.since >= rte_get_tsc_hz() / SLICES_PER_SECOND) {
		w->asked.since = now;
		w->asked.n = 0;
		memset(w->asked.of, 0, sizeof w->asked.of);
	}
	for (unsigned i = 0; i < w->asked.n; i++)
		if (w->asked.what[i] == what)
			return false;
	if (w->asked.of[from.host] >= ASKED_MOST - w->asked.n || !punt_has_room(w, from))
		return false;
	w->asked.of[from.host]++;
	w->asked.what[w->asked.n++] = what;
	return true;
}

void free_or_ask(struct worker *w, enum punt kind, const struct table_key *k, struct punter from, struct rte_mbuf *m)
{
	if (may_ask(w, k, from)) {
		rte_pktmbuf_reset(m);
		memcpy(rte_pktmbuf_append(m, sizeof *k), k, sizeof *k);
		if (punt(w, m, kind, from))
			return;
	}
	rte_pktmbuf_free(m);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "lines.h"

#include <rte_rcu_qsbr.h>
#include <rte_ring.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../lcore/setup.h"

struct line_probe {
	struct datapath datapath;
	unsigned n, max_groups;
	struct worker *worker[MAX_WORKERS];
};

struct line_probe *line_probe_new(struct tables *t, unsigned n, unsigned max_groups)
{
	struct line_probe *p = calloc(1, sizeof *p);
	if (!p || n > MAX_WORKERS)
		return NULL;
	p->datapath.tables = t;
	p->max_groups = max_groups;
	for (; p->n < n; p->n++) {
		p->worker[p->n] = worker_new(&p->datapath, NULL, (uint16_t)p->n, 0, 0, max_groups, 4095, SOCKET_ID_ANY);
		if (!p->worker[p->n]) {
			line_probe_free(p);
			return NULL;
		}
	}
	return p;
}

void line_probe_free(struct line_probe *p)
{
	unsigned left;
	for (unsigned i = 0; i < p->n; i++)
		worker_free(p->worker[i], &left);
	free(p);
}

static struct range range(enum writer writer, const char *what, const volatile void *at, size_t len)
{
	struct range r = {.at = (uint64_t)(uintptr_t)at, .len = len, .writer = writer};
	snprintf(r.what, sizeof r.what, "%s", what);
	return r;
}

/* A ring's producer writes its own words and the slots, the consumer its own words. */
static struct range *add_ring(struct range *out, const char *what, const struct rte_ring *r, enum writer producer,
			      enum writer consumer)
{
	char name[LINES_NAME];
	snprintf(name, sizeof name, "%s ring's producer", what);
	*out++ = range(producer, name, &r->prod, sizeof r->prod);
	snprintf(name, sizeof name, "%s ring's slots", what);
	*out++ = range(producer, name, r + 1, r->size * sizeof(void *));
	snprintf(name, sizeof name, "%s ring's consumer", what);
	*out++ = range(consumer, name, &r->cons, sizeof r->cons);
	return out;
}

unsigned line_probe_ranges(const struct line_probe *p, unsigned worker, struct range *out)
{
	const struct worker *w = p->worker[worker];
	struct range *next = out;
	*next++ = range(BY_WORKER, "psn", w->psn, sizeof w->psn);
	*next++ = range(BY_WORKER, "counters", &w->counters, sizeof w->counters);
	*next++ = range(BY_WORKER, "the rest of struct worker", w, sizeof *w);
	*next++ = range(BY_WORKER, "groups", w->groups, p->max_groups * sizeof *w->groups);
	*next++ = range(BY_WORKER, "rcu", &p->datapath.tables->rcu->qsbr_cnt[worker],
			sizeof p->datapath.tables->rcu->qsbr_cnt[0]);
	next = add_ring(next, "punt", w->punt, BY_WORKER, BY_MANAGEMENT);
	next = add_ring(next, "requeue", w->requeue, BY_OTHERS, BY_WORKER);
	next = add_ring(next, "send", w->send, BY_MANAGEMENT, BY_WORKER);
	return (unsigned)(next - out);
}

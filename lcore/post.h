/* SPDX-License-Identifier: Apache-2.0 */
/* The last stage towards InfiniBand: the port takes the packets. */
#ifndef CAUSEWAY_POST_H
#define CAUSEWAY_POST_H

#include "burst.h"
#include "send.h"

static inline void count_groups(struct worker *w, const struct burst *b, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (!b->lookup.to_group[i])
			continue;
		struct group_counters *c = &w->groups[((const struct group_entry *)b->lookup.to_entry[i])->id];
		COUNT(c->packets[ROCE_TO_IB], 1);
		COUNT(c->bytes[ROCE_TO_IB], b->trim[i].payload_len);
	}
}

static inline void read_stamps(const struct burst *b, uint32_t *stamp)
{
	for (unsigned i = 0; i < b->n; i++)
		stamp[i] = b->send[i].mbuf->hash.fdir.hi;
}

/* Counts by port what is sent, before it is: who takes an mbuf frees it. How many are not taken is known only then. */
static __rte_noinline void count_ports(struct worker *w, const struct burst *b, unsigned from, int64_t sign)
{
	for (unsigned i = from; i < b->n; i++) {
		struct direction_counters *c = counters_of(w, ROCE_TO_IB, b->send[i].mbuf);
		c->sent += (uint64_t)sign;
		c->sent_bytes += (uint64_t)(sign * b->trim[i].payload_len);
	}
}

/* Drops all packets of a burst instead. */
static __rte_noinline void drop_sends(struct worker *w, struct burst *b, enum drop d)
{
	for (unsigned i = 0; i < b->n; i++) {
		untrim(b, i);
		drop_packet(w, ROCE_TO_IB, d, b->send[i].mbuf);
	}
}

static inline void post(struct worker *w, struct burst *b)
{
	struct direction_counters *c = &w->counters.direction[ROCE_TO_IB];
	uint64_t bytes = b->bytes;
	uint32_t stamp[BURST];
	if (unlikely(b->began == LATENCY_WAITED))
		read_stamps(b, stamp);
	if (mirroring(w))
		mirror_stage_sends(w, b);
	if (several_ports(w))
		count_ports(w, b, 0, 1);
	unsigned taken = w->ib_port->post(w->ib_port->self, b->send, b->n);
	if (mirroring(w))
		mirror_taken(w, taken);
	if (unlikely(b->began == LATENCY_WAITED))
		latency_waited(&w->latency[ROCE_TO_IB], stamp, taken);
	else
		latency_end(&w->latency[ROCE_TO_IB], b->began, taken);
	if (several_ports(w))
		count_ports(w, b, taken, -1);
	for (unsigned i = taken; i < b->n; i++) {
		bytes -= b->trim[i].payload_len;
		untrim(b, i);
		drop_packet(w, ROCE_TO_IB, DROP_ib_full, b->send[i].mbuf);
	}
	COUNT(c->sent, taken);
	COUNT(c->sent_bytes, bytes);
	if (b->lookup.groups)
		count_groups(w, b, taken);
}

#endif

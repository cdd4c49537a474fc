/* SPDX-License-Identifier: Apache-2.0 */
/* The last stage towards Ethernet: the port, or each of several, takes its frames. */
#ifndef CAUSEWAY_TRANSMIT_H
#define CAUSEWAY_TRANSMIT_H

#include <rte_ethdev.h>

#include "egress.h"
#include "lease.h"

/* Messages whose frames are written. */
struct departure {
	struct message *message;
	struct rte_mbuf **mbuf; /* of each message */
	bool *to_group;         /* of each message; NULL: none is */
	unsigned n;
	uint64_t bytes; /* of payload */
	uint64_t began; /* probe/latency.h */
};

/* Retries a full transmit queue a few times: the port may be freeing descriptors. */
static inline unsigned transmit_some(const struct worker *w, unsigned port, struct rte_mbuf **m, unsigned n)
{
	enum { TRIES = 4 };
	unsigned sent = 0;
	for (int i = 0; i < TRIES && sent < n; i++)
		sent += rte_eth_tx_burst(w->port[port], w->queue, m + sent, (uint16_t)(n - sent));
	return sent;
}

static inline void count_sent_groups(struct worker *w, const struct departure *d, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (!d->to_group[i])
			continue;
		struct group_counters *c = &w->groups[d->message[i].group];
		COUNT(c->packets[IB_TO_ROCE], 1);
		COUNT(c->bytes[IB_TO_ROCE], d->message[i].payload_len);
	}
}

/* Gives all to a port. */
static inline void transmit_by(struct worker *w, unsigned port, const struct departure *d)
{
	struct direction_counters *c = &w->counters.direction[IB_TO_ROCE];
	uint64_t bytes = d->bytes;
	if (mirroring(w))
		mirror_stage(w, MIRROR_SENT, IB_TO_ROCE, PASS, d->mbuf, d->n);
	unsigned sent = transmit_some(w, port, d->mbuf, d->n);
	if (mirroring(w))
		mirror_taken(w, sent);
	latency_end(&w->latency[IB_TO_ROCE], d->began, sent);
	for (unsigned i = sent; i < d->n; i++) {
		bytes -= d->message[i].payload_len;
		drop_packet(w, IB_TO_ROCE, DROP_eth_full, d->mbuf[i]);
	}
	COUNT(c->sent, sent);
	COUNT(c->sent_bytes, bytes);
	if (several_ports(w)) {
		struct direction_counters *own = &w->by_port[port].direction[IB_TO_ROCE];
		own->received += d->n;
		own->sent += sent;
		own->sent_bytes += bytes;
	}
	if (d->to_group)
		count_sent_groups(w, d, sent);
}

/* Drops all, because the bridge has no lease. */
void transmit_none(struct worker *w, const struct departure *d);

/* Gives each of several ports what is for it, in order. */
void transmit_split(struct worker *w, const struct departure *d);

static inline void transmit(struct worker *w, const struct departure *d)
{
	if (unlikely(lease_ended(w)))
		transmit_none(w, d);
	else if (several_ports(w))
		transmit_split(w, d);
	else
		transmit_by(w, 0, d);
}

#endif

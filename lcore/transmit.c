/* SPDX-License-Identifier: Apache-2.0 */
#include "transmit.h"

void transmit_none(struct worker *w, const struct departure *d)
{
	for (unsigned i = 0; i < d->n; i++)
		drop_packet(w, IB_TO_ROCE, DROP_lease_ended, d->mbuf[i]);
}

/* Drops what is for a port that is gone. Its segments have gone before, so that this is what a table still led to. */
static void refuse(struct worker *w, unsigned port, const struct departure *d)
{
	w->by_port[port].direction[IB_TO_ROCE].received += d->n;
	for (unsigned i = 0; i < d->n; i++)
		drop_packet(w, IB_TO_ROCE, DROP_eth_full, d->mbuf[i]);
}

static void transmit_or_refuse(struct worker *w, unsigned port, const struct departure *d)
{
	if (likely(polls_port(w, port)))
		transmit_by(w, port, d);
	else
		refuse(w, port, d);
}

/* The ports of all messages, as a set. */
static unsigned ports_of_messages(const struct worker *w, const struct departure *d)
{
	unsigned ports = 0;
	for (unsigned i = 0; i < d->n; i++)
		ports |= 1u << port_index(w->datapath, d->mbuf[i]);
	return ports;
}

void transmit_split(struct worker *w, const struct departure *d)
{
	unsigned ports = ports_of_messages(w, d);
	if (likely((ports & (ports - 1)) == 0)) {
		transmit_or_refuse(w, first_port(ports), d);
		return;
	}
	for (; ports; ports &= ports - 1) {
		unsigned port = first_port(ports);
		struct message message[BURST];
		struct rte_mbuf *mbuf[BURST];
		bool to_group[BURST];
		struct departure own = {message, mbuf, d->to_group ? to_group : NULL, 0, 0, d->began};
		for (unsigned i = 0; i < d->n; i++) {
			if (port_index(w->datapath, d->mbuf[i]) != port)
				continue;
			if (d->to_group)
				to_group[own.n] = d->to_group[i];
			mbuf[own.n] = d->mbuf[i];
			own.bytes += d->message[i].payload_len;
			message[own.n++] = d->message[i];
		}
		transmit_or_refuse(w, port, &own);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How frames come from a worker's Ethernet ports and go to them, and what is counted of several. */
#ifndef CAUSEWAY_PORTS_H
#define CAUSEWAY_PORTS_H

#include <rte_ethdev.h>

#include "segment.h"

/* Whether there are several ports. */
static inline bool several_ports(const struct worker *w)
{
	return unlikely(w->datapath->ports > 1);
}

/* Receives from the worker's queue of a port. Frames of several ports say from then on which they came by. */
static inline unsigned receive_frames(const struct worker *w, unsigned port, struct rte_mbuf **m, unsigned n)
{
	n = rte_eth_rx_burst(w->port[port], w->queue, m, (uint16_t)n);
	if (several_ports(w))
		for (unsigned i = 0; i < n; i++)
			m[i]->port = (uint16_t)port;
	return n;
}

/* What is counted of the port of a frame; there are several. */
static inline struct direction_counters *counters_of(struct worker *w, enum direction d, const struct rte_mbuf *m)
{
	return &w->by_port[port_index(w->datapath, m)].direction[d];
}

#endif

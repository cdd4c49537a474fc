/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How frames come from a worker's Ethernet ports and go to them, and what is counted of several. Ports come and go
 * while workers run:
 *
 *   comes   PORTS_SEVERAL ▶ grace period: each mbuf says its port from now on ▶ port_mask, the index
 *   goes    the index ▶ grace period: no worker touches the port any more ▶ it is stopped
 *
 * Each worker takes a change over between two bursts, so that during one nothing changes.
 */
#ifndef CAUSEWAY_PORTS_H
#define CAUSEWAY_PORTS_H

#include <rte_ethdev.h>

#include "segment.h"

/* Whether there are several ports. */
static inline bool several_ports(const struct worker *w)
{
	return unlikely(w->ports > ONLY_PORT);
}

/* The lowest index in a set of ports, which is not empty. */
static inline unsigned first_port(unsigned ports)
{
	return (unsigned)__builtin_ctz(ports);
}

/* Whether the worker polls a port; of one that is gone nothing can be sent. */
static inline bool polls_port(const struct worker *w, unsigned port)
{
	return w->ports >> port & 1;
}

/* Polls other ports from now on, if management wants that. Between two bursts. */
void ports_change(struct worker *w);

static inline void ports_update(struct worker *w)
{
	if (unlikely(w->ports != __atomic_load_n(&w->datapath->ports, __ATOMIC_RELAXED)))
		ports_change(w);
}

/* Writes into an mbuf by which port it came, before others than this worker's burst have it: where there is one,
 * drivers have written what they like, and there may be several when the frame is looked at again. */
static inline void keep_port(const struct datapath *dp, struct rte_mbuf *m)
{
	m->port = (uint16_t)port_index(dp, m);
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

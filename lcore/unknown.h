/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes that no table has. Where nodes are learned, management is asked for them when a packet is dropped because of
 * one: the packet itself, which is counted as dropped, carries the key of the look-up that failed to management.
 */
#ifndef CAUSEWAY_UNKNOWN_H
#define CAUSEWAY_UNKNOWN_H

#include "burst.h"
#include "punt.h"

/* Frees a packet that has been dropped, or gives it to management: once for each key in 0.1 s, and ASKED_MOST
 * keys of a direction at most, of one host no more than are left for others. */
void free_or_ask(struct worker *w, enum punt kind, const struct table_key *k, struct punter from, struct rte_mbuf *m);

/* Whether a drop may be due to a node that is not known yet, or not wholly. */
static inline bool is_unknown(const struct worker *w, enum drop d)
{
	return w->datapath->learn && (d == DROP_node_unknown || d == DROP_node_no_ip);
}

#endif

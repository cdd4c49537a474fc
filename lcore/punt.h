/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker punts, and who gets how much of the punt ring. A ring is filled by whoever sends most; so the room that
 * is left bounds what each class and each host may have on it (Choudhury and Hahne, Dynamic queue length thresholds for
 * shared-memory packet switches, 1998): a class twice what is free, a host as much as is free. One that floods finds
 * the ring full, while there is room for all others. A segment has classes of its own.
 */
#ifndef CAUSEWAY_PUNT_H
#define CAUSEWAY_PUNT_H

#include "burst.h"

/* Who punts: a class of a segment, and a hash of the host within it. */
struct punter {
	uint8_t class; /* enum punt_class, and above it the segment */
	uint8_t host;
};

/* The sender of a control frame, known by its MAC address. */
struct punter control_punter(const struct datapath *dp, struct rte_mbuf *m);

/* Whether a MAC address is that of another bridge, by the subnet administrator's list. */
bool is_bridge_mac(const struct datapath *dp, uint64_t mac);

/* The sender of RoCE data: of the class of hosts if its address is that of one that has shown that it exists, and its
 * MAC address that host's; or if it is another bridge, which has a host's part by its MAC address, whatever its
 * address. */
struct punter data_punter(const struct worker *w, const struct table_key *from, struct rte_mbuf *m);

/* A stranger, known by the key of a look-up. */
struct punter stranger(const struct table_key *k);

/* Whether there is room for another frame. */
bool punt_has_room(const struct worker *w, struct punter from);

/* Puts a frame on the ring, with what management needs to know of it (enum punt); false: there is no room. */
bool punt(struct worker *w, struct rte_mbuf *m, uint32_t what, struct punter from);

/* Management takes frames from the ring. */
unsigned punt_take(struct worker *w, struct rte_mbuf **m, unsigned n);

#endif

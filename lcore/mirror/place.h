/* SPDX-License-Identifier: Apache-2.0 */
/* Which packets are at a filter's place: on its VLAN, of its Ethernet port. Of messages their segments are. */
#ifndef CAUSEWAY_MIRROR_PLACE_H
#define CAUSEWAY_MIRROR_PLACE_H

#include "packet.h"

struct rte_mbuf;

bool is_frame_at(const struct mirror_filter *f, const struct datapath *dp, const struct rte_mbuf *m);

/* The segments at the place, a bit for each, by number. One may come or go at any time. */
unsigned segments_at(const struct mirror_filter *f, const struct datapath *dp);

/* The segments that a received message is for, a bit for each, by its group or queue pair; 0: that is not known. area
 * is the 40 bytes before the payload, or NULL. */
uint8_t segments_of_message(const struct tables *t, uint32_t qpn, const uint8_t *area);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The two ends of a packet, by all names that they have on both fabrics. */
#ifndef CAUSEWAY_SIGHT_ENDS_H
#define CAUSEWAY_SIGHT_ENDS_H

#include "sight.h"

struct ends {
	const struct tables *tables;
	unsigned addresses, qpns;
	uint8_t address[12][16]; /* IP addresses, IPv4-mapped, and GIDs */
	uint32_t qpn[8];
};

/* What a frame says, which may be anything and end anywhere, and what the tables know beyond that. */
void ends_of_frame(struct ends *e, const uint8_t *frame, uint32_t len);

/* A received message: area is the 40 bytes, or NULL. */
void ends_of_message(struct ends *e, const struct sight_ib *ib, const uint8_t *area);

/* A send of the host with this key. */
struct table_key;
void ends_of_send(struct ends *e, const struct sight_ib *ib, const struct table_key *from, const struct table_key *to);

bool ends_have(const struct ends *e, const uint8_t address[16]);
bool ends_have_qpn(const struct ends *e, uint32_t qpn);

#endif

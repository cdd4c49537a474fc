/* SPDX-License-Identifier: Apache-2.0 */
/* The two endpoints of a packet: all their addresses and QPNs on both fabrics. */
#ifndef CAUSEWAY_MIRROR_ENDPOINTS_H
#define CAUSEWAY_MIRROR_ENDPOINTS_H

#include "packet.h"

struct endpoints {
	const struct tables *tables;
	uint64_t from_key; /* of a frame's segment: in the keys of the proxy QPs of its hosts */
	unsigned addresses, qpns;
	uint8_t address[12][16]; /* IP addresses, IPv4-mapped, and GIDs */
	uint32_t qpn[8];
};

/* From the headers of a frame, which may be malformed or truncated, and the tables. */
void endpoints_of_frame(struct endpoints *e, const uint8_t *frame, uint32_t len);

/* A received message: area is the 40 bytes, or NULL. */
void endpoints_of_message(struct endpoints *e, const struct mirror_ib *ib, const uint8_t *area);

/* A send of the host with this key. */
struct table_key;
void endpoints_of_send(struct endpoints *e, const struct mirror_ib *ib, const struct table_key *from,
		       const struct table_key *to);

/* All addresses of what has this one, an IP address or a GID. */
void endpoints_of_address(struct endpoints *e, const uint8_t address[16]);

bool endpoints_have(const struct endpoints *e, const uint8_t address[16]);
bool endpoints_have_qpn(const struct endpoints *e, uint32_t qpn);

#endif

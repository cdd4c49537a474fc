/* SPDX-License-Identifier: Apache-2.0 */
/* A burst on its way from InfiniBand to Ethernet, and what its stages share. */
#ifndef CAUSEWAY_EGRESS_H
#define CAUSEWAY_EGRESS_H

#include "burst.h"
#include "lookup.h"

enum network_header { NO_HEADER, HEADER_GRH, HEADER_IPV4 };

struct message {
	const struct ib_recv *recv;
	uint8_t *payload; /* the 40-byte area lies before it */
	uint8_t header;   /* enum network_header: what is in the area */
	uint16_t payload_len;
	uint32_t group; /* its id, if it goes to one */
};

struct egress {
	unsigned n;
	uint64_t began; /* probe/latency.h */
	struct message message[BURST];
	struct lookup lookup; /* of the node by SGID or SLID; of the stand-in by local QPN, or the group by MGID */
	struct icrc_job icrc[BURST];
};

/* Where a message goes, and as whose. */
struct route {
	const uint8_t *src_ip; /* 16 bytes */
	const struct roce_peer *to;
	uint8_t version;
	bool six; /* goes out as IPv6 */
};

static inline const uint8_t *area_of(const struct message *g)
{
	return g->payload - IB_GRH_LEN;
}

#endif

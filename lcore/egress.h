/* SPDX-License-Identifier: Apache-2.0 */
/* A burst from InfiniBand to Ethernet, and what its stages share. */
#ifndef CAUSEWAY_EGRESS_H
#define CAUSEWAY_EGRESS_H

#include "burst.h"
#include "lookup.h"

enum network_header { NO_HEADER, HEADER_GRH, HEADER_IPV4 };

struct message {
	const struct ib_recv *recv;
	uint8_t *payload; /* follows the 40-byte GRH area */
	uint8_t header;   /* enum network_header: what is in the area */
	uint16_t payload_len;
	uint32_t group; /* its id, of a message to a group */
};

struct egress {
	unsigned n;
	enum origin from;
	uint64_t began; /* probe/latency.h */
	struct message message[BURST];
	struct lookup lookup; /* of the node by SGID or SLID; of the proxy QP by local QPN, or the group by MGID */
	struct icrc_job icrc[BURST];
	struct rte_mbuf *mbuf[BURST]; /* of each message */
};

/* Source and destination of a message on Ethernet. */
struct route {
	const uint8_t *src_ip; /* 16 bytes */
	const struct roce_peer *to;
	const struct segment *segment;
	uint8_t version;
	uint8_t shard; /* of a host */
	bool six;      /* goes out as IPv6 */
	bool group;    /* to a group */
};

static inline const uint8_t *area_of(const struct message *msg)
{
	return msg->payload - IB_GRH_LEN;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A burst on its way from InfiniBand to Ethernet, and what its stages share. */
#ifndef CAUSEWAY_EGRESS_H
#define CAUSEWAY_EGRESS_H

#include "burst.h"

enum network_header { NO_HEADER, HEADER_GRH, HEADER_IPV4 };

struct message {
	struct ib_recv recv;
	const uint8_t *area; /* the 40 bytes before the payload */
	uint8_t header;      /* enum network_header */
	bool multicast;
	bool six; /* goes out as IPv6 */
	uint8_t version;
	uint16_t payload_len;
	uint16_t tci;
	/* look-ups: of the node by SGID or SLID, of the stand-in by local QPN or the group by MGID */
	struct table_key from;
	struct table_key to;
	const struct source_entry *source;
	const void *found; /* struct standin_qp_entry or, for multicast, struct mgid_entry */
	/* where it goes */
	const uint8_t *src_ip; /* 16 bytes */
	const uint8_t *dst_ip;
	uint64_t mac;
	uint32_t dest_qpn;
	uint32_t qkey;
} __attribute__((aligned(64)));

struct egress {
	unsigned n;
	unsigned multicasts; /* of them, those that came to a group */
	struct message message[BURST];
	struct table_step from[BURST], to[BURST]; /* the look-ups' ways */
};

static inline bool is_ipv4(const uint8_t *ip16)
{
	uint64_t hi;
	uint32_t mid;
	memcpy(&hi, ip16, 8);
	memcpy(&mid, ip16 + 8, 4);
	return hi == 0 && mid == 0xffff0000; /* 00 00 ff ff as stored */
}

/* The sum over a 20-byte IPv4 header; 0xffff when its checksum is right, and the complement of the checksum
 * when that field is zero. In the byte order of the header. */
static inline uint32_t ipv4_header_sum(const uint8_t *ip)
{
	uint32_t w[5];
	memcpy(w, ip, sizeof w);
	uint64_t sum = (uint64_t)w[0] + w[1] + w[2] + w[3] + w[4];
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint32_t)((sum & 0xffff) + (sum >> 16));
}

/* The MAC address of a group (RFC 1112 §6.4, RFC 2464 §7; RoCEv1 maps every group as IPv6 does). */
static inline uint64_t group_mac(const uint8_t *ip, uint8_t version)
{
	uint32_t low = be32(ip + 12);
	if (version == ROCE_V2 && is_ipv4(ip))
		return 0x01005e000000 | (low & 0x7fffff);
	return 0x333300000000 | low;
}

#endif

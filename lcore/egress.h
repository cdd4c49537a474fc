/* SPDX-License-Identifier: Apache-2.0 */
/* A burst on its way from InfiniBand to Ethernet, and what its stages share. */
#ifndef CAUSEWAY_EGRESS_H
#define CAUSEWAY_EGRESS_H

#include "burst.h"

enum network_header { NO_HEADER, HEADER_GRH, HEADER_IPV4 };

struct message {
	struct ib_recv recv;
	const uint8_t *area; /* the 40 bytes before the payload */
	enum network_header header;
	bool multicast;
	bool six; /* goes out as IPv6 */
	uint8_t version;
	uint16_t payload_len;
	uint16_t tci;
	struct table_key from; /* SGID or SLID */
	struct table_key to;   /* MGID or local QPN */
	const struct source_entry *source;
	const void *found; /* struct standin_qp_entry or, for multicast, struct mgid_entry */
	/* where it goes */
	const uint8_t *src_ip; /* 16 bytes */
	const uint8_t *dst_ip;
	uint64_t mac;
	uint32_t dest_qpn;
	uint32_t qkey;
};

struct egress {
	unsigned n;
	struct message message[BURST];
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

/* headers.c: writes everything in front of and behind the payload but the ICRC, for which the mbuf has room;
 * returns what the ICRC covers. */
struct icrc_job write_headers(struct worker *w, struct message *g);

#endif

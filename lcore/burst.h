/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A burst on its way from Ethernet to InfiniBand, and what its stages share. Each stage keeps the packets
 * that pass, in order, and accounts for every other one.
 */
#ifndef CAUSEWAY_BURST_H
#define CAUSEWAY_BURST_H

#include <rte_branch_prediction.h>
#include <rte_mbuf.h>

#include "icrc.h"
#include "worker.h"

struct packet {
	struct rte_mbuf *mbuf;
	const uint8_t *net;       /* IPv4, IPv6 or GRH header */
	const uint8_t *transport; /* BTH */
	uint32_t net_len;         /* from net up to the ICRC, bytes */
	enum icrc_kind kind;
	uint32_t flow_label;
	uint8_t tclass;
	uint8_t hop_limit;
	bool multicast;
	bool control_group; /* a link-local group: crosses only if it is configured */
	uint8_t version;    /* ROCE_V1 or ROCE_V2 */
	/* from the transport */
	uint8_t flags; /* IB_SEND_* */
	uint16_t payload_len;
	uint32_t dest_qpn;
	uint32_t src_qpn;
	uint32_t qkey;
	uint32_t imm;
	const uint8_t *payload;
	/* for the look-ups */
	struct table_key dst;
	struct table_key src;
	const struct standin_entry *standin;
	const void *to; /* struct node_entry or struct group_entry */
};

struct burst {
	unsigned n;
	struct packet packet[BURST];
};

static inline uint16_t be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t be32(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, 4);
	return __builtin_bswap32(v);
}

/* A MAC address as a number, first byte highest. Reads 8 bytes. */
static inline uint64_t mac48(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, 8);
	return __builtin_bswap64(v) >> 16;
}

/* Counts a packet out and frees it. */
static inline void drop_packet(struct worker *w, enum direction d, enum drop reason, struct rte_mbuf *m)
{
	w->counters.direction[d].drops[reason]++;
	rte_pktmbuf_free(m);
}

/* parse.c: Ethernet to UDP. Sets what the ICRC check needs. ODD says that the frame is management's. */
enum { ODD = DROP_COUNT };
unsigned parse(const struct bench *b, struct rte_mbuf *m, struct packet *p);

/* transport.c: BTH, DETH and immediate. Called only when the ICRC is right. */
enum drop transport(const struct bench *b, struct packet *p);

/* Counts what is remarkable about a packet that passed transport(). */
void take_notes(struct worker *w, const struct packet *p);

#endif

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
	const uint8_t *payload;
	uint32_t flow_label;
	uint32_t dest_qpn;
	uint32_t qkey;
	uint32_t imm;
	uint16_t payload_len;
	uint8_t flags; /* IB_SEND_* */
	uint8_t tclass;
	uint8_t hop_limit;
	bool multicast;
	bool plain;         /* seen by plain.h, transport included; else by parse.c, and then what follows is valid */
	bool control_group; /* a link-local group: crosses only if it is configured */
	uint32_t transport_len;   /* from the BTH up to the ICRC, bytes */
	const uint8_t *transport; /* BTH */
	/* look-ups: of the stand-in by source address and QPN, of the node or group by destination address */
	struct table_key from;
	struct table_key to;
	const struct standin_entry *standin;
	const void *found; /* struct node_entry or struct group_entry */
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct packet) == 128, "two cache lines");

struct burst {
	unsigned n;
	unsigned multicasts; /* of them, those that go to a group */
	bool plain;          /* all are */
	struct packet packet[BURST];
	struct icrc_job icrc[BURST];
	struct table_step from[BURST], to[BURST]; /* the look-ups' ways */
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

/* The key of an IPv4 address, IPv4-mapped. In words, as which it is loaded again. */
static inline void key_ipv4(struct table_key *k, uint32_t ip4)
{
	uint64_t words[2] = {0, (uint64_t)ip4 << 32 | 0xffff0000};
	memcpy(k->addr, words, sizeof words);
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

/* parse.c: Ethernet to UDP. Sets what the ICRC check and the look-ups need. ODD says that the frame is management's. */
enum { ODD = DROP_COUNT };
unsigned parse(const struct bench *b, struct rte_mbuf *m, struct packet *p, struct icrc_job *icrc);

/* transport.c: BTH, DETH and immediate. Called only when the ICRC is right. */
enum drop transport(const struct bench *b, struct packet *p);

/* Counts what is remarkable about a packet that passed transport(). */
void take_notes(struct worker *w, const struct packet *p);

#endif

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
#include "lookup.h"
#include "sight/sight.h"
#include "words.h"
#include "worker.h"

/* A packet that parse.c has taken apart. */
struct packet {
	struct rte_mbuf *mbuf;
	const uint8_t *payload;
	const uint8_t *transport; /* BTH */
	uint32_t transport_len;   /* from the BTH up to the ICRC, bytes */
	uint32_t flow_label;
	uint32_t dest_qpn;
	uint32_t qkey;
	uint32_t imm;
	uint16_t payload_len;
	uint8_t flags; /* IB_SEND_* */
	uint8_t tclass;
	uint8_t hop_limit;
	bool multicast;
	bool control_group;    /* a link-local group: crosses only if it is configured */
	struct table_key from; /* source address and QPN */
	struct table_key to;   /* destination address */
};

/* What of a frame crosses. */
struct cut {
	uint16_t headers; /* bytes of the frame before the payload */
	uint16_t payload_len;
	bool plain; /* seen by plain.h, transport included; else by parse.c, which filled in other[] */
};

/* Packets for other workers. */
struct aside {
	unsigned n;
	uint16_t worker[BURST];
	struct rte_mbuf *mbuf[BURST];
};

struct burst {
	unsigned n;
	uint64_t began; /* probe/latency.h */
	bool plain;     /* all are */
	struct ib_send send[BURST];
	struct cut cut[BURST];
	struct icrc_job icrc[BURST];
	struct lookup
		lookup; /* of the stand-in by source address and QPN, of the node or group by destination address */
	struct packet other[BURST]; /* of those that are not plain */
	struct aside aside;
};

/* The key of an IPv4 address, IPv4-mapped. In words, as which it is loaded again. */
static inline void key_ipv4(struct table_key *k, uint32_t ip4)
{
	uint64_t words[2] = {0, (uint64_t)ip4 << 32 | 0xffff0000};
	memcpy(k->addr, words, sizeof words);
}

/* Whether somebody watches this worker. */
static inline bool watched(const struct worker *w)
{
	return unlikely(__atomic_load_n(&w->sights, __ATOMIC_RELAXED) != NULL);
}

/* Counts a packet out and frees it. */
static inline void drop_packet(struct worker *w, enum direction d, enum drop reason, struct rte_mbuf *m)
{
	w->counters.direction[d].drops[reason]++;
	if (watched(w))
		sight_drop(w, d, reason, m);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* What the generator sends, and what must come of it. Go fills these before a trial. */
#ifndef CAUSEWAY_GEN_FLOW_H
#define CAUSEWAY_GEN_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "ibside/door.h"
#include "lcore/icrc.h"
#include "stamp.h"

enum {
	GEN_HEAD = 96, /* room for all before the payload: Ethernet, 802.1Q, IPv6, UDP, BTH, DETH, ImmDt are 90 */
	GEN_MAX_PAYLOAD = 4096, /* InfiniBand's largest MTU */
	GEN_PAYLOAD_AT = 192,   /* of every payload within its mbuf's buffer, so that what lies there can stay */
};

enum gen_side { GEN_ROCE, GEN_IB, GEN_SIDES };

/*
 * A payload length. All payloads of a length are the same behind their stamps, so the ICRC of a frame is a
 * combination: that of its first bytes, moved over the rest, and the constant one of the rest (CRCs are linear).
 *
 *   crc(first || rest) = move(crc(first)) ^ crc(rest)
 */
struct gen_size {
	uint32_t len;
	uint32_t pad;          /* to whole words */
	uint32_t rest;         /* crc(rest): filler and pad */
	uint32_t move[4][256]; /* by byte of crc(first), lowest first */
};

/* How a message must arrive. */
struct gen_want {
	uint8_t addr[16]; /* at IB the DGID; at RoCE the destination IP, IPv4-mapped */
	uint32_t qpn;     /* destination */
	uint32_t qkey;
	uint32_t src;   /* at IB the door's handle of the sending QP; at RoCE the source QPN */
	uint16_t lid;   /* at IB */
	uint8_t side;   /* enum gen_side */
	bool as_is;     /* a mirror sends it back: its headers are the mirror's business */
	uint8_t mac[6]; /* at RoCE */
};

struct gen_flow {
	uint8_t head[GEN_HEAD]; /* all before the payload: at IB the 40-byte area */
	uint16_t head_len;
	uint16_t net; /* of the network header in head */
	uint16_t bth; /* of the BTH in head */
	uint8_t icrc; /* enum icrc_kind */
	uint8_t from; /* enum gen_side */
	uint32_t id;
	const struct gen_size *size;
	struct ib_recv recv; /* from IB: what the door says with it */
	struct gen_want want;
	uint64_t next_seq;
} __attribute__((aligned(64)));

/* What has arrived of a flow, written by the receiver. The window has a bit for each of the last 64 numbers below
 * expect, the lowest bit for expect - 1. */
struct gen_seen {
	uint64_t expect;
	uint64_t window;
	uint64_t first, last; /* time-stamp counter at arrival; 0: nothing came */
	uint64_t packets;
};

/* Of a RoCE flow. */
static inline uint32_t gen_frame_len(const struct gen_flow *f)
{
	return f->head_len + f->size->len + f->size->pad + 4;
}

static inline uint32_t gen_move(const struct gen_size *s, uint32_t crc)
{
	return s->move[0][crc & 255] ^ s->move[1][crc >> 8 & 255] ^ s->move[2][crc >> 16 & 255] ^ s->move[3][crc >> 24];
}

#endif

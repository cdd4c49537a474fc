/* SPDX-License-Identifier: Apache-2.0 */
/* What the generator sends, and what must come of it. Go fills these before a trial. */
#ifndef CAUSEWAY_GEN_FLOW_H
#define CAUSEWAY_GEN_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "../../ibside/port.h"
#include "../../ibside/stamp/stamp.h"
#include "../../lcore/icrc.h"

enum {
	GEN_HEAD =
		96, /* room for all headers before the payload: Ethernet, 802.1Q, IPv6, UDP, BTH, DETH, ImmDt are 90 */
	GEN_MAX_PAYLOAD = 4096, /* InfiniBand's largest MTU */
	GEN_PAYLOAD_AT = 192,   /* offset of every payload in its mbuf's buffer, so that the filler there can stay */
};

enum gen_side { GEN_ROCE, GEN_IB, GEN_SIDES };

/*
 * A payload length. All payloads of a length are equal after the stamp, so the ICRC of a frame is a combination of the
 * CRC of its first bytes, moved over the rest, and the constant CRC of the rest (CRCs are linear).
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
	uint8_t addr[16]; /* IB: DGID; RoCE: destination IP address, IPv4-mapped */
	uint32_t qpn;     /* destination */
	uint32_t qkey;
	uint32_t src;   /* IB: the port's handle of the sending QP; RoCE: source QPN */
	uint16_t lid;   /* at IB */
	uint8_t side;   /* enum gen_side */
	bool unchanged; /* it comes back as it was sent: headers are not compared */
	uint8_t mac[6]; /* at RoCE */
};

struct gen_flow {
	uint8_t head[GEN_HEAD]; /* all headers before the payload; IB: the 40-byte GRH area */
	uint16_t head_len;
	uint16_t net; /* offset of the network header in head */
	uint16_t bth; /* offset of the BTH in head */
	uint8_t icrc; /* enum icrc_kind */
	uint8_t from; /* enum gen_side */
	uint32_t id;
	const struct gen_size *size;
	struct ib_recv recv; /* from IB: its metadata */
	struct gen_want want;
	uint64_t next_seq;
} __attribute__((aligned(64)));

/* What has arrived of a flow, written by the receiver. The window has a bit for each of the last 64 sequence numbers
 * below expect, the lowest bit for expect - 1. */
struct gen_seen {
	uint64_t expect;
	uint64_t window;
	uint64_t first, last; /* time-stamp counter at arrival; 0: nothing arrived */
	uint64_t packets;
};

/* For RoCE flows. */
static inline uint32_t gen_frame_len(const struct gen_flow *f)
{
	return f->head_len + f->size->len + f->size->pad + 4;
}

static inline uint32_t gen_move(const struct gen_size *s, uint32_t crc)
{
	return s->move[0][crc & 255] ^ s->move[1][crc >> 8 & 255] ^ s->move[2][crc >> 16 & 255] ^ s->move[3][crc >> 24];
}

#endif

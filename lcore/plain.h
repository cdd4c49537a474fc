/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RoCEv2 with nothing unusual about it, which is nearly all that comes, is known at a glance: headers are compared 16
 * bytes at a time with what they must be where they must be something.
 *
 * A packet that passes here, whose ICRC is right, and whose look-ups find what they look for, is as good as one that
 * has come through parse.c and transport.c. Addresses that nobody can have are not looked for here: no table has them.
 * Any other packet goes the long way, there and then or when it is about to be dropped, which names what is wrong with
 * it.
 *
 * Words are as they lie in the frame, and little-endian.
 */
#ifndef CAUSEWAY_PLAIN_H
#define CAUSEWAY_PLAIN_H

#include <smmintrin.h>

#include "burst.h"

enum {
	PLAIN_IPV4 = 20,
	PLAIN_IPV6 = 40,
	PLAIN_UD = 8 + 12 + 8,    /* UDP, BTH, DETH */
	PLAIN_MIN = PLAIN_UD + 4, /* and the ICRC */
};

static inline __m128i load128(const uint8_t *p)
{
	return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* What differs from the type where the mask is set. */
static inline __m128i unlike(const uint8_t *p, const struct plain_type *t)
{
	const __m128i *words = (const __m128i *)(const void *)t;
	return _mm_xor_si128(_mm_and_si128(load128(p), _mm_load_si128(&words[0])), _mm_load_si128(&words[1]));
}

/* Not zero unless the frame is from a station, with the right tag or none, and of this EtherType. */
static inline uint64_t wrong_ethernet(const struct bench *b, const uint8_t *eth, uint64_t type)
{
	uint64_t src = load64(eth + 4) >> 16;
	return ((load64(eth + b->l2_len - 8) & b->l2_mask) ^ type) | (src == 0) | (src == b->plain_mac);
}

/* The sum of the header's words is a multiple of 0xffff when its checksum is right; and multiples of an odd number are
 * those that its inverse makes small. */
static inline bool plain_checksum(const uint8_t *ip)
{
	const uint64_t inverse = UINT64_C(0xfffefffefffeffff); /* of 0xffff, modulo 2^64 */
	uint64_t a = load64(ip), c = load64(ip + 8),
		 sum = (uint32_t)a + (a >> 32) + (uint32_t)c + (c >> 32) + load32(ip + 16);
	return sum * inverse <= UINT64_MAX / 0xffff;
}

/* Where plain() puts what it finds. */
struct plain_place {
	struct ib_send *send;
	struct cut *cut;
	struct icrc_job *icrc;
	struct table_key *from, *to;
	bool *to_group;
};

/* BTH, DETH and immediate data; at is how far the UDP header lies from the first byte of the frame, len is from there
 * to behind the ICRC. */
static inline bool plain_transport(const struct plain_place *p, const uint8_t *eth, uint32_t at, uint32_t len,
				   bool group, bool congestion)
{
	const uint8_t *bth = eth + at + 8;
	uint32_t imm = bth[0] & 1, headers = 20 + 4 * imm, dest = be32(bth + 4) & 0xffffff;
	int32_t payload = (int32_t)(len - (8 + 4) - headers - (bth[1] >> 4 & 3));
	struct ib_send *s = p->send;
	s->dest_qpn = dest;
	s->dest_qkey = be32(bth + 12);
	s->imm = imm ? be32(bth + 20) : 0;
	s->flags = (uint16_t)(imm | (bth[1] >> 6 & 2) | congestion << 3);
	p->cut->headers = (uint16_t)(at + 8 + headers);
	p->cut->payload_len = (uint16_t)payload;
	p->cut->plain = true;
	p->from->number = be32(bth + 16) & 0xffffff;
	p->to->number = 0;
	*p->to_group = group;
	return (payload >= 0) & (dest >= 2) & (group == (dest == 0xffffff));
}

_Static_assert(IB_SEND_IMM == 1 && IB_SEND_SOLICITED == 2 && IB_SEND_FECN == 8, "plain_transport makes them so");

static inline bool plain_ipv4(const struct bench *b, const uint8_t *eth, uint32_t room, const struct plain_place *p)
{
	const uint8_t *ip = eth + b->l2_len, *udp = ip + PLAIN_IPV4;
	uint32_t dst = load32(ip + 16), total = be16(ip + 2);
	bool group = (dst & 0xf0) == 0xe0;
	__m128i bad = _mm_or_si128(
		_mm_or_si128(unlike(ip, &b->plain_ipv4), unlike(udp, &b->plain_udp)),
		_mm_or_si128(unlike(udp + 16, &b->plain_deth), unlike(eth, group ? &b->plain_group4 : &b->plain_own)));
	uint64_t wrong = wrong_ethernet(b, eth, b->l2_ipv4) | total % 4 | (be16(udp + 4) ^ (total - PLAIN_IPV4)) |
			 (ip[8] == 0) | (total - (PLAIN_IPV4 + PLAIN_MIN) > room - (PLAIN_IPV4 + PLAIN_MIN));
	if (unlikely(!_mm_testz_si128(bad, bad) || wrong || !plain_checksum(ip)))
		return false;
	p->send->ah.tclass = ip[1];
	p->send->ah.hop_limit = ip[8];
	p->send->ah.flow_label = 0;
	key_ipv4(p->from, load32(ip + 12));
	key_ipv4(p->to, dst);
	*p->icrc = (struct icrc_job){.p = ip, .len = total - 4, .kind = ICRC_IPV4};
	return plain_transport(p, eth, b->l2_len + PLAIN_IPV4, total - PLAIN_IPV4, group, (ip[1] & 3) == 3);
}

/* Addresses without a prefix are IPv4-mapped or nobody's. */
static inline bool plain_ipv6(const struct bench *b, const uint8_t *eth, uint32_t room, const struct plain_place *p)
{
	const uint8_t *ip = eth + b->l2_len, *udp = ip + PLAIN_IPV6;
	if (unlikely(room < PLAIN_IPV6 + PLAIN_MIN))
		return false;
	bool group = ip[24] == 0xff;
	__m128i bad = _mm_or_si128(_mm_or_si128(unlike(udp, &b->plain_udp), unlike(udp + 16, &b->plain_deth)),
				   unlike(eth, group ? &b->plain_group6 : &b->plain_own));
	uint32_t len = be16(ip + 4);
	uint64_t wrong = wrong_ethernet(b, eth, b->l2_ipv6) | len % 4 | (be16(udp + 4) ^ len) | (ip[7] == 0) |
			 (load64(ip + 8) == 0) | (load64(ip + 24) == 0) |
			 ((load64(ip) & UINT64_C(0x00ff0000000000f0)) ^ UINT64_C(0x0011000000000060)) |
			 (len - PLAIN_MIN > room - (PLAIN_IPV6 + PLAIN_MIN));
	if (unlikely(!_mm_testz_si128(bad, bad) || wrong))
		return false;
	p->send->ah.tclass = (uint8_t)(be16(ip) >> 4);
	p->send->ah.hop_limit = ip[7];
	p->send->ah.flow_label = be32(ip) & 0xfffff;
	memcpy(p->from->addr, ip + 8, 16);
	memcpy(p->to->addr, ip + 24, 16);
	*p->icrc = (struct icrc_job){.p = ip, .len = PLAIN_IPV6 + len - 4, .kind = ICRC_IPV6};
	return plain_transport(p, eth, b->l2_len + PLAIN_IPV6, len, group, (ip[1] >> 4 & 3) == 3);
}

/* Whether the frame is plain; then it takes place i of the burst. */
static inline bool plain(const struct bench *b, struct rte_mbuf *m, struct burst *u, unsigned i)
{
	const uint8_t *eth = rte_pktmbuf_mtod(m, const uint8_t *);
	const struct plain_place p = {.send = &u->send[i],
				      .cut = &u->cut[i],
				      .icrc = &u->icrc[i],
				      .from = &u->lookup.from[i],
				      .to = &u->lookup.to[i],
				      .to_group = &u->lookup.to_group[i]};
	p.send->mbuf = m;
	if (unlikely(m->data_len < b->l2_len + PLAIN_IPV4 + PLAIN_MIN || m->nb_segs != 1))
		return false;
	uint32_t room = m->data_len - b->l2_len;
	return eth[b->l2_len] == 0x45 ? plain_ipv4(b, eth, room, &p) : plain_ipv6(b, eth, room, &p);
}

#endif

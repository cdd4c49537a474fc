/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast path: parses usual RoCEv2 packets, which are nearly all, by comparing headers 16 bytes at a time with
 * prepared patterns (prepare.c).
 *
 * A packet that passes here, has a right ICRC and is found in the tables would also pass parse.c and transport.c.
 * Invalid addresses are not checked here: no table has those of IP, and is_from() looks at Ethernet's. All other
 * packets are parsed by parse.c, at once or when they are about to be dropped, which finds the drop reason.
 *
 * Words are in the byte order of the frame, on a little-endian CPU.
 */
#ifndef CAUSEWAY_FASTPATH_H
#define CAUSEWAY_FASTPATH_H

#include "burst.h"
#include "../tables/x86.h"

enum {
	FASTPATH_IPV4 = 20,
	FASTPATH_IPV6 = 40,
	FASTPATH_UD = 8 + 12 + 8,       /* UDP, BTH, DETH */
	FASTPATH_MIN = FASTPATH_UD + 4, /* and the ICRC */
};

/* mismatch() tells in which of 16 bytes a header differs from a type where the type's mask is set; any_of() joins two
 * answers, and matches() is true when nothing differs. */
#ifdef CAUSEWAY_X86
typedef __m128i mismatch_bits;

static inline mismatch_bits mismatch(const uint8_t *p, const struct fastpath_type *t)
{
	const __m128i *words = (const __m128i *)(const void *)t;
	__m128i header = _mm_loadu_si128((const __m128i *)(const void *)p);
	return _mm_xor_si128(_mm_and_si128(header, _mm_load_si128(&words[0])), _mm_load_si128(&words[1]));
}

static inline mismatch_bits any_of(mismatch_bits a, mismatch_bits b)
{
	return _mm_or_si128(a, b);
}

/* PTEST is SSE4.1's, which DPDK asks of every x86 CPU. */
static inline bool matches(mismatch_bits m)
{
	return _mm_testz_si128(m, m);
}
#else
typedef uint64_t mismatch_bits;

static inline mismatch_bits mismatch(const uint8_t *p, const struct fastpath_type *t)
{
	return ((load64(p) & load64(t->mask)) ^ load64(t->type)) |
	       ((load64(p + 8) & load64(t->mask + 8)) ^ load64(t->type + 8));
}

static inline mismatch_bits any_of(mismatch_bits a, mismatch_bits b)
{
	return a | b;
}

static inline bool matches(mismatch_bits m)
{
	return m == 0;
}
#endif

/* Zero when VLAN tag and EtherType are right. */
static inline uint64_t wrong_ethernet(const struct segment *s, const uint8_t *ip, uint64_t type)
{
	return (load64(ip - 8) & s->l2_mask) ^ type;
}

/* The checksum is right when the sum of the header's words is a multiple of 0xffff. A number is a multiple of an odd
 * one when its product with the inverse is small (Hacker's Delight, 10-17). */
static __rte_always_inline bool fastpath_checksum(const uint8_t *ip)
{
	const uint64_t inverse = UINT64_C(0xfffefffefffeffff); /* of 0xffff, modulo 2^64 */
	uint64_t a = load64(ip), c = load64(ip + 8),
		 sum = (uint32_t)a + (a >> 32) + (uint32_t)c + (c >> 32) + load32(ip + 16);
	return sum * inverse <= UINT64_MAX / 0xffff;
}

/* Where fastpath() stores its results. */
struct fastpath_place {
	const struct segment *segment;
	struct ib_send *send;
	struct trim *trim;
	struct icrc_job *icrc;
	struct table_key *from, *to;
	bool *to_group;
	unsigned *groups;
	bool *congested;
	uint32_t l2_len; /* the segment's: a copy, which no store may have changed */
};

/* BTH, DETH and, if there are (imm is 1, else 0), immediate data. at is the offset of the UDP header in the frame, len
 * the bytes from there to the end of the ICRC. */
static __rte_always_inline bool fastpath_ud(const struct fastpath_place *p, const uint8_t *eth, uint32_t at,
					    uint32_t len, bool group, uint32_t imm)
{
	const uint8_t *bth = eth + at + 8;
	uint32_t headers = 20 + 4 * imm, dest = be32(bth + 4) & 0xffffff;
	int32_t payload = (int32_t)(len - (8 + 4) - headers - (bth[1] >> 4 & 3));
	struct ib_send *s = p->send;
	s->dest_qpn = dest;
	s->dest_qkey = be32(bth + 12);
	s->imm = imm ? be32(bth + 20) : 0;
	s->flags = (uint16_t)(imm | (bth[1] >> 6 & 2));
	p->trim->headers = (uint16_t)(at + 8 + headers);
	p->trim->payload_len = (uint16_t)payload;
	p->trim->fastpath = true;
	p->from->number = (be32(bth + 16) & 0xffffff) | p->segment->from_key;
	p->to->number = group ? p->segment->group_key : 0;
	*p->to_group = group;
	bool right = (payload >= 0) & (group ? dest == 0xffffff : dest - 2 < 0xffffff - 2);
	if (group)
		*p->groups += right;
	return right;
}

_Static_assert(IB_SEND_IMM == 1 && IB_SEND_SOLICITED == 2, "fastpath_ud() computes flags from header bits");

/* Twice, because without immediate data, which is the usual case, offsets are constants then. */
static __rte_always_inline bool fastpath_transport(const struct fastpath_place *p, const uint8_t *eth, uint32_t at,
						   uint32_t len, bool group)
{
	if (unlikely(eth[at + 8] & 1))
		return fastpath_ud(p, eth, at, len, group, 1);
	return fastpath_ud(p, eth, at, len, group, 0);
}

/* Marks a packet that has met congestion. Returns true. */
static __rte_always_inline bool fastpath_ecn(const struct fastpath_place *p, uint8_t tclass)
{
	if (unlikely((tclass & 3) == 3)) {
		p->send->flags |= IB_SEND_FECN;
		*p->congested = true;
	}
	return true;
}

static __rte_always_inline bool fastpath_ipv4(const struct datapath *dp, const uint8_t *eth, uint32_t room,
					      const struct fastpath_place *p, bool group)
{
	const uint8_t *ip = eth + p->l2_len, *udp = ip + FASTPATH_IPV4, tclass = ip[1];
	uint32_t dst = load32(ip + 16), total = be16(ip + 2);
	mismatch_bits bad = any_of(any_of(mismatch(ip, &dp->fastpath_ipv4), mismatch(udp, &dp->fastpath_udp)),
				   any_of(mismatch(udp + 16, &dp->fastpath_deth),
					  mismatch(eth, group ? &dp->fastpath_group4 : &p->segment->own)));
	uint64_t wrong = wrong_ethernet(p->segment, ip, p->segment->l2_ipv4) | total % 4 |
			 (be16(udp + 4) ^ (total - FASTPATH_IPV4)) | (ip[8] == 0) | (total > room);
	if (unlikely(!matches(bad) || wrong || !fastpath_checksum(ip)))
		return false;
	p->send->ah.tclass = tclass;
	p->send->ah.hop_limit = ip[8];
	p->send->ah.flow_label = 0;
	key_ipv4(p->from, load32(ip + 12));
	key_ipv4(p->to, dst);
	*p->icrc = (struct icrc_job){.p = ip, .len = total - 4, .kind = ICRC_IPV4};
	return fastpath_transport(p, eth, p->l2_len + FASTPATH_IPV4, total - FASTPATH_IPV4, group) &&
	       fastpath_ecn(p, tclass);
}

/* An address whose first 64 bits are zero is IPv4-mapped or invalid: parse.c decides. */
static __rte_always_inline bool fastpath_ipv6(const struct datapath *dp, const uint8_t *eth, uint32_t room,
					      const struct fastpath_place *p, bool group)
{
	const uint8_t *ip = eth + p->l2_len, *udp = ip + FASTPATH_IPV6, tclass = (uint8_t)(be16(ip) >> 4);
	mismatch_bits bad = any_of(any_of(mismatch(udp, &dp->fastpath_udp), mismatch(udp + 16, &dp->fastpath_deth)),
				   mismatch(eth, group ? &dp->fastpath_group6 : &p->segment->own));
	uint32_t len = be16(ip + 4);
	uint64_t wrong = wrong_ethernet(p->segment, ip, p->segment->l2_ipv6) | len % 4 | (be16(udp + 4) ^ len) |
			 (ip[7] == 0) | (load64(ip + 8) == 0) | (load64(ip + 24) == 0) |
			 ((load64(ip) & UINT64_C(0x00ff0000000000f0)) ^ UINT64_C(0x0011000000000060)) |
			 (len > room - FASTPATH_IPV6);
	if (unlikely(!matches(bad) || wrong))
		return false;
	p->send->ah.tclass = tclass;
	p->send->ah.hop_limit = ip[7];
	p->send->ah.flow_label = be32(ip) & 0xfffff;
	memcpy(p->from->addr, ip + 8, 16);
	memcpy(p->to->addr, ip + 24, 16);
	*p->icrc = (struct icrc_job){.p = ip, .len = FASTPATH_IPV6 + len - 4, .kind = ICRC_IPV6};
	return fastpath_transport(p, eth, p->l2_len + FASTPATH_IPV6, len, group) && fastpath_ecn(p, tclass);
}

/* Parses a frame into place i of the burst; false: it needs parse.c. only is only_segment(). */
static __rte_always_inline bool fastpath(const struct datapath *dp, const struct segment *only, struct rte_mbuf *m,
					 struct burst *b, unsigned i)
{
	const uint8_t *eth = rte_pktmbuf_mtod(m, const uint8_t *);
	const struct segment *s = likely(only) ? only : segment_of_frame(dp, m, eth, m->data_len);
	const struct fastpath_place p = {.segment = s,
					 .send = &b->send[i],
					 .trim = &b->trim[i],
					 .icrc = &b->icrc[i],
					 .from = &b->lookup.from[i],
					 .to = &b->lookup.to[i],
					 .to_group = &b->lookup.to_group[i],
					 .groups = &b->lookup.groups,
					 .congested = &b->congested,
					 .l2_len = s->l2_len};
	uint32_t len = m->data_len, room = len - p.l2_len;
	p.send->mbuf = m;
	if (unlikely(len < p.l2_len + FASTPATH_IPV4 + FASTPATH_MIN || m->nb_segs != 1))
		return false;
	const uint8_t *ip = eth + p.l2_len;
	if (ip[0] == 0x45)
		return (ip[16] & 0xf0) == 0xe0 ? fastpath_ipv4(dp, eth, room, &p, true)
					       : fastpath_ipv4(dp, eth, room, &p, false);
	if (unlikely(room < FASTPATH_IPV6 + FASTPATH_MIN))
		return false;
	return ip[24] == 0xff ? fastpath_ipv6(dp, eth, room, &p, true) : fastpath_ipv6(dp, eth, room, &p, false);
}

#endif

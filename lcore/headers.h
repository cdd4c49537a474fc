/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what surrounds a payload on Ethernet. Headers grow downwards from the payload, over the GRH area
 * and into the headroom; pad and ICRC follow it.
 *
 *   Ethernet [802.1Q] IPv4|IPv6 UDP  BTH DETH [ImmDt] payload pad ICRC     RoCEv2
 *   Ethernet [802.1Q] GRH            BTH DETH [ImmDt] payload pad ICRC     RoCEv1
 */
#ifndef CAUSEWAY_HEADERS_H
#define CAUSEWAY_HEADERS_H

#include "egress.h"

enum {
	ICRC_LEN = 4,
	VLAN_LEN = 4,
	ROCE_PORT = 4791,
	NEXT_BTH = 0x1b,
	PROTO_UDP = 17,
	ECN_MASK = 3,
	ECN_CE = 3,
};

/* What the frame inherits from the message. */
struct inherited {
	uint8_t tclass;
	uint8_t hop_limit;
	uint32_t flow_label;
};

static inline uint8_t *put16(uint8_t *p, uint16_t v)
{
	v = __builtin_bswap16(v);
	memcpy(p, &v, 2);
	return p;
}

static inline uint8_t *put32(uint8_t *p, uint32_t v)
{
	v = __builtin_bswap32(v);
	memcpy(p, &v, 4);
	return p;
}

static inline uint8_t *put64(uint8_t *p, uint64_t v)
{
	v = __builtin_bswap64(v);
	memcpy(p, &v, 8);
	return p;
}

/* The flow label of a pair of QPs, as Linux computes it (rdma_calc_flow_label): the same both ways. */
static inline uint32_t flow_of(uint32_t a, uint32_t b)
{
	uint64_t v = (uint64_t)a * b;
	v ^= v >> 20;
	v ^= v >> 40;
	return v & 0xfffff;
}

/* The UDP source port of a flow (rdma_flow_label_to_udp_sport). */
static inline uint16_t port_of(uint32_t flow)
{
	return (uint16_t)(((flow & 0x3fff) ^ (flow >> 14)) | 0xc000);
}

/* Without a network header the service level is all that is known: it becomes the class selector. Hop limits
 * below 2 say "this subnet only" on InfiniBand, where the bridge is not a hop; they become the default. */
static inline struct inherited inherit(const struct bench *b, const struct message *g)
{
	struct inherited in = {.hop_limit = b->ttl, .flow_label = 0};
	uint8_t hops = 0;
	if (likely(g->header == HEADER_GRH)) {
		uint32_t first = be32(g->area);
		in.tclass = (uint8_t)(first >> 20);
		in.flow_label = first & 0xfffff;
		hops = g->area[7];
	} else if (g->header == HEADER_IPV4) {
		in.tclass = g->area[21];
		hops = g->area[28];
	} else {
		in.tclass = (uint8_t)(b->dscp_of_sl[g->recv.sl & 15] << 2);
	}
	if (hops >= 2)
		in.hop_limit = hops - 1;
	if (unlikely((g->recv.flags & IB_RECV_FECN) && (in.tclass & ECN_MASK)))
		in.tclass |= ECN_CE;
	return in;
}

/* BTH, DETH and immediate in front of the payload; returns where they start. */
static inline uint8_t *put_transport(struct worker *w, const struct message *g, uint8_t *payload, unsigned pad)
{
	const struct ib_recv *r = &g->recv;
	uint64_t imm = (r->flags & IB_RECV_IMM) != 0, solicited = (r->flags & IB_RECV_SOLICITED) != 0;
	uint64_t first = (0x64 | imm) << 8 | solicited << 7 | 0x40 | pad << 4; /* M: as UD senders set it */
	uint32_t *psn = &w->psn[(r->src_qpn ^ r->slid) % PSN_STREAMS];
	uint8_t *p = payload;
	if (imm)
		p = put32(p - 4, r->imm);
	p = put32(p - 4, r->src_qpn);
	p = put64(p - 8, (uint64_t)*psn << 32 | g->qkey);
	*psn = (*psn + 1) & 0xffffff;
	return put64(p - 8, first << 48 | (uint64_t)w->bench->roce_pkey << 32 | g->dest_qpn);
}

/* UDP checksum 0: the ICRC covers more. */
static inline uint8_t *put_udp(uint8_t *p, uint16_t src_port, uint32_t transport_len)
{
	return put64(p - 8, (uint64_t)src_port << 48 | (uint64_t)ROCE_PORT << 32 | (8 + transport_len) << 16);
}

/* The header is summed up in registers, and stored once: a load of what has just been stored in other pieces
 * waits until all of them have reached the cache. */
static inline uint8_t *put_ipv4(uint8_t *p, const struct message *g, const struct inherited *in, uint32_t payload_len)
{
	uint32_t src, dst;
	memcpy(&src, g->src_ip + 12, 4);
	memcpy(&dst, g->dst_ip + 12, 4);
	uint64_t first = (uint64_t)0x45 << 56 | (uint64_t)in->tclass << 48 | (uint64_t)(20 + payload_len) << 32 |
			 0x4000; /* no id: it does not fragment */
	uint32_t second = (uint32_t)in->hop_limit << 24 | PROTO_UDP << 16;
	first = __builtin_bswap64(first);
	second = __builtin_bswap32(second);
	uint64_t sum = (first & 0xffffffff) + (first >> 32) + second + src + dst;
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	second |= (uint32_t)(uint16_t)~sum << 16; /* little-endian: the checksum is the upper half */
	uint64_t addresses = (uint64_t)dst << 32 | src;
	p -= 20;
	memcpy(p, &first, 8);
	memcpy(p + 8, &second, 4);
	memcpy(p + 12, &addresses, 8);
	return p;
}

/* IPv6 and GRH differ in the next header only. */
static inline uint8_t *put_ipv6(uint8_t *p, const struct message *g, const struct inherited *in, uint32_t payload_len,
				uint8_t next)
{
	p -= 40;
	put32(p, 6u << 28 | (uint32_t)in->tclass << 20 | in->flow_label);
	put16(p + 4, (uint16_t)payload_len);
	p[6] = next;
	p[7] = in->hop_limit;
	memcpy(p + 8, g->src_ip, 16);
	memcpy(p + 24, g->dst_ip, 16);
	return p;
}

/* RoCEv1 writes the IPv4 group a.b.c.d as ff0e::ffff:a.b.c.d. */
static inline uint8_t *put_grh(uint8_t *p, const struct message *g, const struct inherited *in, uint32_t payload_len)
{
	p = put_ipv6(p, g, in, payload_len, NEXT_BTH);
	if (g->multicast && is_ipv4(g->dst_ip))
		put16(p + 24, 0xff0e);
	return p;
}

static inline uint8_t *put_ethernet(uint8_t *p, const struct bench *b, const struct message *g, uint16_t type,
				    uint8_t sl)
{
	p = put16(p - 2, type);
	if (g->tci)
		p = put32(p - 4, 0x8100u << 16 | (uint32_t)b->pcp_of_sl[sl & 15] << 13 | g->tci);
	p = put32(p - 4, (uint32_t)b->mac);
	return put64(p - 8, g->mac << 16 | b->mac >> 32);
}

/* Writes network headers and says what the ICRC must know. */
static inline uint8_t *put_network(uint8_t *transport, const struct message *g, const struct inherited *in,
				   uint32_t transport_len, enum icrc_kind *kind, uint16_t *type)
{
	if (g->version == ROCE_V1) {
		*kind = ICRC_GRH;
		*type = 0x8915;
		return put_grh(transport, g, in, transport_len);
	}
	uint32_t flow = in->flow_label ? in->flow_label : flow_of(g->recv.src_qpn, g->dest_qpn);
	uint8_t *udp = put_udp(transport, port_of(flow), transport_len);
	*kind = g->six ? ICRC_IPV6 : ICRC_IPV4;
	*type = g->six ? 0x86dd : 0x0800;
	return g->six ? put_ipv6(udp, g, in, 8 + transport_len, PROTO_UDP) : put_ipv4(udp, g, in, 8 + transport_len);
}

/* Writes everything in front of and behind the payload but the ICRC, for which the mbuf has room; returns what the ICRC
 * covers. */
static inline struct icrc_job write_headers(struct worker *w, struct message *g)
{
	const struct bench *b = w->bench;
	struct inherited in = inherit(b, g);
	struct rte_mbuf *m = g->recv.mbuf;
	uint8_t *payload = rte_pktmbuf_mtod_offset(m, uint8_t *, IB_GRH_LEN);
	unsigned pad = -g->payload_len & 3u;
	uint8_t *end = payload + g->payload_len;
	memcpy(end, (const uint32_t[]){0}, 4); /* the ICRC has room for what is more than the pad */
	end += pad;

	uint8_t *transport = put_transport(w, g, payload, pad);
	enum icrc_kind kind;
	uint16_t type;
	uint32_t transport_len = (uint32_t)(end - transport) + ICRC_LEN;
	uint8_t *net = put_network(transport, g, &in, transport_len, &kind, &type);
	uint8_t *frame = put_ethernet(net, b, g, type, g->recv.sl);
	m->data_off = (uint16_t)(frame - (uint8_t *)m->buf_addr);
	m->data_len = (uint16_t)(end + ICRC_LEN - frame);
	m->pkt_len = m->data_len;
	return (struct icrc_job){.p = net, .len = (uint32_t)(end - net), .kind = kind};
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the headers and trailers of a RoCE frame around a payload. Headers grow downwards from the payload, over the
 * GRH area and into the headroom; pad and ICRC follow it.
 *
 *   Ethernet [802.1Q] IPv4|IPv6 UDP  BTH DETH [ImmDt] payload pad ICRC     RoCEv2
 *   Ethernet [802.1Q] GRH            BTH DETH [ImmDt] payload pad ICRC     RoCEv1
 *   Ethernet [802.1Q] IPv4|IPv6 UDP  payload                               plain UDP
 *
 * Stores are eight bytes wide and may span two headers.
 */
#ifndef CAUSEWAY_HEADERS_H
#define CAUSEWAY_HEADERS_H

#include <rte_ip.h>

#include "egress.h"
#include "proto.h"
#include "lease.h"

/* Fields that the frame takes over from the message. */
struct inherited {
	uint8_t tclass;
	uint8_t hop_limit;
	uint32_t flow_label;
};

/* The flow label of a pair of QPs, as Linux computes it (rdma_calc_flow_label): the same both ways. */
static inline uint32_t flow_of(uint32_t a, uint32_t b)
{
	uint64_t v = (uint64_t)a * b;
	v ^= v >> 20;
	v ^= v >> 40;
	return v & 0xfffff;
}

/* The UDP source port of a flow (rdma_flow_label_to_udp_sport). */
static inline uint32_t port_of(uint32_t flow)
{
	return ((flow & 0x3fff) ^ (flow >> 14)) | 0xc000;
}

/* Without a network header only the service level is known: it becomes the DSCP. Hop limits
 * below 2 say "this subnet only" on InfiniBand, where the bridge is not a hop; they become the default. */
static __rte_always_inline struct inherited inherit(const struct datapath *dp, const struct message *msg,
						    const struct route *r, uint8_t header, uint8_t flags)
{
	struct inherited in = {.hop_limit = r->segment->ttl, .flow_label = 0};
	const uint8_t *area = area_of(msg);
	uint8_t hops = 0;
	if (likely(header == HEADER_GRH)) {
		uint32_t first = be32(area);
		in.tclass = (uint8_t)(first >> 20);
		in.flow_label = first & 0xfffff;
		hops = area[7];
	} else if (header == HEADER_IPV4) {
		in.tclass = area[21];
		hops = area[28];
	} else {
		in.tclass = (uint8_t)(__atomic_load_n(&dp->dscp_of_sl[msg->recv->sl & 15], __ATOMIC_RELAXED) << 2);
	}
	if (hops >= 2)
		in.hop_limit = hops - 1;
	if (unlikely((flags & IB_RECV_FECN) && (in.tclass & ECN_MASK)))
		in.tclass |= ECN_CE;
	return in;
}

static inline uint32_t qpn_of(const struct route *r)
{
	return r->group ? QPN_MULTICAST : r->to->qpn;
}

/* DETH and BTH, which end at p, and UDP's length and checksum, which share a word with the BTH. The checksum is 0: the
 * ICRC covers more. Returns the BTH. */
static inline uint8_t *put_transport(struct worker *w, const struct ib_recv *recv, const struct route *r, uint8_t *p,
				     uint64_t flags)
{
	uint32_t *next = &w->psn[(recv->src_qpn ^ recv->slid) % PSN_STREAMS], psn = *next;
	*next = (psn + 1) & 0xffffff;
	store64(p - 8, net32(recv->src_qpn) << 32 | net32(r->to->qkey));
	store64(p - 16, net32(psn) << 32 | net32(qpn_of(r)));
	store64(p - 24, flags);
	return p - UD_LEN;
}

/* Source and destination port. */
static inline uint64_t ports_of(const struct ib_recv *recv, const struct route *r, uint32_t flow_label)
{
	uint32_t flow = flow_label ? flow_label : flow_of(recv->src_qpn, qpn_of(r));
	return net16(port_of(flow)) | net16(ROCE_PORT) << 16;
}

/* IPv4 and UDP's ports. It does not fragment, so it has no id. The header is summed up in registers. */
static inline uint8_t *put_ipv4(uint8_t *bth, const struct route *r, const struct inherited *in, uint64_t ports,
				uint32_t udp_len)
{
	const uint64_t no_fragments = 0x00400000;
	uint64_t src = load32(r->src_ip + 12), dst = load32(r->to->ip + 12);
	uint64_t first = 0x45 | (uint64_t)in->tclass << 8 | net16(20 + udp_len) << 16;
	uint64_t second = in->hop_limit | PROTO_UDP << 8;
	uint64_t checksum = 0xffff ^ ones_sum(first + no_fragments + second + src + dst);
	store64(bth - 12, ports << 32 | dst);
	store64(bth - 20, src << 32 | checksum << 16 | second);
	store64(bth - 28, no_fragments << 32 | first);
	return bth - 28;
}

/* IPv6 and GRH differ in the next header only. */
static inline uint8_t *put_ipv6(uint8_t *p, const struct route *r, const struct inherited *in, uint32_t len,
				uint64_t next)
{
	p -= 40;
	store64(p, net32(6u << 28 | (uint32_t)in->tclass << 20 | in->flow_label) | net16(len) << 32 | next << 48 |
			   (uint64_t)in->hop_limit << 56);
	memcpy(p + 8, r->src_ip, 16);
	memcpy(p + 24, r->to->ip, 16);
	return p;
}

/* RoCEv1 writes the IPv4 group a.b.c.d as ff0e::ffff:a.b.c.d. */
static inline uint8_t *put_grh(uint8_t *bth, const struct route *r, const struct inherited *in, uint32_t len)
{
	uint8_t *p = put_ipv6(bth, r, in, len, NEXT_BTH);
	if (r->group && is_ipv4(r->to->ip))
		memcpy(p + 24, (const uint8_t[]){0xff, 0x0e}, 2);
	return p;
}

/* In ascending order, because the wide stores of addresses overwrite the bytes behind them. */
static __rte_always_inline uint8_t *put_ethernet(uint8_t *net, const struct worker *w, const struct route *r,
						 uint64_t type, uint8_t sl)
{
	const struct datapath *dp = w->datapath;
	uint64_t l2 = __atomic_load_n(&r->to->l2, __ATOMIC_RELAXED),
		 own = r->group ? r->segment->mac : source_towards(w, r->segment, r->shard);
	if (likely(L2_TCI(l2) == 0)) {
		store64(net - 14, l2);
		store64(net - 8, own | net16(type) << 48);
		return net - 14;
	}
	uint32_t pcp = __atomic_load_n(&dp->pcp_of_sl[sl & 15], __ATOMIC_RELAXED);
	store64(net - 18, l2);
	store64(net - 12, own);
	store64(net - 8, own >> 32 | UINT64_C(0x0081) << 16 | net16(pcp << 13 | L2_TCI(l2)) << 32 | net16(type) << 48);
	return net - 18;
}

/* Writes the network headers; sets kind and type of the packet. */
static __rte_always_inline uint8_t *put_network(uint8_t *bth, const struct ib_recv *recv, const struct route *r,
						const struct inherited *in, uint32_t udp_len, enum icrc_kind *kind,
						uint64_t *type)
{
	if (unlikely(r->version == ROCE_V1)) {
		*kind = ICRC_GRH;
		*type = TYPE_ROCE_V1;
		return put_grh(bth, r, in, udp_len - UDP_LEN);
	}
	uint64_t ports = ports_of(recv, r, in->flow_label);
	*kind = r->six ? ICRC_IPV6 : ICRC_IPV4;
	*type = r->six ? TYPE_IPV6 : TYPE_IPV4;
	if (!r->six)
		return put_ipv4(bth, r, in, ports, udp_len);
	store32(bth - UDP_LEN, ports);
	return put_ipv6(bth - UDP_LEN, r, in, udp_len, PROTO_UDP);
}

/* Writes all headers and the pad, but not the ICRC, for which the mbuf has room. header and flags are the message's,
 * and constants where they are known. Returns the bytes that the ICRC covers. */
static __rte_always_inline struct icrc_job write_frame(struct worker *w, const struct message *msg,
						       const struct route *r, uint8_t header, uint8_t flags)
{
	const struct datapath *dp = w->datapath;
	const struct ib_recv *recv = msg->recv;
	struct rte_mbuf *m = recv->mbuf;
	struct inherited in = inherit(dp, msg, r, header, flags);
	uint32_t len = msg->payload_len, padded = (len + 3) & ~3u, udp_len = UDP_LEN + UD_LEN + ICRC_LEN + padded;
	uint64_t bth = dp->bth | (uint64_t)(padded - len) << 44;
	uint8_t *transport = msg->payload, *end = transport + padded;
	store32(transport + len, 0); /* more than the pad: the ICRC overwrites the rest */
	if (unlikely(flags & (IB_RECV_IMM | IB_RECV_SOLICITED))) {
		bth |= (uint64_t)((flags & IB_RECV_IMM) != 0) << 32;
		bth |= (uint64_t)((flags & IB_RECV_SOLICITED) != 0) << 47;
		if (flags & IB_RECV_IMM) {
			transport -= 4;
			udp_len += 4;
			store32(transport, net32(recv->imm));
		}
	}
	transport = put_transport(w, recv, r, transport, bth | net16(udp_len));
	enum icrc_kind kind;
	uint64_t type;
	uint8_t *net = put_network(transport, recv, r, &in, udp_len, &kind, &type);
	uint8_t *frame = put_ethernet(net, w, r, type, recv->sl);
	m->data_off = (uint16_t)(frame - (uint8_t *)m->buf_addr);
	m->data_len = (uint16_t)(end + ICRC_LEN - frame);
	m->pkt_len = m->data_len;
	m->port = r->segment->port; /* by which it leaves */
	return (struct icrc_job){.p = net, .len = (uint32_t)(end - net), .kind = kind};
}

static inline struct icrc_job write_headers(struct worker *w, const struct message *msg, const struct route *r)
{
	return write_frame(w, msg, r, msg->header, msg->recv->flags);
}

/* Writes the IP header of a datagram and UDP's ports, and then the checksum, for hosts check it. Returns the IP
 * header. */
static inline uint8_t *put_plain(const struct message *msg, const struct route *r, const struct inherited *in)
{
	uint32_t udp_len = UDP_LEN + msg->payload_len;
	uint64_t port = net16(table_plain_port(r->to)), ports = port | port << 16;
	uint8_t *udp = msg->payload - UDP_LEN, *net;
	uint16_t checksum;
	store32(udp + 4, net16(udp_len)); /* the checksum 0 */
	if (r->six) {
		store32(udp, ports);
		net = put_ipv6(udp, r, in, udp_len, PROTO_UDP);
		checksum = rte_ipv6_udptcp_cksum((const struct rte_ipv6_hdr *)net, udp);
	} else {
		net = put_ipv4(msg->payload, r, in, ports, udp_len);
		checksum = rte_ipv4_udptcp_cksum((const struct rte_ipv4_hdr *)net, udp);
	}
	memcpy(udp + 6, &checksum, sizeof checksum);
	return net;
}

/* write_headers() of a message to a group of plain UDP. Immediate data has no place there. A short frame is padded: no
 * other that workers send is short. The job's ICRC falls behind the frame, where the mbuf has room, and is not sent.
 * The route is a copy, so that the caller's stays in registers. */
static __rte_noinline struct icrc_job write_datagram(const struct worker *w, const struct message *msg, struct route r)
{
	struct rte_mbuf *m = msg->recv->mbuf;
	struct inherited in = inherit(w->datapath, msg, &r, msg->header, msg->recv->flags);
	in.hop_limit = (uint8_t)r.to->qkey;
	uint8_t *frame = put_ethernet(put_plain(msg, &r, &in), w, &r, r.six ? TYPE_IPV6 : TYPE_IPV4, msg->recv->sl);
	uint8_t *end = msg->payload + msg->payload_len;
	if (end < frame + ETH_MIN) {
		memset(end, 0, (size_t)(frame + ETH_MIN - end));
		end = frame + ETH_MIN;
	}
	m->data_off = (uint16_t)(frame - (uint8_t *)m->buf_addr);
	m->data_len = (uint16_t)(end - frame);
	m->pkt_len = m->data_len;
	m->port = r.segment->port;
	return (struct icrc_job){.p = end - ICRC_FAST_MIN, .len = ICRC_FAST_MIN, .kind = ICRC_IPV4}; /* the shortest */
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peer: the same work as a plain loop, with the same DPDK, tables and ICRC. It converts RoCEv2 over IPv4, untagged,
 * unicast, without immediate data; it checks what a bridge must check of such a packet, and frees everything else
 * uncounted. It has no other kinds of packets, no drop reasons, management, RCU, mirrors, latencies, handoffs or rings
 * of its own.
 */
#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>
#include <string.h>

#include "../../lcore/icrc.h"
#include "loops.h"

enum { BURST = 64, AHEAD = 8 };

/* A frame up to its payload. */
struct head {
	uint8_t dst[6], src[6];
	uint16_t type;
	uint8_t version_ihl, tos;
	uint16_t total_len;
	uint32_t no_fragment;
	uint8_t ttl, protocol;
	uint16_t sum;
	uint32_t src_ip, dst_ip;
	uint16_t src_port, dst_port, udp_len, udp_sum;
	uint8_t opcode, flags;
	uint16_t pkey;
	uint32_t dest_qpn, psn, qkey, src_qpn;
} __attribute__((packed));

_Static_assert(sizeof(struct head) == 62, "as on the wire");

enum { IP_AT = 14, ICRC_LEN = 4, STREAMS = 256, MTU = 4096 };

/* Words are stored as wide as table_hash loads them, for store forwarding. */
static inline void set_ip_key(struct table_key *k, uint32_t ip, uint32_t number)
{
	uint64_t low = 0, high = (uint64_t)ip << 32 | 0xffff0000;
	memcpy(k->addr, &low, 8);
	memcpy(k->addr + 8, &high, 8);
	k->number = number;
}

/* A MAC address in the byte order of the frame. Two bytes more are read. */
static inline uint64_t mac_at(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof v);
	return v << 16;
}

/* What loop's mac is in the byte order of the frame. */
static inline uint64_t own_mac(const struct loop *l)
{
	return rte_cpu_to_be_64(l->mac << 16) << 16;
}

static inline bool is_for_us(const struct head *h, uint64_t own)
{
	uint64_t src = mac_at(h->src);
	return mac_at(h->dst) == own && src && src != own && !(h->src[0] & 1);
}

static inline bool is_ip_good(const struct head *h, uint32_t len)
{
	return h->type == rte_cpu_to_be_16(0x0800) && h->version_ihl == 0x45 &&
	       rte_raw_cksum(&h->version_ihl, 20) == 0xffff &&
	       rte_be_to_cpu_16(h->total_len) + (uint32_t)IP_AT == len && rte_be_to_cpu_16(h->total_len) % 4 == 0 &&
	       !(h->no_fragment & rte_cpu_to_be_32(0x3fff)) && h->protocol == 17 && h->ttl;
}

static inline bool is_ud_good(const struct head *h, uint16_t pkey)
{
	uint32_t dest = rte_be_to_cpu_32(h->dest_qpn) & 0xffffff;
	return h->dst_port == rte_cpu_to_be_16(4791) && !h->udp_sum &&
	       rte_be_to_cpu_16(h->udp_len) + 20 == rte_be_to_cpu_16(h->total_len) && h->opcode == 0x64 &&
	       !(h->flags & 0x0f) && h->pkey == pkey && !(h->dest_qpn & rte_cpu_to_be_32(0xbf000000)) && dest >= 2 &&
	       dest != 0xffffff && !(h->psn & rte_cpu_to_be_32(0x7f000000)) &&
	       !(h->qkey & rte_cpu_to_be_32(0x80000000)) && !(h->src_qpn & rte_cpu_to_be_32(0xff000000));
}

static inline bool is_good(const struct rte_mbuf *m, const struct head *h, uint64_t own, uint16_t pkey)
{
	uint32_t len = m->data_len;
	return m->nb_segs == 1 && len >= sizeof *h + ICRC_LEN + (h->flags >> 4 & 3u) && is_for_us(h, own) &&
	       is_ip_good(h, len) && is_ud_good(h, pkey);
}

/* Whether a packet may go from this host to that node. */
static inline bool may_send(const struct loop *l, const struct rte_mbuf *m, const struct head *h,
			    const struct proxy_qp_entry *from, const struct node_entry *to)
{
	if (!from || !to)
		return false;
	table_mark_used(l->tables, &from->used);
	table_mark_used(l->tables, &to->used);
	return !to->partition && from->worker == 0 && table_is_from(from, mac_at(h->src) >> 16) &&
	       m->data_len <= sizeof *h + ICRC_LEN + to->mtu;
}

static inline void fill_send(struct ib_send *s, struct rte_mbuf *m, const struct head *h,
			     const struct proxy_qp_entry *from, const struct node_entry *to)
{
	unsigned pad = h->flags >> 4 & 3;
	m->data_off += sizeof *h;
	m->data_len -= sizeof *h + ICRC_LEN + pad;
	m->pkt_len = m->data_len;
	s->mbuf = m;
	memcpy(s->ah.dgid, to->gid, 16);
	s->ah.dlid = to->lid;
	s->ah.sl = to->sl;
	s->ah.hop_limit = to->hop_limit;
	s->ah.static_rate = to->rate;
	s->ah.tclass = h->tos;
	s->ah.source = from->source;
	s->ah.flow_label = 0;
	s->qp = from->qp;
	s->dest_qpn = rte_be_to_cpu_32(h->dest_qpn) & 0xffffff;
	s->dest_qkey = rte_be_to_cpu_32(h->qkey);
	s->imm = 0;
	s->partition = 0;
	s->flags = (uint16_t)((h->flags >> 7) * IB_SEND_SOLICITED | (to->flags & NODE_GRH ? IB_SEND_GRH : 0));
}

int peer_roce_to_ib(void *arg)
{
	struct loop *l = arg;
	const uint16_t pkey = rte_cpu_to_be_16(l->pkey);
	const uint64_t own = own_mac(l);
	uint64_t bytes = 0;
	while (!l->stop) {
		struct rte_mbuf *m[BURST];
		struct icrc_job jobs[BURST];
		struct table_key from[BURST], to[BURST];
		const void *proxy_qp[BURST], *node[BURST];
		struct ib_send sends[BURST];
		uint32_t right[BURST], n = rte_eth_rx_burst(l->port, 0, m, BURST), kept = 0;
		for (unsigned i = 0; i < n; i++) {
			if (i + AHEAD < n) {
				rte_prefetch0(rte_pktmbuf_mtod(m[i + AHEAD], void *));
				rte_prefetch0(rte_pktmbuf_mtod_offset(m[i + AHEAD], void *, 64));
			}
			const struct head *h = rte_pktmbuf_mtod(m[i], const struct head *);
			if (unlikely(!is_good(m[i], h, own, pkey))) {
				rte_pktmbuf_free(m[i]);
				continue;
			}
			jobs[kept] = (struct icrc_job){.p = (const uint8_t *)h + IP_AT,
						       .len = m[i]->data_len - IP_AT - ICRC_LEN,
						       .kind = ICRC_IPV4};
			set_ip_key(&from[kept], h->src_ip, rte_be_to_cpu_32(h->src_qpn) & 0xffffff);
			set_ip_key(&to[kept], h->dst_ip, 0);
			m[kept++] = m[i];
		}
		icrc_burst(jobs, kept, right);
		table_find_bulk(&l->tables->proxy_qps, from, kept, proxy_qp);
		table_find_bulk(&l->tables->nodes, to, kept, node);
		n = kept;
		kept = 0;
		for (unsigned i = 0; i < n; i++) {
			const struct head *h = (const struct head *)(jobs[i].p - IP_AT);
			bool good = memcmp(jobs[i].p + jobs[i].len, &right[i], ICRC_LEN) == 0;
			if (unlikely(!good || !may_send(l, m[i], h, proxy_qp[i], node[i]))) {
				rte_pktmbuf_free(m[i]);
				continue;
			}
			fill_send(&sends[kept++], m[i], h, proxy_qp[i], node[i]);
			bytes += m[i]->data_len;
		}
		l->sink = bytes;
		l->done += l->ib_port->ib_port.post(l->ib_port->ib_port.self, sends, kept);
	}
	return 0;
}

/* Writes what all frames have in common. Out of line, so that the compiler copies it as a whole. */
__attribute__((noinline, noclone)) static void put_template(const struct loop *l, struct head *h)
{
	*h = (struct head){
		.type = rte_cpu_to_be_16(0x0800),
		.version_ihl = 0x45,
		.no_fragment = rte_cpu_to_be_32(0x4000),
		.protocol = 17,
		.dst_port = rte_cpu_to_be_16(4791),
		.opcode = 0x64,
		.pkey = rte_cpu_to_be_16(l->pkey),
	};
	for (unsigned i = 0; i < 6; i++)
		h->src[i] = (uint8_t)(l->mac >> (40 - 8 * i));
}

/* The UDP source port of a pair of QPs, as Linux computes it. */
static inline uint16_t source_port(uint32_t a, uint32_t b)
{
	uint64_t v = (uint64_t)a * b;
	v ^= v >> 20;
	v ^= v >> 40;
	uint32_t flow = v & 0xfffff;
	return (uint16_t)(((flow & 0x3fff) ^ (flow >> 14)) | 0xc000);
}

/* The checksum of a header that is otherwise as in put_template(), computed in registers: loads of narrower recent
 * stores would stall. A one's complement sum may be taken in either byte order. */
static inline uint16_t ipv4_sum(uint8_t tos, uint16_t total_len, uint8_t ttl, uint32_t src, uint32_t dst)
{
	uint64_t s = (0x45u | (uint32_t)tos << 8) + total_len + 0x40u + (ttl | 17u << 8) + (uint64_t)src + dst;
	s = (s & 0xffff) + (s >> 16 & 0xffff) + (s >> 32);
	s = (s & 0xffff) + (s >> 16);
	return (uint16_t) ~((s & 0xffff) + (s >> 16));
}

/* Writes a frame around the payload; returns what the ICRC covers. */
static inline struct icrc_job put_frame(const struct head *common, uint32_t *psns, const struct ib_recv *r,
					const struct source_entry *from, const struct proxy_qpn_entry *to)
{
	struct rte_mbuf *m = r->mbuf;
	const uint8_t *area = rte_pktmbuf_mtod(m, const uint8_t *);
	uint32_t len = m->data_len - IB_GRH_LEN, pad = -len & 3;
	uint64_t mac = __atomic_load_n(&to->peer.l2, __ATOMIC_RELAXED);
	uint32_t *next = &psns[(r->src_qpn ^ r->slid) % STREAMS], psn = *next & 0xffffff;
	uint8_t tos = (uint8_t)(area[0] << 4 | area[1] >> 4), ttl = area[7] >= 2 ? area[7] - 1 : 64;
	uint16_t total_len = rte_cpu_to_be_16((uint16_t)(sizeof(struct head) - IP_AT + len + pad + ICRC_LEN));
	uint32_t src, dst;
	++*next;
	memcpy(&src, from->ip4 + 12, 4);
	memcpy(&dst, to->peer.ip + 12, 4);
	m->data_off += IB_GRH_LEN - sizeof(struct head);
	m->data_len = (uint16_t)(sizeof(struct head) + len + pad + ICRC_LEN);
	m->pkt_len = m->data_len;
	struct head *h = rte_pktmbuf_mtod(m, struct head *);
	*h = *common;
	memcpy(h->dst, &mac, 6);
	h->tos = tos;
	h->ttl = ttl;
	h->total_len = total_len;
	h->udp_len = rte_cpu_to_be_16((uint16_t)(sizeof *h - IP_AT - 20 + len + pad + ICRC_LEN));
	h->src_ip = src;
	h->dst_ip = dst;
	h->sum = ipv4_sum(tos, total_len, ttl, src, dst);
	h->src_port = rte_cpu_to_be_16(source_port(r->src_qpn, to->peer.qpn));
	h->flags = (uint8_t)((r->flags & IB_RECV_SOLICITED ? 0x80 : 0) | 0x40 | pad << 4);
	h->dest_qpn = rte_cpu_to_be_32(to->peer.qpn);
	h->psn = rte_cpu_to_be_32(psn);
	h->qkey = rte_cpu_to_be_32(to->peer.qkey);
	h->src_qpn = rte_cpu_to_be_32(r->src_qpn);
	memset((uint8_t *)(h + 1) + len, 0, pad);
	return (struct icrc_job){
		.p = (uint8_t *)h + IP_AT, .len = (uint32_t)(sizeof *h - IP_AT + len + pad), .kind = ICRC_IPV4};
}

/* A message from a node to a proxy QP, with a GRH; immediate data and congestion are for others. */
static inline bool is_message_good(const struct ib_recv *r, const uint8_t *area)
{
	return r->mbuf->data_len >= IB_GRH_LEN && (r->flags & ~IB_RECV_SOLICITED) == IB_RECV_GRH && r->src_qpn > 1 &&
	       r->src_qpn != 0xffffff && area[0] >> 4 == 6 && area[24] != 0xff;
}

/* Whether a message may go from this node to that host: over IPv4, untagged. */
static inline bool may_receive(const struct loop *l, const struct rte_mbuf *m, const struct source_entry *from,
			       const struct proxy_qpn_entry *to)
{
	uint32_t prefix;
	if (!from || !to)
		return false;
	table_mark_used(l->tables, &from->used);
	table_mark_used(l->tables, &to->used);
	memcpy(&prefix, from->ip4 + 8, sizeof prefix);
	return !(from->flags & (NODE_OWN | NODE_BRIDGE | NODE_HEARD)) && to->version == ROCE_V2 &&
	       prefix == 0xffff0000 && !memcmp(to->peer.ip + 8, &prefix, sizeof prefix) && !L2_TCI(to->peer.l2) &&
	       m->data_len <= IB_GRH_LEN + MTU;
}

int peer_ib_to_roce(void *arg)
{
	struct loop *l = arg;
	struct head common;
	uint32_t psns[STREAMS] = {0};
	uint64_t bytes = 0;
	put_template(l, &common);
	while (!l->stop) {
		struct rte_mbuf *m[BURST];
		struct ib_recv r[BURST];
		struct icrc_job jobs[BURST];
		struct table_key from[BURST], to[BURST];
		const void *source[BURST], *proxy_qp[BURST];
		uint32_t crc[BURST], n = l->ib_port->ib_port.poll(l->ib_port->ib_port.self, r, BURST), kept = 0;
		for (unsigned i = 0; i < n; i++) {
			const uint8_t *area = rte_pktmbuf_mtod(r[i].mbuf, const uint8_t *);
			if (unlikely(!is_message_good(&r[i], area))) {
				rte_pktmbuf_free(r[i].mbuf);
				continue;
			}
			memcpy(from[kept].addr, area + 8, 16);
			from[kept].number = 0;
			memset(to[kept].addr, 0, 16);
			to[kept].number = r[i].qpn;
			if (unlikely(kept != i))
				r[kept] = r[i];
			kept++;
		}
		table_find_bulk(&l->tables->sources, from, kept, source);
		table_find_bulk(&l->tables->proxy_qpns, to, kept, proxy_qp);
		n = kept;
		kept = 0;
		for (unsigned i = 0; i < n; i++) {
			if (unlikely(!may_receive(l, r[i].mbuf, source[i], proxy_qp[i]))) {
				rte_pktmbuf_free(r[i].mbuf);
				continue;
			}
			m[kept] = r[i].mbuf;
			bytes += m[kept]->data_len;
			jobs[kept++] = put_frame(&common, psns, &r[i], source[i], proxy_qp[i]);
		}
		icrc_burst(jobs, kept, crc);
		for (unsigned i = 0; i < kept; i++)
			memcpy((uint8_t *)(uintptr_t)jobs[i].p + jobs[i].len, &crc[i], ICRC_LEN);
		n = rte_eth_tx_burst(l->port, 0, m, (uint16_t)kept);
		l->done += n;
		l->sink = bytes;
		rte_pktmbuf_free_bulk(m + n, kept - n);
	}
	return 0;
}

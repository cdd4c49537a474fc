/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A burst from Ethernet to InfiniBand, and what its stages share. Each stage keeps the packets that pass, in order,
 * and drops, punts or hands off every other one.
 */
#ifndef CAUSEWAY_BURST_H
#define CAUSEWAY_BURST_H

#include <rte_branch_prediction.h>
#include <rte_mbuf.h>

#include "icrc.h"
#include "lookup.h"
#include "mirror/mirror.h"
#include "byteorder.h"
#include "ports.h"
#include "segment.h"
#include "worker.h"

/* A packet that parse.c has parsed. */
struct packet {
	struct rte_mbuf *mbuf;
	const struct segment *segment;
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
	bool control_group;    /* a link-local group: bridged only if it is configured */
	bool plain;            /* a datagram to a group of plain UDP: it has no transport headers, and no ICRC */
	struct table_key from; /* source address and QPN */
	struct table_key to;   /* destination address; of plain UDP with the port */
};

/* Which part of a frame is the payload. */
struct trim {
	uint16_t headers; /* bytes of the frame before the payload */
	uint16_t payload_len;
	bool fastpath; /* parsed by fastpath.h, transport included; else by parse.c, into parsed[] */
};

/* Packets for other workers, the owners of their proxy QPs. */
struct handoff {
	unsigned n;
	uint16_t worker[BURST];
	struct rte_mbuf *mbuf[BURST];
};

/* Where the packets of a burst come from; those before FROM_BEHIND may have to wait behind others. */
enum origin {
	FROM_PORT,
	FROM_KEPT,   /* kept by the worker (handover.h) */
	FROM_BEHIND, /* the same, behind others of its sender (pending.h) */
	FROM_QUEUE,  /* of other workers and management */
};

struct burst {
	unsigned n;
	uint64_t began; /* probe/latency.h */
	unsigned bytes; /* of payload, of those that are sent */
	bool fastpath;  /* all are */
	bool congested; /* by ECN; some of the fast path */
	struct ib_send send[BURST];
	struct trim trim[BURST];
	struct icrc_job icrc[BURST];
	struct lookup
		lookup; /* of the proxy QP by source address and QPN, of the node or group by destination address */
	struct packet parsed[BURST]; /* of those that are not on the fast path */
	struct handoff handoff;
};

/* Moves a packet down, when packets before it have left the burst. */
static inline void burst_move(struct burst *b, unsigned to, unsigned from)
{
	b->send[to] = b->send[from];
	b->trim[to] = b->trim[from];
	b->icrc[to] = b->icrc[from];
	lookup_move(&b->lookup, to, from);
	if (!b->trim[from].fastpath)
		b->parsed[to] = b->parsed[from];
}

/* Sets the key of an IPv4 address, IPv4-mapped. By words, because it is loaded by words: a load of what was stored in
 * pieces would stall. */
static inline void key_ipv4(struct table_key *k, uint32_t ip4)
{
	uint64_t words[2] = {0, (uint64_t)ip4 << 32 | 0xffff0000};
	memcpy(k->addr, words, sizeof words);
}

/* parse.c: whether a station may have this MAC address, in the byte order of a frame: not a group's, none, or our own.
 */
bool is_station(const struct datapath *dp, uint64_t mac);

/* A frame's source MAC address, as in the lower 48 bits of an l2 word. */
static inline uint64_t source_mac(const struct rte_mbuf *m)
{
	return load64(rte_pktmbuf_mtod_offset(m, const uint8_t *, 4)) >> 16;
}

/* Whether a MAC address is that of the host of a proxy QP, whose src is given: one word of the entry, in a line that is
 * read in any case. What is written there is a station's, but may be configured to be our own, so that is looked at. */
static inline bool is_host_of(const struct datapath *dp, const struct proxy_qp_entry *proxy_qp, uint64_t src,
			      uint64_t mac)
{
	if (likely((src ^ mac) << (64 - L2_MAC_BITS) == 0))
		return (mac != 0) & (mac != dp->segment[segment_of_key(&proxy_qp->key)].mac);
	return src == 0 && is_station(dp, mac);
}

/* Whether a frame comes from the host of a proxy QP. */
static inline bool is_from(const struct datapath *dp, const struct proxy_qp_entry *proxy_qp, const struct rte_mbuf *m)
{
	return is_host_of(dp, proxy_qp, __atomic_load_n(&proxy_qp->src, __ATOMIC_RELAXED), source_mac(m));
}

/* Whether this worker has a mirror. */
static inline bool mirroring(const struct worker *w)
{
	return unlikely(__atomic_load_n(&w->mirrors, __ATOMIC_RELAXED));
}

static inline void count_drop(struct worker *w, enum direction d, enum drop reason, struct rte_mbuf *m)
{
	w->counters.direction[d].drops[reason]++;
	if (several_ports(w) && (d == ROCE_TO_IB || reason == DROP_eth_full))
		counters_of(w, d, m)->drops[reason]++;
	if (mirroring(w))
		mirror_drop(w, d, reason, m);
}

/* Counts a drop and frees the packet. */
static inline void drop_packet(struct worker *w, enum direction d, enum drop reason, struct rte_mbuf *m)
{
	count_drop(w, d, reason, m);
	rte_pktmbuf_free(m);
}

/* parse.c: Ethernet to UDP. Sets what the ICRC check and the look-ups need. Returns a drop reason, or PUNT for a
 * control frame, which management gets. */
enum { PUNT = DROP_COUNT };
unsigned parse(const struct datapath *dp, struct rte_mbuf *m, struct packet *p, struct icrc_job *icrc);

/* plain.c: a datagram to another UDP port than RoCEv2's, which is bridged if there is a group of plain UDP with this
 * address and port. ip_payload: the length by the IP header, all of which is in the frame. */
enum drop parse_plain(const struct datapath *dp, struct packet *p, struct icrc_job *icrc, const uint8_t *udp,
		      uint32_t ip_payload);

/* plain.c: whether the checksum of a datagram of len bytes is right. net has the IP header. */
bool udp_checksum_right(const struct icrc_job *net, const uint8_t *udp, uint32_t len);

/* transport.c: BTH, DETH and immediate. Called only when the ICRC is right. */
enum drop transport(const struct datapath *dp, struct packet *p);

/* Counts the events (counters.h) of a packet that passed transport(). */
void count_events(struct worker *w, const struct packet *p);

#endif

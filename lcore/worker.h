/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker: one lcore between two doors.
 *
 *   Ethernet ── roce_to_ib ──▶ door            odd frames ──▶ odd ring ──▶ management
 *   Ethernet ◀── ib_to_roce ── door            management ──▶ again ring (frames to work on)
 *                                              management ──▶ send ring  (frames to send as they are)
 *
 * Ownership of mbufs: whoever holds the pointer. A ring that is full drops; the worker never waits.
 */
#ifndef CAUSEWAY_WORKER_H
#define CAUSEWAY_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "counters.h"
#include "ibside/door.h"
#include "probe/inject.h"
#include "probe/latency.h"
#include "tables/tables.h"

struct rte_mbuf;
struct rte_ring;
struct police;
struct pgm;
struct sights;

enum {
	BURST = 64,
	MAX_WORKERS = 64,
	MAX_PREFIXES = 64,  /* policy.allow: walked only for the first packet of a (host, QPN) */
	MAX_ADDRESSES = 16, /* the bridge's own */
	PSN_STREAMS = 256,
};

/* An IP prefix: v4 prefixes are IPv4-mapped and 96 bits longer. */
struct prefix {
	uint8_t addr[16];
	uint8_t len; /* bits */
};

/* The sources that may cross. Another list takes its place while workers run (policy.h). */
struct allow {
	uint8_t n;
	struct prefix prefix[MAX_PREFIXES];
};

/* 16 bytes of headers: what they must be, where the mask is set. */
struct plain_type {
	uint8_t mask[16];
	uint8_t type[16];
} __attribute__((aligned(16)));

/* What all workers share, filled before they start and not changed while they run, but for what policy.h says. */
struct bench {
	uint64_t mac;  /* the port's, first byte highest, 48 bits */
	uint16_t vlan; /* 802.1Q VLAN id of the RoCE side; 0: untagged */
	uint16_t roce_pkey;
	uint32_t l2_len;  /* of Ethernet and, with a VLAN, 802.1Q headers */
	uint64_t l2_mask; /* of the last eight bytes before the IP header, those that are the same in all frames */
	uint64_t l2_ipv4; /* and what they are */
	uint64_t l2_ipv6;
	uint64_t plain_mac; /* the port's, as it lies in a frame */
	uint64_t
		bth; /* UDP's length and checksum, zero, and the first half of the BTH towards RoCE, as it lies there */
	struct plain_type plain_ipv4, plain_udp, plain_deth;
	struct plain_type plain_own, plain_group4, plain_group6; /* of the first 12 bytes of Ethernet */
	uint16_t pkey_index;                                     /* of the IB port */
	uint16_t ib_mtu;                                         /* largest payload towards IB, bytes */
	uint16_t roce_mtu;                                       /* largest payload towards RoCE, bytes */
	uint8_t versions;                                        /* ROCE_V1 | ROCE_V2 */
	uint8_t ttl;                                             /* for packets that come without a usable hop limit */
	bool rewrite_imm;       /* unicast: an immediate equal to the sender's QPN becomes the stand-in's */
	bool ib_is_ethernet;    /* the IB door is a RoCE device: the GRH area may be an IPv4 header */
	bool bridge_unknown;    /* a message of an unknown IB source crosses with the bridge's own address */
	bool sleep;             /* give the CPU away when idle: for machines with few CPUs */
	uint8_t addresses;      /* how many */
	uint8_t sl_of_dscp[64]; /* 0: the path's own SL */
	uint8_t dscp_of_sl[16]; /* for messages without a GRH */
	uint8_t pcp_of_sl[16];
	uint8_t address[MAX_ADDRESSES][16];
	uint8_t own_ip4[16], own_ip6[16]; /* the bridge's first of each version, not link-local; zero: none */
	struct {
		uint32_t address;   /* as it lies in a packet; zero: the address is IPv6 */
		uint32_t broadcast; /* zero: none */
	} own4[MAX_ADDRESSES];
	struct allow *allow;
	struct rte_ring *again[MAX_WORKERS]; /* every worker's again ring, to hand packets over */
	struct tables *tables;
	struct police *police; /* by group id and direction */
};

struct worker {
	const struct bench *bench;
	struct ib_door *door;
	struct rte_ring *odd;   /* to management, single producer */
	struct rte_ring *again; /* to this worker, many producers */
	struct rte_ring *send;  /* frames of management's, single producer */
	uint16_t port;
	uint16_t queue;
	uint16_t id;
	volatile bool stop;
	bool running;
	struct sights *sights; /* who watches; NULL: nobody. Exchanged under the worker (sight/ring.h) */
	uint64_t sighted;      /* packets numbered while somebody watched */
	uint32_t psn[PSN_STREAMS];
	struct group_counters *groups; /* by group id */
	struct pgm *pgm;               /* what is known of PGM streams; NULL: nobody looks */
	struct injection inject[DIRECTIONS];
	struct counters counters __attribute__((aligned(64)));
	struct latency latency[DIRECTIONS];
} __attribute__((aligned(64)));

/* Why a frame lies on the odd ring; in the mbuf's hash.usr. */
enum odd {
	ODD_CONTROL, /* ARP, ND, IGMP, MLD, ICMP */
	ODD_STANDIN, /* good RoCE, but its (host, QPN) has no stand-in yet */
	ODD_MAD,     /* for the bridge's own services; counted as mad_served */
};

/* prepare.c: derives what the packet path compares frames with, when the rest of the bench is filled in. */
void bench_prepare(struct bench *b);

/* Moves one burst, Ethernet to InfiniBand. Returns how many frames it took. */
unsigned roce_to_ib(struct worker *w);

/* The same for frames that other workers or management hand over. */
unsigned roce_to_ib_again(struct worker *w);

/* Moves one burst, InfiniBand to Ethernet. */
unsigned ib_to_roce(struct worker *w);

/* One round of everything; returns how much moved. */
unsigned worker_round(struct worker *w);

/* The loop, for rte_eal_remote_launch(): runs until w->stop, then drains. */
int worker_run(void *w);

#endif

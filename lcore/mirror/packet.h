/* SPDX-License-Identifier: Apache-2.0 */
/* A mirrored packet, the filter of a mirror, and the mirrors of a worker. */
#ifndef CAUSEWAY_MIRROR_PACKET_H
#define CAUSEWAY_MIRROR_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "../counters.h"
#include "../drop.h"

struct datapath;
struct tables;

enum { MAX_MIRRORS = 4 };

/* The point at which a packet was copied. */
enum mirror_point {
	MIRROR_RECEIVED = 1,
	MIRROR_SENT,       /* taken by the other port */
	MIRROR_DROPPED,    /* for the reason in drop */
	MIRROR_MANAGEMENT, /* punted to management */
	MIRROR_WAITING,    /* punted, to wait for a proxy QP or until its host has moved */
	MIRROR_HANDOFF,    /* to the worker that owns the proxy QP */
	MIRROR_OWN,        /* a frame from management, transmitted */
	MIRROR_POINTS
};

/* What the copied bytes are. */
enum mirror_form {
	MIRROR_FRAME,   /* from the first byte of Ethernet */
	MIRROR_MESSAGE, /* received from InfiniBand: the 40-byte area, then the payload */
	MIRROR_SEND,    /* handed to InfiniBand: the payload */
};

/* Fields of the IB port's descriptor, struct ib_send or ib_recv. */
struct mirror_ib {
	uint8_t dgid[16]; /* of a send */
	uint32_t qp;      /* the sending QP, by the port's number */
	uint32_t qpn;     /* the proxy QP's, or the local QP that received */
	uint32_t peer;    /* the other endpoint's QPN */
	uint32_t qkey;    /* of a send */
	uint32_t imm;
	uint32_t flow_label;
	uint16_t lid;       /* DLID of a send, SLID of a received message */
	uint16_t partition; /* as the bridge numbers them */
	uint16_t flags;     /* IB_SEND_* or IB_RECV_*; 0 with no descriptor */
	uint8_t sl;
	uint8_t tclass;
	uint8_t hop_limit;
	uint8_t source; /* which of the port's GIDs a send is from */
	bool known;     /* there was a descriptor */
};

/* A slot of a ring; the copied bytes follow it. */
struct mirrored_packet {
	uint64_t tsc;
	uint64_t packet; /* the same in all copies of one packet */
	uint32_t len;    /* of the packet, bytes */
	uint32_t kept;   /* bytes copied */
	uint16_t worker;
	uint8_t direction, point, drop, form;
	uint8_t place; /* in its burst, while staged */
	uint8_t port;  /* of a frame: the index of the port that it came by, or leaves by */
	struct mirror_ib ib;
};

enum { MIRROR_ROCE = 1, MIRROR_IB = 2 }; /* ports, as bits */

/* What a mirror copies. All conditions that are set must hold. Addresses and QPNs are compared with all those of the
 * packet's endpoints on both fabrics, so that one filter finds a packet on both sides. */
struct mirror_filter {
	uint8_t ports;      /* MIRROR_ROCE | MIRROR_IB */
	uint8_t directions; /* bits, 1 << enum direction */
	uint8_t points;     /* bits, 1 << enum mirror_point */
	uint8_t drop;       /* 0: any */
	bool by_host, by_group, by_qpn, by_vlan, by_port;
	uint8_t host[16], group[16]; /* IP addresses, IPv4-mapped, or GIDs */
	uint32_t qpn;
	uint16_t vlan;    /* of frames, 0: they have no tag; of messages: the segment's */
	uint8_t eth_port; /* index of an Ethernet port: of frames the one they came by, or leave by; of messages the
			     segment's */
};

/* What a packet must have for a filter by host to want it: one of the host's addresses, by their last four bytes, or
 * one of its LIDs. The worker resolves it again when the tables have changed. */
struct mirror_prefilter {
	uint64_t changes; /* one more than those of the tables when it was resolved; 0: it is not */
	unsigned addresses;
	uint32_t address[4]; /* as in a packet; those beyond addresses are the first again */
	uint64_t lids[2];    /* bits, from first_lid on */
	uint16_t first_lid;
	bool any; /* there is no room for what the host has: no packet is ruled out */
};

/* Whose a local QPN is, as looked up in the table of proxy QPs. Valid as long as that does not change. */
struct mirror_peer {
	uint64_t of;      /* one more than the changes of the table, and the lower 24 bits the QPN */
	uint32_t address; /* the host's last four bytes; 0: nobody's */
	uint32_t qpn;     /* on RoCE */
};

enum { MIRROR_PEERS = 1024 }; /* places, by the lower bits of the QPN: 16 KiB, which the first-level cache holds */

struct mirror_ring;

/* The mirrors of a worker; replaced as a whole. Nobody changes them but for what their worker resolves. */
struct mirrors {
	const struct datapath *datapath;
	struct mirror_peer peer[MIRROR_PEERS];
	unsigned n;
	struct {
		struct mirror_filter filter;
		struct mirror_prefilter prefilter;
		bool absent[DIRECTIONS]; /* the burst that is being bridged has nothing of the filter's host */
		struct mirror_ring *ring;
	} mirror[MAX_MIRRORS];
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of the tables: one cache line each, key first.
 *
 *   RoCE to IB:  hosts        IP            a RoCE host; it and the groups also have their segment in their keys
 *                proxy_qps     IP, QPN       its proxy QP on IB, one in each partition that it sends to
 *                nodes        IP            the path to an IB node
 *                groups       IP group      the path to a group; one of plain UDP also has the port in its key
 *   IB to RoCE:  proxy_qpns  local QPN     the RoCE host and QPN behind a proxy QP
 *                sources      GID or LID    the addresses of an IB node
 *                mgids        MGID          the RoCE side of a group
 *
 * An IP address is 16 bytes, an IPv4 address IPv4-mapped (::ffff:a.b.c.d). Byte arrays are in wire
 * order, numbers in host order. An entry never changes under a reader but for the fields called atomic.
 */
#ifndef CAUSEWAY_ENTRIES_H
#define CAUSEWAY_ENTRIES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The key of every entry: an address and a number that only some tables use. */
struct table_key {
	uint8_t addr[16];
	uint64_t number;
};

enum {
	ROCE_V1 = 1,
	ROCE_V2 = 2,
	PLAIN_UDP = 4, /* in place of a RoCE version: datagrams without RoCE's headers */
	SHARED = 8,    /* with a version: the segments of a group have bits in mgid_entry's id */

	PLAIN_QPN = 0x1000000, /* in place of the source's QPN: no packet has one of 25 bits */

	NODE_BRIDGE = 1, /* another bridge: its packets have crossed a bridge */
	NODE_GRH = 2,    /* sends to it carry a GRH */
	NODE_OWN = 4,    /* the bridge's own port */
	NODE_HEARD = 8,  /* it is in the partition that it was last heard in */

	GROUP_TO_IB = 1,
	GROUP_TO_ROCE = 2,
	GROUP_REWRITE_IMM = 4, /* an immediate equal to the sender's QPN becomes the proxy QP's */
	GROUP_POLICED = 8,     /* its rate is limited */
	GROUP_PGM = 16,        /* its messages are PGM, and tracked */
	GROUP_ACTIONS = GROUP_POLICED | GROUP_PGM,
	GROUP_SHARED = 32,         /* of group_entry: its partition is its own, whatever its segments' is */
	GROUP_PARTITION_SHIFT = 5, /* the upper bits of mgid_entry's flags are the partition */

	/* The partitions of the IB port that the bridge uses have numbers; that of [ib] pkey is 0. A queue pair sends
	 * and receives in one of them. */
	MAX_PARTITIONS = 8,
	PARTITION_SHIFT = 32, /* in the number of a proxy QP's key; the QPN is below */
	PARTITION_MASK = 0xff,
	PARTITION_HEARD = 0xff, /* in a node's entry: the one that it was last heard in (table_partition) */

	/* RoCE segments have numbers, too. The same address in two of them is two hosts, or two groups. */
	MAX_SEGMENTS = 8,
	SEGMENT_SHIFT = 48,   /* in the number of the keys of hosts, proxy_qps and groups; all else is below */
	GROUP_ID_BITS = 24,   /* of mgid_entry's id; above is the segment, or, SHARED, a bit for each */
	PLAIN_PORT_BITS = 16, /* in place of a group's QPN; above is the shard (shards.h) */
};

/* L2 of a RoCE host in one word, so that a move is one atomic store: in memory six bytes of
 * MAC address in the order of a frame, then the VLAN id, little-endian. */
#define L2_TCI(l2) ((uint16_t)((l2) >> 48)) /* 802.1Q VLAN id; 0 = untagged */
#define L2_MAC_BITS 48

/* The destination of messages to RoCE: common to proxy QPs and groups. All messages to groups are for the same QPN, so
 * a group has another number there (table_group_shard, table_plain_port). A group of plain UDP has the TTL of its
 * datagrams in place of the Q_Key. */
struct roce_peer {
	uint8_t ip[16];
	uint64_t l2; /* atomic */
	uint32_t qpn;
	uint32_t qkey;
};

struct host_entry {
	struct table_key key; /* IP, segment */
	uint64_t l2;          /* atomic */
	uint32_t id;
	uint8_t version; /* ROCE_V1 or ROCE_V2: of its last packet */
	uint8_t is_static;
	uint8_t is_routed;    /* the MAC address is a router's */
	uint8_t is_confirmed; /* it has answered a request for its MAC address, or need not */
	uint8_t spare[24];
};

struct proxy_qp_entry {
	struct table_key key; /* host IP; host QPN, partition and segment; PLAIN_QPN: sends the host's plain UDP */
	uint32_t id;
	uint32_t qp;     /* the port's handle */
	uint32_t qpn;    /* on IB */
	uint16_t worker; /* whose QP it is */
	uint8_t source;  /* the port's number for the GID that it sends from */
	uint8_t used;    /* atomic; see table_mark_used */
	uint64_t src;    /* atomic; the host's MAC address as in l2, and above it its shard (shards.h); 0: any */
	uint8_t partition;
	uint8_t spare[15];
};

struct node_entry {
	struct table_key key; /* IP, 0 */
	uint8_t gid[16];
	uint32_t id;
	uint16_t lid;
	uint16_t mtu; /* largest payload, bytes */
	uint8_t sl;
	uint8_t flags;     /* NODE_* */
	uint8_t rate;      /* enum ibv_rate; 0: the port's */
	uint8_t hop_limit; /* on InfiniBand */
	uint8_t partition; /* or PARTITION_HEARD */
	uint8_t used;      /* atomic; see table_mark_used */
	uint8_t spare[10];
};

struct group_entry {
	struct table_key key; /* IP group, segment; of plain UDP the port, too */
	uint8_t mgid[16];
	uint32_t id;
	uint16_t mlid;
	uint16_t mtu; /* largest payload towards IB, bytes */
	uint8_t sl;
	uint8_t hop_limit;
	uint8_t flags; /* GROUP_* */
	uint8_t rate;  /* enum ibv_rate; 0: the port's */
	uint8_t partition;
	uint8_t spare[3];
	uint32_t qkey;      /* on IB */
	uint32_t roce_qkey; /* on the RoCE side; of plain UDP 0 */
};

struct proxy_qpn_entry {
	struct table_key key; /* zero, local QPN */
	struct roce_peer peer;
	uint8_t shard; /* atomic; the host's (shards.h) */
	uint8_t spare[3];
	uint8_t version;
	uint8_t used; /* atomic; see table_mark_used */
	uint8_t partition;
	uint8_t segment;
};

struct source_entry {
	struct table_key key; /* GID, 0; or zero, LID */
	uint8_t ip4[16];      /* IPv4-mapped, or zero: none */
	uint8_t ip6[16];      /* or zero: none */
	uint32_t id;
	uint8_t flags;     /* NODE_* */
	uint8_t used;      /* atomic; see table_mark_used */
	uint8_t partition; /* or PARTITION_HEARD */
	uint8_t spare;
};

struct mgid_entry {
	struct table_key key;  /* MGID, 0 */
	struct roce_peer peer; /* SHARED: without VLAN */
	uint32_t id;           /* and the segment, or those that share it */
	uint8_t version;       /* or PLAIN_UDP; SHARED */
	uint8_t flags;         /* GROUP_*, and the partition */
	uint16_t mtu;          /* largest payload towards RoCE, bytes */
};

_Static_assert(offsetof(struct node_entry, partition) == offsetof(struct group_entry, partition), "read as one");
_Static_assert(offsetof(struct mgid_entry, peer) == offsetof(struct proxy_qpn_entry, peer), "read as one");
_Static_assert(MAX_PARTITIONS << GROUP_PARTITION_SHIFT == 256, "the rest of the flags");
_Static_assert(GROUP_ID_BITS + MAX_SEGMENTS <= 32, "a bit for each");
_Static_assert(sizeof(struct roce_peer) == 32, "half a cache line");
_Static_assert(sizeof(struct host_entry) == 64, "one cache line");
_Static_assert(sizeof(struct proxy_qp_entry) == 64, "one cache line");
_Static_assert(sizeof(struct node_entry) == 64, "one cache line");
_Static_assert(sizeof(struct group_entry) == 64, "one cache line");
_Static_assert(sizeof(struct proxy_qpn_entry) == 64, "one cache line");
_Static_assert(sizeof(struct source_entry) == 64, "one cache line");
_Static_assert(sizeof(struct mgid_entry) == 64, "one cache line");

#endif

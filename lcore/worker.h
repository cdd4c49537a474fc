/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker: one lcore between an Ethernet port, or several, and an InfiniBand port.
 *
 *   Ethernet ── roce_to_ib ──▶ port            punted frames ──▶ punt ring ──▶ management
 *   Ethernet ◀── ib_to_roce ── port            management ──▶ requeue ring (packets to look up again)
 *                                              management ──▶ send ring  (frames to transmit)
 *
 * An mbuf belongs to whoever has the pointer. When a ring is full the packet is dropped; the worker never waits.
 */
#ifndef CAUSEWAY_WORKER_H
#define CAUSEWAY_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "counters.h"
#include "../ibside/port.h"
#include "../ibside/wake.h"
#include "probe/inject.h"
#include "probe/latency.h"
#include "../tables/tables.h"

struct rte_mbuf;
struct rte_ring;
struct police;
struct pgm;
struct mirrors;
struct copies;
struct handover;
struct pending;

enum {
	BURST = 64,
	MAX_WORKERS = 64,
	MAX_PORTS = MAX_SEGMENTS, /* Ethernet ports: each has a segment. A power of two */
	MAX_PREFIXES = 64,        /* of admission: walked only for the first packet of a (host, QPN) */
	MAX_BRIDGE_MACS = 64,     /* of admission, too */
	MAX_ADDRESSES = 16,       /* the bridge's own in a segment */
	PSN_STREAMS = 256,
	ASKED_MOST = 32, /* nodes that a worker asks management for in 0.1 s */
	PUNT_HOSTS = 256,
	HOST_SHARDS = 64, /* of a fleet's work: fleet/shards */
	GROUP_SHARDS = 4096,
	GROUP_WORDS = GROUP_SHARDS / 64,
};

/* A set of Ethernet ports, as bits by their indices. */
enum {
	ONLY_PORT = 1,                    /* the one of a bridge that has never had others */
	PORTS_ALL = (1 << MAX_PORTS) - 1, /* the indices */
	PORTS_SEVERAL = 1 << MAX_PORTS, /* beside them: there are others than index 0, or were, or are about to come */
};

/* An IP prefix: v4 prefixes are IPv4-mapped and 96 bits longer. */
struct prefix {
	uint8_t addr[16];
	uint8_t len;      /* bits */
	uint8_t segments; /* a set of their numbers, where it counts */
};

/* Which sources may have proxy QPs: those in prefixes, and no other bridge. Replaced as a whole while workers run
 * (policy.h). */
struct admission {
	uint8_t n, n_bridges;
	struct prefix prefix[MAX_PREFIXES];
	uint64_t bridge[MAX_BRIDGE_MACS]; /* MAC addresses as in datapath.mac */
};

/* A pattern for 16 bytes of headers: type, where the mask is set. */
struct fastpath_type {
	uint8_t mask[16];
	uint8_t type[16];
} __attribute__((aligned(16)));

/* What a worker does that has found nothing for a while. */
enum idle_mode {
	IDLE_POLL,
	IDLE_SLEEP,     /* for some microseconds at a time: for machines with few CPUs */
	IDLE_INTERRUPT, /* until it is woken (run.c) */
};

/* Shards of a fleet's work, a bit each. */
struct shards {
	uint64_t hosts, groups[GROUP_WORDS];
};

/* What this bridge may forward of its fleet's work (lease.h). Elements of shards are atomic. */
struct lease {
	uint64_t changes;  /* atomic: counts those of the shards below */
	uint64_t deadline; /* atomic: a TSC */
	uint64_t until;    /* atomic: the same, by coarse_clock() */
	struct shards open;
	struct shards leave; /* of open: about to be another member's */
	struct shards hold;  /* about to be this bridge's; in open, too: what was kept is sent first (handover.h) */
	uint64_t attracts;   /* host shards of hold that hosts are to reach here already, atomic */
	uint64_t late; /* TSC cycles, atomic: what was forwarded of these may come so long after they are opened */
	uint64_t *forwarded; /* a hash set of packets that another member has sent of these, elements atomic; 0: none */
	unsigned n_forwarded;
};

/* What a worker does of it. */
struct lease_view {
	uint64_t changes; /* as they were when it took them */
	uint64_t settled; /* atomic: the last of them of which nothing waits any more, and nothing that was kept */
	uint64_t done;    /* atomic: the last of them of which nothing is released any more either */
	unsigned waits[DIRECTIONS]; /* packets until next is in force, at most; 0: nothing waits */
	bool leaves, keeps;         /* whether there are such shards */
	bool releases[DIRECTIONS];
	bool unsent[DIRECTIONS]; /* what was kept of these has not been sent yet */
	uint64_t late_until;     /* a TSC: until then these are released */
	/* The MAC addresses that frames to hosts come from, by the hosts' shards, as they lie there; 0: the port's. */
	uint64_t source[HOST_SHARDS];
	struct shards shards;  /* it forwards these */
	struct shards leave;   /* and notes what, of these */
	struct shards keep;    /* it keeps what comes of these */
	struct shards release; /* opened, of which what was kept is to be sent first, and forwarded what comes late */
	/* Atomic: what was closed, or is held no more, since the worker took a change: it may be open or held again. */
	struct shards closed, dropped;
	struct {
		struct shards shards, keep;
	} next;
};

/* A VLAN of an Ethernet port, with what is its own. prepare.c sets the second half, which each packet reads. */
struct segment {
	uint16_t vlan;     /* 802.1Q VLAN id; 0: untagged */
	uint16_t roce_mtu; /* largest payload towards RoCE, bytes */
	uint8_t versions;  /* ROCE_V1 | ROCE_V2 */
	uint8_t ttl;       /* for packets without a usable hop limit */
	uint8_t partition; /* the only one that its messages cross to and from; PARTITION_ANY: all do */
	uint8_t addresses; /* how many */
	uint8_t port;      /* index of its port */
	uint8_t address[MAX_ADDRESSES][16]; /* the bridge's own */
	uint8_t own_ip4[16], own_ip6[16];   /* the first of each version, not link-local; zero: none */
	struct {
		uint32_t address;   /* network byte order; zero: the address is IPv6 */
		uint32_t broadcast; /* zero: none */
	} own4[MAX_ADDRESSES];

	uint32_t l2_len __attribute__((aligned(64))); /* of Ethernet and, with a VLAN, 802.1Q headers */
	uint64_t l2_mask;                             /* mask of the last eight bytes before the IP header */
	uint64_t l2_ipv4;                             /* their value for IPv4 */
	uint64_t l2_ipv6;
	uint64_t group_key;       /* in the number of the keys of its groups and hosts: itself */
	uint64_t from_key;        /* in that of its proxy QPs: the partition, too, where there is only one */
	uint64_t mac;             /* of its port, in the byte order of the frame */
	struct fastpath_type own; /* of the first 12 bytes of Ethernet: to the port; in a fleet, to a shard */
} __attribute__((aligned(64)));

enum {
	PARTITION_ANY = PARTITION_HEARD, /* the same number, so that most sources are found right by one comparison */
	SEGMENT_NONE = MAX_SEGMENTS,     /* the number of a segment that matches no frame */
};

/* What all workers share. Constant while they run, except for what policy.h changes. */
struct datapath {
	uint16_t roce_pkey;
	uint8_t segments;  /* one more than the highest number; 1: number 0 is the only one, of an only port */
	uint8_t port_mask; /* of an mbuf's port: 0 where there is one, because drivers set it as they like (ports.h) */
	uint16_t ports; /* Ethernet ports that workers are to poll: a set, which each takes over between two bursts */
	uint64_t
		bth; /* UDP's length and checksum, zero, and the first half of the BTH towards RoCE, as it lies there */
	struct fastpath_type fastpath_ipv4, fastpath_udp, fastpath_deth;
	struct fastpath_type fastpath_group4, fastpath_group6; /* of the first 12 bytes of Ethernet: to groups */
	bool rewrite_imm;       /* unicast: an immediate equal to the sender's QPN becomes the proxy QP's */
	bool ib_is_ethernet;    /* the IB port is a RoCE device: the GRH area may be an IPv4 header */
	bool bridge_unknown;    /* a message of an unknown IB source is sent with the bridge's own address */
	bool learn;             /* management is asked for nodes that no table has */
	uint8_t idle;           /* enum idle_mode */
	bool confine;           /* workers' threads can make few system calls (confine.h) */
	uint8_t sl_of_dscp[64]; /* 0: the path's own SL */
	uint8_t dscp_of_sl[16]; /* for messages without a GRH */
	uint8_t pcp_of_sl[16];
	struct segment segment[MAX_SEGMENTS + 1]; /* by number */
	uint8_t segment_of[MAX_PORTS][4096];      /* by port and VLAN id */
	uint64_t mac[MAX_PORTS];                  /* of the ports, first byte highest, 48 bits */
	uint64_t virtual_mac;                     /* of host shard 0, the same way; zero: no fleet */
	struct admission *admission;
	struct rte_ring *requeue[MAX_WORKERS]; /* every worker's requeue ring, for handoffs */
	struct wake *bell[MAX_WORKERS];        /* every worker's */
	struct wake *manager;                  /* management's: wakes it when there is something on a punt ring */
	struct tables *tables;
	struct police *police; /* by group id and direction */
	struct lease lease __attribute__((aligned(64)));
};

/* Classes of what is punted; punt.h. */
enum punt_class {
	PUNT_CLASS_CONTROL,  /* ARP, ND, IGMP, MLD, ICMP */
	PUNT_CLASS_HOST,     /* data of a host that has shown that it exists */
	PUNT_CLASS_STRANGER, /* data of others, and all that can wait */
	PUNT_CLASSES,
	PUNT_SHARES = (MAX_SEGMENTS + 1) * PUNT_CLASSES, /* each segment has its own, and what is none's */
};

/* Frames of one class of a segment: of all hosts, and by a hash of the host. */
struct punt_counts {
	uint16_t all, of[PUNT_HOSTS];
};

struct worker {
	const struct datapath *datapath;
	struct ib_port *ib_port;
	struct rte_ring *punt;    /* to management, single producer */
	struct rte_ring *requeue; /* to this worker, many producers */
	struct rte_ring *send;    /* frames from management, single producer */
	uint16_t ports;           /* those that it polls: datapath->ports, as it was at the last turn */
	uint16_t port[MAX_PORTS]; /* as DPDK numbers them, by index */
	uint16_t queue;           /* of each */
	uint16_t id;
	volatile bool stop;
	bool running;
	bool rx_interrupt[MAX_PORTS]; /* the port's interrupt is armed before each sleep */
	int epoll;                    /* of all that wakes the worker; -1: nothing does */
	unsigned empty;               /* polls since one found something */
	bool unwoken;                 /* packets had come when a sleep ended, and nothing has woken it since */
	struct mirrors *mirrors;      /* atomic; NULL: none. Replaced by mirror_exchange() (mirror/ring.h) */
	uint64_t packets_numbered;    /* packets that have got a number */
	uint32_t psn[PSN_STREAMS];
	struct asked {
		uint64_t since; /* TSC, when the slice of time began */
		unsigned n;
		uint64_t what[ASKED_MOST]; /* keys, folded */
		uint8_t of[PUNT_HOSTS];    /* by the host that sent to them */
	} asked[DIRECTIONS];               /* see unknown.c */
	struct group_counters *groups;     /* by group id */
	struct copies *copies;             /* of messages to groups of several segments; see group_copies.c */
	unsigned copied;                   /* copies that are not sent yet */
	struct pgm *pgm;                   /* the PGM tracker; NULL: none */
	struct port_counters *by_port;     /* of several ports, by index */
	struct injection inject[DIRECTIONS];
	struct lease_view lease;
	struct handover *handover;                     /* NULL: the bridge is in no fleet */
	struct pending *pending;                       /* packets whose order is kept though management has some */
	struct wake bell __attribute__((aligned(64))); /* wakes it for its rings */
	struct counters counters __attribute__((aligned(64)));
	struct latency latency[DIRECTIONS];
	/* Frames that the worker has put on the punt ring, and that management has taken: each has its own lines. */
	struct punt_counts punted[PUNT_SHARES] __attribute__((aligned(64)));
	struct punt_counts taken[PUNT_SHARES] __attribute__((aligned(64)));
} __attribute__((aligned(64)));

/* Why a frame was punted; in the mbuf's hash.usr. */
enum punt {
	PUNT_CONTROL,  /* ARP, ND, IGMP, MLD, ICMP */
	PUNT_PROXY_QP, /* good RoCE, but its (host, QPN) has no proxy QP yet, or its host may have moved */
	PUNT_SOURCE,   /* the key of a source that no table has; the packet is counted as dropped */
	PUNT_NODE,     /* the same of a destination on InfiniBand */
	PUNT_MAD,      /* for the bridge's own services; counted as mad_served */
	PUNT_PREPARE,  /* a copy of a frame that is kept (handover.h), and will need a proxy QP */

	PUNT_PARTITION_SHIFT = 8, /* above is the partition that the proxy QP is to send in */
	PUNT_HOST_SHIFT = 16,     /* and struct punter */
	PUNT_CLASS_SHIFT = 24,
	PUNT_CLASS_MASK = 0x1f,
};

/* prepare.c: derives the patterns of the fast path from the other fields. segment_prepare() does so for one segment. */
void datapath_prepare(struct datapath *dp);
void segment_prepare(struct datapath *dp, unsigned number);

/* Moves one burst of each port, Ethernet to InfiniBand. Returns how many frames it took. */
unsigned roce_to_ib(struct worker *w);

/* The same for packets on the requeue ring. */
unsigned roce_to_ib_requeued(struct worker *w);

/* The same for what has waited behind such (pending.h); some bursts. */
unsigned roce_to_ib_behind(struct worker *w);

/* Moves one burst, InfiniBand to Ethernet. */
unsigned ib_to_roce(struct worker *w);

/* Move what was kept of shards that are opened now, which is older than what comes; some bursts. */
unsigned roce_to_ib_kept(struct worker *w);
unsigned ib_to_roce_kept(struct worker *w);

/* One iteration of the loop; returns how many packets moved. */
unsigned worker_poll(struct worker *w);

/* Sends what is queued when the bridge stops. Bounded in time, because peers may go on sending. */
void worker_drain(struct worker *w);

/* The loop, for rte_eal_remote_launch(): runs until w->stop, then drains. */
int worker_run(void *w);

#endif

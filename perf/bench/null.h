/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A door that costs next to nothing, and gives every packet new addresses on each of its trips.
 *
 *   roce_to_ib:  ring ─▶ rx_burst ─▶ worker ─▶ post: made a frame again, readdressed, back to the ring
 *   ib_to_roce:  ring ─▶ poll: made a message again, readdressed ─▶ worker ─▶ tx_burst: back to the ring
 *
 * The same 2048 mbufs go round and round, so that payloads come from the last-level cache from 1 KiB up, as they do
 * from a NIC that writes there. Their addresses wander over the whole of the tables: each trip changes a packet by the
 * next step of a stream, by XOR. The free bits of addresses are the low ones, and all their values are known to the
 * tables, so that a packet finds its way wherever it has wandered. The ICRC goes along with the same step: CRCs are
 * linear, so what changes the same bits at the same place of packets of one length changes their ICRCs alike.
 */
#ifndef CAUSEWAY_BENCH_NULL_H
#define CAUSEWAY_BENCH_NULL_H

#include <stdbool.h>
#include <stdint.h>

#include "ibside/door.h"

struct rte_mbuf;
struct rte_ring;

/* What one trip changes. Addresses in wire order, the ICRC as it is stored. */
struct step {
	uint32_t from; /* the source: a RoCE host's address or QPN, an IB node's GID */
	uint32_t to;   /* the destination: a node's or group's address, a stand-in's QPN, a group's MGID */
	uint32_t icrc;
	uint32_t spare;
};

/* The number of steps is prime, so that a packet, which is one of 2048 in a ring, meets all of them. */
struct stream {
	const struct step *steps;
	uint32_t n;
	uint32_t next;
};

/* Where things lie in a frame, from its first byte. */
struct frame_layout {
	uint32_t len;
	uint32_t from_at;
	uint32_t to_at;
	uint32_t icrc_at;
	uint32_t sum_at;      /* of the IPv4 header's checksum; 0: there is none */
	uint32_t from_summed; /* all ones when the source lies in that header, else 0 */
};

/* What messages have in common. The low 32 bits of GIDs are the last bytes, hence the upper half of a word. */
struct message_layout {
	uint32_t len; /* with the 40-byte area */
	uint32_t qpn; /* that received it; of stand-ins, the lowest */
	uint32_t src_qpn;
	bool to_group; /* the step's destination is an MGID, else a stand-in's QPN */
	uint64_t grh[5];
};

struct null_door {
	struct ib_door door;
	struct rte_ring *frames;   /* post puts whole frames back here; NULL: no sends are expected */
	struct rte_ring *messages; /* poll takes messages from here; NULL: there are none */
	struct frame_layout frame;
	struct message_layout message;
	struct stream stream;
	bool paused;            /* atomic: poll gives nothing */
	struct ib_send *record; /* the first sends are copied here; NULL: they are not */
	uint32_t record_n;      /* how many have been */
	uint32_t record_max;
};

/* Where a message has wandered: in the private area of its mbuf, in wire order. */
struct wandered {
	uint32_t from;
	uint32_t to;
};

struct null_door *null_door_new(void);
void null_door_free(struct null_door *d);

/* Has poll give nothing, or give again. For any thread. */
void null_door_pause(struct null_door *d, bool on);

/* Has the door keep its first max sends. 0 or -ENOMEM. */
int null_door_record(struct null_door *d, uint32_t max);

/* What post and poll do to a burst; the floors do the same. */
void null_frames(struct null_door *d, struct rte_mbuf **m, unsigned n);
void null_messages(struct null_door *d, struct rte_mbuf **m, unsigned n, struct ib_recv *recvs);

#endif

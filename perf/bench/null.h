/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An IB port that costs next to nothing, and gives every packet new addresses on each of its trips.
 *
 *   roce_to_ib:  ring ─▶ rx_burst ─▶ worker ─▶ post: made a frame again, readdressed, back to the ring
 *   ib_to_roce:  ring ─▶ poll: made a message again, readdressed ─▶ worker ─▶ tx_burst: back to the ring
 *
 * The same 2048 mbufs circulate, so that payloads from 1 KiB up come from the last-level cache, as they do from a NIC
 * that writes there. Each trip XORs the low bits of a packet's addresses with the next step of a stream; the tables
 * have entries for all values of those bits. The step has the change of the ICRC as well: CRCs are linear, so flipping
 * the same bits of packets of one length changes their ICRCs alike.
 */
#ifndef CAUSEWAY_BENCH_NULL_H
#define CAUSEWAY_BENCH_NULL_H

#include <stdbool.h>
#include <stdint.h>

#include "../../ibside/port.h"

struct rte_mbuf;
struct rte_ring;

/* What one trip changes in a packet. Addresses in wire order, the ICRC as it is stored. */
struct step {
	uint32_t from; /* the source: a RoCE host's address or QPN, an IB node's GID */
	uint32_t to;   /* the destination: a node's or group's address, a proxy QP's QPN, a group's MGID */
	uint32_t icrc;
	uint32_t spare;
};

/* The number of steps is prime, so that each of 2048 packets in a ring goes through all of them. */
struct stream {
	const struct step *steps;
	uint32_t n;
	uint32_t next;
};

static inline const struct step *next_step(struct stream *s)
{
	const struct step *step = &s->steps[s->next];
	s->next = s->next + 1 == s->n ? 0 : s->next + 1;
	return step;
}

/* Where things lie in a frame, from its first byte. */
struct frame_layout {
	uint32_t len;
	uint32_t from_at;
	uint32_t to_at;
	uint32_t icrc_at;
	uint32_t sum_at;      /* of the IPv4 header's checksum; 0: there is none */
	uint32_t from_summed; /* all ones if the source is in that header, else 0 */
};

/* What messages have in common. The low 32 bits of GIDs are the last bytes, hence the upper half of a word. */
struct message_layout {
	uint32_t len; /* with the 40-byte area */
	uint32_t qpn; /* receiving QPN; of proxy QPs, the lowest */
	uint32_t src_qpn;
	bool to_group; /* the step's destination is an MGID, else a proxy QP's QPN */
	uint64_t grh[5];
};

struct null_port {
	struct ib_port ib_port;
	struct rte_ring *frames;   /* post puts whole frames back here; NULL: no sends are expected */
	struct rte_ring *messages; /* poll takes messages from here; NULL: there are none */
	struct frame_layout frame;
	struct message_layout message;
	struct stream stream;
	bool paused; /* atomic: poll returns nothing */
	/* For tests: the first sends are copied here. */
	struct ib_send *record;
	uint32_t record_n, record_max;
};

/* The changed address bits of a message, in the private area of its mbuf, in wire order. */
struct changed {
	uint32_t from;
	uint32_t to;
};

struct null_port *null_port_new(void);
void null_port_free(struct null_port *d);

/* Has poll return nothing, or messages again. For any thread. */
void null_port_pause(struct null_port *d, bool on);

/* What post and poll do to a burst; the floors do the same. */
void null_frames(struct null_port *d, struct rte_mbuf **m, unsigned n);
void null_messages(struct null_port *d, struct rte_mbuf **m, unsigned n, struct ib_recv *recvs);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fuzzers share: one worker between two ports that are nothing but a packet each, with tables in which most
 * look-ups of a seed succeed. There is no EAL: nothing here needs one.
 *
 * Every packet lies in memory of exactly its size, so that AddressSanitizer detects an access one byte too far. When
 * the packet path frees an mbuf, only its reference count goes down: mbufs have one reference too many.
 */
#ifndef CAUSEWAY_LCORE_FUZZ_RIG_H
#define CAUSEWAY_LCORE_FUZZ_RIG_H

#include <rte_mbuf.h>
#include <stddef.h>
#include <stdint.h>

#include "check.h"
#include "../burst.h"

/* The parts of a rig, made at the first call. There are two: of a bridge with one Ethernet port and one segment, and of
 * one with two of each, where each segment is bound to a partition and has the other's addresses. */
struct rig {
	unsigned ports; /* and segments, and partitions: those of an index belong together */
	unsigned in;    /* the port that has the frame */
	unsigned out;   /* that took the last one */
	struct datapath datapath;
	struct worker *worker;
	struct rte_mbuf *frame;        /* what the port gives next, or NULL */
	const struct ib_recv *message; /* what the port gives next, or NULL */
	unsigned posted;               /* how many messages the port took */
	unsigned transmitted;          /* how many frames the port took */
	struct rte_mbuf *last;         /* the last of them */
	struct mirrors *mirrors;       /* the attached mirrors, if there are any */
};

/* Options of every input. */
enum {
	MIRRORED = 0x80, /* mirrors are attached */
	TWO = 0x40,      /* of the second rig */
	SECOND = 0x20,   /* by its second port */
};

struct rig *rig(uint8_t options);

/* Makes an mbuf of n bytes with room bytes of headroom and of tailroom; data may be NULL. Free with mbuf_end(). */
struct rte_mbuf *mbuf_make(const uint8_t *data, size_t n, size_t headroom, size_t tailroom);
void mbuf_end(struct rte_mbuf *m);

/* Attaches mirrors to the worker or detaches them, and reads the packets mirrored before. */
void mirror_by(struct rig *r, uint8_t options);

/* Ends the process when a packet was lost or counted twice since the rig was made. */
void check_counters(const struct rig *r);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies packets for mirrors, at the points where a packet changes owner.
 *
 *   worker ── mirrored packet ──▶ ring ──▶ mirror      one ring for each worker and mirror, with one producer
 *
 * A full ring counts what it missed; the worker never waits. Without a mirror the cost is a test for each burst and one
 * for each drop.
 *
 * Where packets are given away and some may not be taken, there are two steps: all are staged before the call, and
 * those that were taken are published after it.
 */
#ifndef CAUSEWAY_MIRROR_H
#define CAUSEWAY_MIRROR_H

#include "packet.h"

struct burst;
struct ib_recv;
struct rte_mbuf;
struct worker;

/* n frames were received from Ethernet, or n messages from InfiniBand. Numbers them, too. */
void mirror_frames(struct worker *w, struct rte_mbuf **m, unsigned n);
void mirror_messages(struct worker *w, const struct ib_recv *r, unsigned n);

/* Stages frames, or sends, that are about to be given away. */
void mirror_stage(struct worker *w, enum mirror_point p, enum direction d, enum drop reason, struct rte_mbuf **m,
		  unsigned n);
void mirror_stage_sends(struct worker *w, const struct burst *b);

/* Publishes the first n of those staged: they were taken. */
void mirror_taken(struct worker *w, unsigned n);

/* A packet, or a message with its descriptor, is dropped. */
void mirror_drop(struct worker *w, enum direction d, enum drop reason, struct rte_mbuf *m);
void mirror_drop_message(struct worker *w, enum drop reason, const struct ib_recv *r);

/* A frame that a worker has punted is dropped by management, on whose thread this is called and whose mirrors s are. */
void mirror_punted_drop(struct mirrors *s, uint16_t worker, enum drop reason, struct rte_mbuf *m);

#endif

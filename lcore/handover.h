/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shards that pass from one member of a fleet to another without a loss. Both hear what is sent to groups, and for a
 * moment one or the other hears what is sent to the shard's MAC address:
 *
 *   owner:     forwards ▶ forwards, and notes what ──────────────▶ stops ─ what it noted ─┐
 *   successor: drops ───▶ keeps what it hears ────────────────────────────────────────────┴▶ sends the rest ▶ forwards
 *
 * A packet is known by a hash of its bytes. What the successor hears while it sends the rest is kept, too, so that all
 * stays in order. It keeps the newest, of a bounded number; any other one is dropped as not_mine, as if nothing were
 * kept.
 */
#ifndef CAUSEWAY_HANDOVER_H
#define CAUSEWAY_HANDOVER_H

#include "egress.h"
#include "lease.h"

enum {
	KEPT_MOST = 4096,   /* packets of a direction. A power of two */
	KEPT_BURSTS = 4,    /* that are sent of them in a turn: more than come meanwhile */
	NOTED_MOST = 32768, /* packets that a worker notes. A power of two */
};

/* A packet of a shard that is about to be this bridge's. */
struct kept_packet {
	struct ib_recv message; /* of a frame only the mbuf */
	uint64_t id;
	uint16_t shard; /* of its direction */
};

struct kept {
	unsigned first, n; /* n is atomic */
	struct kept_packet packet[KEPT_MOST];
};

/* One worker's. */
struct handover {
	struct kept kept[DIRECTIONS];
	uint64_t noted; /* atomic: how many were; the last ones are below */
	uint64_t note[NOTED_MOST];
};

/* What a packet of a burst is known by. frame is where it begins, though the mbuf may have been trimmed. */
uint64_t frame_id(const struct burst *b, unsigned i, const uint8_t *frame);
uint64_t message_id(const struct message *m);

/* The owner notes what it is about to send: frames that are trimmed, and messages whose headers are not written yet. */
void note_frames(struct worker *w, const struct burst *b);
void note_messages(struct worker *w, const struct egress *e);

/* The successor keeps packet i of a burst, which is of a host's shard, or a message to a group. */
void keep_frame(struct worker *w, struct burst *b, unsigned i);
void keep_message(struct worker *w, const struct egress *e, unsigned i);

/* Takes at most a burst of what is kept of shards that are opened now, and drops what the owner has forwarded. Returns
 * how many were taken; *rest: whether there are more. */
unsigned take_kept(struct worker *w, enum direction d, struct ib_recv *out, bool *rest);

/* Drops what is kept of shards that are not held any more, and at the worker's end all. */
void drop_kept(struct worker *w);
void end_kept(struct worker *w);

/* Takes what management has changed of the shards. Between two bursts. */
static inline void shards_update(struct worker *w)
{
	if (likely(!lease_changed(w)))
		return;
	lease_take(w);
	drop_kept(w);
}

/* Whether nothing is kept. */
static inline bool keeps_nothing(const struct worker *w)
{
	const struct handover *h = w->handover;
	return !h || (__atomic_load_n(&h->kept[ROCE_TO_IB].n, __ATOMIC_RELAXED) |
		      __atomic_load_n(&h->kept[IB_TO_ROCE].n, __ATOMIC_RELAXED)) == 0;
}

#endif

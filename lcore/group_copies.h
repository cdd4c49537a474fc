/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups that several segments share: each gets a copy of what comes from InfiniBand. Each copy is counted as received,
 * and then as sent or dropped, as if it were a message of its own.
 */
#ifndef CAUSEWAY_GROUP_COPIES_H
#define CAUSEWAY_GROUP_COPIES_H

#include "egress.h"

/* Bytes of a struct copies. */
size_t copies_size(void);

/* Finds the route of message i, which is to the group m, to the lowest of its segments, and makes copies for the
 * others. So each segment has either messages or copies of the group, in order: copies leave after the burst. Returns a
 * drop reason when the lowest may not have it, the group is closed, or its rate is exceeded; or PLAIN for a group of
 * plain UDP. */
unsigned route_to_segments(struct worker *w, struct egress *e, unsigned i, const struct mgid_entry *m,
			   const struct source_entry *source, struct route *r);

/* Why none of a group's segments would take a message of a node, NULL if no table has it: what that returns. PASS: one
 * would. */
enum drop refuse_to_segments(const struct datapath *dp, const struct mgid_entry *m, const struct source_entry *source,
			     const struct message *msg);

/* Transmits the copies. */
void send_copies(struct worker *w);

#endif

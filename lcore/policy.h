/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of the bench changes while workers run. A worker takes no lock, and never sees half of a change:
 *
 *   allow           another list; the one before rests until every worker has been through its loop
 *   bridge_unknown  one byte
 *   the classes     a byte for each; a packet reads one entry of a map, the old one or the new one
 */
#ifndef CAUSEWAY_POLICY_H
#define CAUSEWAY_POLICY_H

#include "worker.h"

/* Has workers find another list, and returns the one before. */
struct allow *policy_allow(struct bench *b, struct allow *a);

/* A token for what no worker finds any more, and whether none can still hold it. */
uint64_t policy_token(struct bench *b);
bool policy_passed(struct bench *b, uint64_t token);

void policy_unknown(struct bench *b, bool bridge);

/* Stores one entry of a map. */
void policy_class(uint8_t *entry, uint8_t value);

#endif

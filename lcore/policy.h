/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of the datapath that change while workers run. A worker takes no lock, and never sees half a change:
 *
 *   admission       replaced as a whole; the old one is freed after a grace period
 *   bridge_unknown  one byte
 *   class maps      one byte an entry; a packet reads one entry, the old one or the new one
 *   segments        segment_of, one byte a VLAN id of a port, says which are there. What is removed stays as it was
 * until after a grace period: bursts, and entries of the tables, may still be of it
 *   ports           which there are; ports.h
 */
#ifndef CAUSEWAY_POLICY_H
#define CAUSEWAY_POLICY_H

#include "worker.h"

/* Replaces the sources that may have proxy QPs, and returns the old ones. */
struct admission *policy_admit(struct datapath *dp, struct admission *a);

/* A grace period: policy_passed() of the token is true when no worker can still use the old ones. */
uint64_t policy_token(struct datapath *dp);
bool policy_passed(struct datapath *dp, uint64_t token);

/* Makes the segment with a number that none has; its first half is filled in. */
void policy_add_segment(struct datapath *dp, unsigned number);

/* Takes it away: its frames are no segment's from now on. */
void policy_remove_segment(struct datapath *dp, unsigned number);

/* Makes workers mark each frame with its port, because several are to come. A grace period comes next, after which
 * policy_add_port() makes them poll one more, of which all else is written. */
void policy_mark_ports(struct datapath *dp);
void policy_add_port(struct datapath *dp, unsigned port);

/* Takes a port away from the workers, which touch it no more after a grace period. */
void policy_remove_port(struct datapath *dp, unsigned port);

void policy_unknown(struct datapath *dp, bool bridge);

/* Stores one entry of a map. */
void policy_class(uint8_t *entry, uint8_t value);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's calls of its end. */
#ifndef CAUSEWAY_MULTIPATH_END_H
#define CAUSEWAY_MULTIPATH_END_H

#include "multipath.h"

unsigned multipath_post(void *self, const struct ib_send *sends, unsigned n);
unsigned multipath_poll(void *self, struct ib_recv *recvs, unsigned n);
enum ib_arrival multipath_arrived(void *self, const struct ib_recv *r);
void multipath_free_completed(void *self);
void multipath_arm(void *self);
void multipath_disarm(void *self);

#endif

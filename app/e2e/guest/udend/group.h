// SPDX-License-Identifier: Apache-2.0

/* IPv4 groups on InfiniBand, joined to receive them, or to send to them by the present handle. */

#ifndef UDEND_GROUP_H
#define UDEND_GROUP_H

#include "queue_pair.h"

void group_receive(struct endpoint *e, const union ibv_gid *group);
struct group *group_send(struct endpoint *e, const union ibv_gid *group);
struct ibv_ah *group_ah(struct endpoint *e, struct group *g);

/* Joins groups again whose membership the subnet has ended. It does not wait. */
void groups_serve(struct endpoint *e);

#endif

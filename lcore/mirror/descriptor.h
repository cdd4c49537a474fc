/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the IB port's descriptors. */
#ifndef CAUSEWAY_MIRROR_DESCRIPTOR_H
#define CAUSEWAY_MIRROR_DESCRIPTOR_H

#include "packet.h"

struct ib_recv;
struct ib_send;
struct proxy_qp_entry;

struct mirror_ib mirror_ib_of_recv(const struct tables *t, const struct ib_recv *r);
struct mirror_ib mirror_ib_of_send(const struct ib_send *s, const struct proxy_qp_entry *proxy_qp);

#endif

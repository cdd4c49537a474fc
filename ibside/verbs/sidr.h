/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Service ID resolution (SIDR) by librdmacm: rdma_cm's way to find the queue pair of a UD service. One rdma_cm_id
 * listens on a port, each request and each connection of our own is another; none has a queue pair. Answers are events
 * of the channel, and nothing here waits for one. A call that fails returns its errno.
 */
#ifndef CAUSEWAY_VERBS_SIDR_H
#define CAUSEWAY_VERBS_SIDR_H

#include "cm.h"

/* Takes requests to that port of every address, of all devices, IPv4 and IPv6. They carry the token. */
int verbs_sidr_listen(struct rdma_event_channel *c, uint64_t token, uint16_t port, struct rdma_cm_id **out);

/* Answer a request. The id remains, to be destroyed. */
int verbs_sidr_accept(struct rdma_cm_id *id, uint32_t qpn, const uint8_t *data, uint8_t len);
int verbs_sidr_reject(struct rdma_cm_id *id, const uint8_t *data, uint8_t len);

/* The three steps to a connection: each may be taken when the event that ends the one before has come. from may be 0:
 * then the kernel's routes choose it. */
int verbs_sidr_resolve(struct rdma_event_channel *c, uint64_t token, const struct verbs_address *from,
		       const struct verbs_address *to, unsigned ms, struct rdma_cm_id **out);
int verbs_sidr_route(struct rdma_cm_id *id, unsigned ms);
int verbs_sidr_connect(struct rdma_cm_id *id, const uint8_t *data, uint8_t len);

#endif

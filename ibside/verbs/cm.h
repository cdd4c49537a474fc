/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multicast joins by librdmacm: one rdma_cm_id a group, without a queue pair. Nothing here waits: an answer is an
 * event on the channel, which carries the token of the join. Connections (sidr.h) use the same channel.
 */
#ifndef CAUSEWAY_VERBS_CM_H
#define CAUSEWAY_VERBS_CM_H

#include <rdma/rdma_cma.h>

#include "manage.h"

struct verbs_join {
	uint64_t token;
	uint8_t own[16];  /* the address to join from, IPv4-mapped; without by_ip the port's GID */
	uint8_t mgid[16]; /* the IP group; without by_ip the MGID */
	uint16_t pkey;
	uint8_t by_ip;
	uint8_t ipoib; /* of IPoIB's port space, which has other MGIDs and Q_Keys than rdma_cm's own */
	uint8_t send_only;
};

struct verbs_address {
	uint8_t ip[16]; /* IPv4 ones mapped */
	uint32_t scope; /* network interface, of a link-local IPv6 address */
	uint16_t port;
};

/* An event's data about a request (the first part) or a connection (the second). */
struct verbs_sidr {
	struct rdma_cm_id *request; /* its own id: whoever takes the event destroys it */
	struct verbs_address local, peer;

	uint32_t qpn;
	uint8_t is_global, mtu;

	uint8_t sgid[16], dgid[16]; /* ours, the peer's */
	char device[64];
	uint8_t device_port;
	uint16_t pkey; /* of both parts, once the address is resolved; 0 on Ethernet */
	uint8_t len;   /* of the private data, which rdma_cm fills up with zeros */
	uint8_t data[255];
};

/* An event of the channel. What follows status is valid for a join and for a connection made, sidr for connections. */
struct verbs_cm_event {
	uint64_t token;
	int32_t type; /* enum rdma_cm_event_type */
	int32_t status;
	uint32_t qkey;
	uint32_t flow_label;
	uint16_t lid;     /* MLID of a join, DLID of a connection */
	uint8_t mgid[16]; /* of a join */
	uint8_t sl, hop_limit, tclass, static_rate;
	struct verbs_sidr sidr;
};

int verbs_cm_open(struct rdma_event_channel **out);
int verbs_cm_join(struct rdma_event_channel *c, const struct verbs_join *j, struct rdma_cm_id **out);

/* Ends the membership, if there is one, and the id. */
void verbs_cm_leave(struct rdma_cm_id *id, const struct verbs_join *j);

/* An address as rdma_cm wants it on Ethernet and with IPoIB. */
void verbs_cm_sockaddr(struct sockaddr_storage *to, const struct verbs_address *a);

/* Takes the next event; EAGAIN when there is none. */
int verbs_cm_next(struct rdma_event_channel *c, struct verbs_cm_event *to);

int verbs_attach(struct verbs_qp *q, const uint8_t *mgid, uint16_t mlid);
int verbs_detach(struct verbs_qp *q, const uint8_t *mgid, uint16_t mlid);

#endif

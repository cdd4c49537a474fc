// SPDX-License-Identifier: Apache-2.0

/* One UD QP with its buffers, which udend's modes use, or one on each of two fabrics that are used as one. */

#ifndef UDEND_ENDPOINT_H
#define UDEND_ENDPOINT_H

#include "path.h"
#include "queue_pair.h"

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	GRH_AREA = 40,                      /* precedes each received payload, whatever it holds */
	RECEIVES = 128,                     /* receive buffers, all posted */
	SLOT = GRH_AREA + MAX_PAYLOAD + 24, /* keeps buffers 64-byte aligned to each other */
};

/* A received message, in a buffer that is posted again by endpoint_release. */
struct message {
	struct ibv_wc wc;
	struct endpoint *of; /* that it came to: the first or the second */
	uint8_t *grh;        /* GRH_AREA bytes */
	uint8_t *payload;    /* length bytes */
	uint32_t length;
};

/* The destination of messages, and the fields that they are sent with. */
struct target {
	struct ibv_ah *ah;
	struct group *group;  /* in place of ah, if not NULL */
	struct group *second; /* the same one on the second fabric */
	uint32_t qpn, qkey;
	bool with_imm;
	uint32_t imm; /* host order */
};

struct options;

/* Opens the device (NULL: the first), finds the GID that ip is (RoCE v2's on interface netdev, if not NULL; or
 * InfiniBand's), and brings a UD QP to RTS, all receives posted; and the second end, if the options have one, with a QP
 * of the same number. The caller has set pkey_index, and zeroed the rest. */
void endpoint_open(struct endpoint *e, const struct options *o);

/* Attaches to mgid, and joins its IP group on the netdev, as librdmacm would: without it the interface does not let the
 * frames in. On InfiniBand rdma_cm joins, from the IPoIB interface that --netdev names, and says which MGID it is. */
void endpoint_attach(struct endpoint *e, const union ibv_gid *mgid);

/* The payload buffer of the next message to send. */
uint8_t *endpoint_send_buffer(struct endpoint *e);

/* Sends the first n bytes of the send buffer and waits for the completion; to a group by both ends. */
enum ibv_wc_status endpoint_send(struct endpoint *e, const struct target *to, uint32_t n);

/* Waits until deadline (seconds of CLOCK_MONOTONIC); false when nothing came. */
bool endpoint_receive(struct endpoint *e, double deadline, struct message *m);
void endpoint_release(const struct message *m);

/* Sets the target's address handle, for a GID. An IPv4 group on InfiniBand is joined, and its path is the group's. */
void endpoint_route(struct endpoint *e, struct target *to, const union ibv_gid *gid, const struct path *path);

#endif

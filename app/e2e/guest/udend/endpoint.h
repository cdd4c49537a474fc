// SPDX-License-Identifier: Apache-2.0

/* One UD QP with its buffers, which udend's modes use. A call that fails in a way that no test expects ends the program
 * with an "error" line. */

#ifndef UDEND_ENDPOINT_H
#define UDEND_ENDPOINT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	GRH_AREA = 40,                      /* precedes each received payload, whatever it holds */
	MAX_PAYLOAD = 4096,                 /* IB's largest MTU */
	RECEIVES = 128,                     /* receive buffers, all posted */
	SLOT = GRH_AREA + MAX_PAYLOAD + 24, /* keeps buffers 64-byte aligned to each other */
};

struct endpoint {
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *receive_cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_gid_entry source; /* the GID of our IP: index, netdev */
	const char *netdev;
	uint16_t pkey_index;
	bool infiniband; /* the link layer */
	uint8_t *memory; /* RECEIVES slots, then one to send from */
};

/* A received message, in a buffer that is posted again by endpoint_release. */
struct message {
	struct ibv_wc wc;
	uint8_t *grh;     /* GRH_AREA bytes */
	uint8_t *payload; /* length bytes */
	uint32_t length;
};

/* The destination of messages, and the fields that they are sent with. */
struct target {
	struct ibv_ah *ah;
	uint32_t qpn, qkey;
	bool with_imm;
	uint32_t imm; /* host order */
};

/* What an address handle has besides the GID. On Ethernet, dlid is 0 and there always is a GRH. */
struct path {
	uint16_t dlid;
	uint8_t source_bits, sl, tclass, hop_limit;
	bool without_grh;
};

/* Opens the device (NULL: the first), finds the GID that ip is (RoCE v2's on interface netdev, if not NULL; or
 * InfiniBand's), and brings a UD QP to RTS, all receives posted. The caller has set pkey_index, and zeroed the rest. */
void endpoint_open(struct endpoint *e, const char *device, const union ibv_gid *ip, const char *netdev, uint32_t qkey);

/* Attaches to mgid, and joins its IP group on the netdev, as librdmacm would: without it the interface does not let the
 * frames in. On InfiniBand rdma_cm joins, from the IPoIB interface that --netdev names, and says which MGID it is. */
void endpoint_attach(struct endpoint *e, const union ibv_gid *mgid);

/* The payload buffer of the next message to send. */
uint8_t *endpoint_send_buffer(struct endpoint *e);

/* Sends the first n bytes of the send buffer and waits for the completion. */
enum ibv_wc_status endpoint_send(struct endpoint *e, const struct target *to, uint32_t n);

/* Waits until deadline (seconds of CLOCK_MONOTONIC); false when nothing came. */
bool endpoint_receive(struct endpoint *e, double deadline, struct message *m);
void endpoint_release(struct endpoint *e, const struct message *m);

/* An address handle for a GID. On InfiniBand an IPv4 group is joined, and its path is the group's. */
struct ibv_ah *endpoint_ah(struct endpoint *e, const union ibv_gid *gid, const struct path *path);

double now(void);

/* Prints an "error" line with errno, and exits with 3. */
void fail(const char *what) __attribute__((noreturn));

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What device and driver share, as in current HCAs: requests in 64-byte blocks, completions of 64 bytes with an owner
 * bit that flips each time the ring wraps, big-endian numbers. The driver is send.c, receive.c and poll.c; it takes a
 * lock in each call, as providers do for queues without a thread domain. The device is at the end of send.c and of
 * receive.c.
 */
#ifndef CAUSEWAY_NULLVERBS_DEVICE_H
#define CAUSEWAY_NULLVERBS_DEVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "nullverbs.h"

enum {
	BLOCK = 64,
	MAX_SGES = 4, /* as many data segments fill a block */
	MAX_INLINE = 64,
	FIRST_QPN = 0x100,

	OP_SEND = 0x0a,
	OP_SEND_IMM = 0x0b,
	SIGNALED = 8, /* flags of a request */
	SOLICITED = 2,

	DONE_SEND = 0, /* kinds of completion, above the owner bit */
	DONE_RECV = 2,
	DONE_NOTHING = 0xf,
};

#define INLINE_DATA 0x80000000u /* in a length: bytes follow */

/* A request: control, address, and data segments or inline data. 16 + 48 bytes, then a block or two. */
struct control_segment {
	uint32_t index_opcode;
	uint32_t qpn_size; /* size in 16 bytes, the lowest 6 bits */
	uint32_t flags;
	uint32_t imm;
};

struct address_segment {
	uint32_t qkey;
	uint32_t reserved;
	uint32_t dest_qpn;
	uint8_t path[36];
};

struct data_segment {
	uint32_t length, lkey;
	uint64_t addr;
};

/* A receive buffer; 32 bytes, in a list by index. */
struct receive_request {
	uint16_t reserved, next;
	uint32_t reserved2[3];
	struct data_segment data;
};

struct completion {
	uint32_t reserved[8];
	uint32_t imm, length;
	uint32_t src_qp; /* and SL and flags, in the highest byte */
	uint32_t slid_path;
	uint32_t qpn;
	uint32_t reserved2[2];
	uint16_t index; /* of the request */
	uint8_t syndrome;
	uint8_t kind_owner;
};

_Static_assert(sizeof(struct control_segment) + sizeof(struct address_segment) == BLOCK, "the address ends a block");
_Static_assert(MAX_SGES * sizeof(struct data_segment) == BLOCK, "a request's data segments are one block");
_Static_assert(sizeof(struct completion) == 64, "a completion is a cache line");

struct null_cq {
	struct ibv_cq cq; /* first: libibverbs hands out this */
	pthread_spinlock_t lock;
	struct completion *ring;
	uint32_t mask, log;
	uint32_t next;    /* the driver's */
	uint32_t *record; /* doorbell record: how far the driver is */
	struct null_qp *qp;
	uint32_t written __attribute__((aligned(64))); /* the device's */
};

struct null_qp {
	struct ibv_qp qp;
	struct null_device *dev;
	pthread_spinlock_t lock;
	uint8_t *ring, *end;
	uint32_t mask;       /* of blocks */
	uint32_t next;       /* block */
	uint32_t head, tail; /* requests; tail moves by completions */
	uint32_t most;
	uint32_t *record;                           /* doorbell record */
	uint64_t *wr_id;                            /* by block */
	uint32_t *head_at;                          /* by block */
	uint32_t done __attribute__((aligned(64))); /* the device's */
};

struct null_srq {
	struct ibv_srq srq;
	pthread_spinlock_t lock;
	struct receive_request *ring;
	uint64_t *wr_id;
	uint32_t head, tail;
	uint32_t posted;
	uint32_t *record;
	uint32_t taken __attribute__((aligned(64))); /* the device's: how many, and the next one */
	uint32_t at;
};

struct null_ah {
	struct ibv_ah ah;
	struct address_segment address;
};

struct null_device {
	struct verbs_context ctx;
	struct null_qp *qp[NULLVERBS_MAX_QPS];
	unsigned qps;
	struct null_srq *srq; /* there is one at a time */
	/* In place of the device's doorbell register. */
	uint64_t volatile bell __attribute__((aligned(64)));
	uint64_t rung, recv_rung; /* doorbells */
	/* The device's. */
	unsigned turn __attribute__((aligned(64))); /* queue pair of the next message */
	struct nullverbs_sent *notes;
	unsigned notes_left;
};

static inline struct null_device *device_of(struct ibv_context *c)
{
	return (struct null_device *)((char *)c - offsetof(struct null_device, ctx.context));
}

static inline uint8_t *block_at(const struct null_qp *q, uint32_t i)
{
	return q->ring + (size_t)(i & q->mask) * BLOCK;
}

/* control.c: the calls of management, for a null device. */
struct null_device *null_device_new(void);

int null_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int null_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int null_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);

unsigned null_carry_out(struct null_device *d);
unsigned null_deliver(struct null_device *d, unsigned count, uint32_t len, unsigned qps);

/* The device puts a completion into a queue. */
void null_complete(struct null_cq *c, const struct completion *what, unsigned kind);

#endif

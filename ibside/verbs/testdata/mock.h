/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device in place of libibverbs, for what libmlx5 does not show on the device made of memory: completions that come
 * after a reset, buffers that are refused, queues that are lost. It keeps what is posted until the test completes it. A
 * second thread may be the worker. To a worker that uses mlx5's queues directly the same device is rings in memory, and
 * looks at each barrier what has been stored (rings.c).
 */
#ifndef CAUSEWAY_VERBS_MOCK_H
#define CAUSEWAY_VERBS_MOCK_H

#include <infiniband/mlx5dv.h>

#include <rte_mbuf.h>

#include "../manage.h"

enum { MOCK_RING = 512, MOCK_BLOCK = 64 };
enum { MOCK_QUEUE = 4096, MOCK_QPS = 64, MOCK_FIRST_QPN = 0x101 };

/* The work requests that the device has not yet carried out, and the state that the test checks. */
extern struct mock {
	struct ibv_send_wr sends[MOCK_QUEUE];
	struct ibv_qp *send_qp[MOCK_QUEUE];
	unsigned send_first, send_n;
	struct ibv_recv_wr recvs[MOCK_QUEUE];
	unsigned recv_first, recv_n;
	unsigned qps;       /* made */
	unsigned recv_room; /* buffers that the next call takes; then it takes no more */
	bool cq_error;      /* the completion queues are lost: nothing can be polled from them any more */
	uint32_t cqe_size;  /* what the device says of completions in its rings */
} mock;

/* A completion queue: of struct ibv_wc, or a ring. */
struct mock_cq {
	struct ibv_cq cq;
	struct ibv_wc wc[MOCK_QUEUE];
	unsigned first, n;
	bool direct;
	struct mlx5_cqe64 ring[MOCK_RING] __attribute__((aligned(64)));
	uint32_t record[2];
	uint32_t written;
};

struct mock_srq {
	struct ibv_srq srq;
	bool direct;
	struct mlx5_mprq_wqe place[MOCK_RING];
	uint32_t record[2];
	uint16_t at, taken;
	uint16_t seen; /* of the record, by the device */
	bool ordered;  /* buffers are written, and the record may follow */
};

struct mock_qp {
	struct ibv_qp qp;
	uint8_t block[MOCK_RING][MOCK_BLOCK] __attribute__((aligned(64)));
	uint32_t record[2];
	uint16_t next;
};

/* Completes the n oldest sends: without a completion where they are not signalled and succeed. */
void mock_complete(unsigned n, enum ibv_wc_status status);

/* Receives an empty message for a queue pair into the oldest buffer. */
void mock_receive(const struct verbs_qp *q);

/* How many receive buffers the device has. */
unsigned mock_buffers(void);

/* Makes the device, and a worker that uses it, or its queues directly. */
struct verbs_worker *mock_worker(struct rte_mempool *pool, const struct verbs_sizes *s, bool direct);

/* rings.c */
void rings_add(struct mock_qp *q);
void rings_remove(struct mock_qp *q);
void rings_complete(struct mock_cq *c, const struct ibv_wc *wc, bool receive);
unsigned rings_posted(struct mock_srq *s);
uint16_t rings_take_buffer(struct mock_srq *s);

#endif

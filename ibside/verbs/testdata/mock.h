/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that a test controls: it keeps what is posted until the test completes it. It replaces libibverbs, to test
 * what no available device shows: queues that fill, rejections in the middle of a list, completions that come late.
 * Like mlx5 it takes a queue pair's completions out of the queues when that is reset or destroyed, and wc.pkey_index is
 * bits of the immediate. A second thread may be the worker. To a worker that uses mlx5's queues directly the same
 * device is rings in memory (rings.c).
 */
#ifndef CAUSEWAY_VERBS_MOCK_H
#define CAUSEWAY_VERBS_MOCK_H

#include <infiniband/mlx5dv.h>

#include <rte_mbuf.h>

#include "../manage.h"

enum { MOCK_MAX_SRQ_WR = 300, MOCK_MAX_CQE = 260 };
enum { MOCK_RING = 512, MOCK_BLOCK = 64 };
enum { MOCK_QUEUE = 4096, MOCK_QPS = 64, MOCK_FIRST_QPN = 0x101 };

/* The work requests that the device has not yet carried out, and the state that the test checks. */
extern struct mock {
	struct ibv_send_wr sends[MOCK_QUEUE];
	struct ibv_sge sges[MOCK_QUEUE][VERBS_MAX_SGE];
	struct ibv_qp *send_qp[MOCK_QUEUE];
	unsigned send_first, send_n;
	struct ibv_recv_wr recvs[MOCK_QUEUE];
	struct ibv_sge recv_sges[MOCK_QUEUE];
	unsigned recv_first, recv_n;
	unsigned lists;          /* calls of post_send */
	unsigned send_room;      /* sends that the next call takes; then it takes no more */
	unsigned recv_room;      /* the same for receives */
	int srq_wr, recv_cqe;    /* places of the receive queue, and of its completion queue */
	unsigned transitions;    /* of queue pairs */
	bool cq_error;           /* the completion queues are lost: nothing can be polled from them any more */
	unsigned arriving;       /* messages that a queue pair still receives when it leaves RTS */
	bool numbers[MOCK_QPS];  /* of queue pairs that there are, from MOCK_FIRST_QPN on */
	unsigned blocking;       /* queue pairs asked for that do not get their own multicast back */
	unsigned plain;          /* others that were made */
	unsigned unacknowledged; /* events of completion queues */
	uint32_t cqe_size;       /* what the device says of completions in its rings */
	void (*after_destroy)(void);
} mock;

/* The errno with which the device refuses queue pairs that do not get their own multicast back; 0: it makes them. */
extern int mock_refusal;

/* A completion queue: of struct ibv_wc, or a ring. */
struct mock_cq {
	struct ibv_cq cq;
	struct ibv_wc wc[MOCK_QUEUE];
	unsigned first, n;
	bool armed;
	unsigned events; /* not yet taken from the channel */
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

/* Receives a message of payload bytes into the oldest buffer. */
void mock_receive(const struct ibv_wc *wc, const void *payload, unsigned len);

/* How many receive buffers the device has. */
unsigned mock_buffers(void);

/* How a worker uses the device. */
struct mock_use {
	bool ethernet; /* is its link layer */
	bool direct;   /* it is to use the queues directly */
};

/* Makes the device, and a worker that uses it. */
struct verbs_worker *mock_worker(struct rte_mempool *pool, const struct verbs_sizes *s, struct mock_use use);

/* rings.c */
void rings_add(struct mock_qp *q);
void rings_remove(struct mock_qp *q);
void rings_complete(struct mock_cq *c, const struct ibv_wc *wc, bool receive);
unsigned rings_posted(struct mock_srq *s);
uint16_t rings_take_buffer(struct mock_srq *s, struct ibv_sge *to);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's queues on mlx5, without its library: requests, doorbell records and completions are read and written
 * where the device has them (mlx5dv_init_obj(3)). Management's calls go by the library all the same.
 *
 *   a burst's requests ▶ barrier ▶ the records of its queue pairs ▶ barrier ▶ for each queue pair: bell, flush
 *
 * The bells of all queue pairs go to one register, whose stores the CPU may combine: a bell that is not flushed before
 * the next one may be lost.
 *
 * The library leaves completion queues alone that were taken from it. So completions of a queue pair that was reset
 * stay there, and a queue pair comes up again, or its number is given back, only when the worker has passed them
 * (verbs_direct_discard). After a reset both sides count blocks from 0.
 */
#ifndef CAUSEWAY_VERBS_DIRECT_H
#define CAUSEWAY_VERBS_DIRECT_H

#include <pthread.h>

#include <infiniband/mlx5dv.h>

#include <rte_atomic.h>

#include "queues.h"

enum { DIRECT_BLOCK = 64, DIRECT_PLACE = 32 };

/* A completion queue. */
struct direct_cq {
	const struct mlx5_cqe64 *ring;
	__be32 *record;
	uint32_t size; /* a power of two */
	uint32_t next; /* completion, counted from the beginning */
	uint8_t *reg;  /* its doorbell register */
	uint32_t number;
	uint32_t events; /* that it has told of */
};

/* The shared receive queue: a list of places. Those from head to before tail are free; the device follows the list,
 * so a place that is posted is not written to. */
struct direct_srq {
	uint8_t *ring;
	__be32 *record;
	uint16_t head, tail;
	uint16_t posted; /* since the beginning */
};

/* The doorbell register of the worker's thread domain. Bells go to its two halves in turn. */
struct direct_bell {
	uint8_t *reg;
	uint32_t half, offset;
};

struct verbs_direct {
	struct direct_cq send, recv;
	struct direct_srq srq;
	struct direct_bell bell;
	uint64_t send_passed; /* atomic: grows with what is taken from send, and each time that it is found empty */
	bool stopped;         /* management is in the worker's place */
	/* Queue pairs by number: lists, that management changes and the worker reads. */
	struct verbs_qp **bucket; /* atomic */
	unsigned bucket_bits;
	pthread_mutex_t lock; /* of those who change them */
};

static inline struct mlx5_wqe_srq_next_seg *direct_place(const struct direct_srq *s, unsigned i)
{
	return (void *)(s->ring + (size_t)i * DIRECT_PLACE);
}

/* What send_passed grows by when the queue is found empty: more than completions lie there and in a burst at any time.
 */
static inline uint64_t direct_lap(const struct verbs_direct *x)
{
	return x->send.size + VERBS_BURST;
}

static inline struct verbs_qp **direct_bucket(const struct verbs_direct *x, uint32_t qpn)
{
	return &x->bucket[qpn * 0x9e3779b1u >> (32 - x->bucket_bits)];
}

/* What a store must not overtake, and what a load must not. A doorbell register is write-combining memory: of arm64's
 * barriers only dsb waits until such a store has left. DIRECT_ORDER is a test's, which looks at what is there. */
#ifdef DIRECT_ORDER
#include DIRECT_ORDER
#else
#define direct_requests_before_records() rte_io_wmb()
#define direct_buffers_before_record() rte_io_wmb()
#define direct_owner_before_rest() rte_io_rmb()
#ifdef __aarch64__
#define direct_records_before_bells() __asm__ volatile("dsb st" ::: "memory")
#define direct_flush_bell(x) __asm__ volatile("dsb st" ::: "memory")
#else
#define direct_records_before_bells() rte_wmb()
#define direct_flush_bell(x) rte_wmb()
#endif
#endif

/* direct_post.c */
void direct_post(struct verbs_worker *w);

#endif

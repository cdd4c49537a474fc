/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The InfiniBand door on libibverbs. Two sides use it, and each word of it has one writer:
 *
 *   worker      post.c, poll.c, ah.c: the calls of ibside/door.h; no allocation, lock, log or system call
 *               but those of the verbs provider
 *   management  device.c, worker.c, qp.c, cm.c: called from Go, may block
 *
 *   worker ── asks ──▶ management      address handles that are missing
 *   worker ◀─ answers ─ management     address handles, or that there is none
 *   worker ── retired ─▶ management    address handles to destroy
 *
 * Management waits for a worker by its epoch (odd while the worker is inside a call); a worker never waits.
 * Functions that can fail return 0 or a positive errno.
 */
#ifndef CAUSEWAY_VERBS_DOOR_H
#define CAUSEWAY_VERBS_DOOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "ibside/door.h"

struct rte_mbuf;
struct rte_mempool;
struct rte_ring;

enum {
	VERBS_BURST = 64,
	VERBS_MAX_SGE = 4,
	VERBS_MAX_MRS = 64,
	VERBS_PAYLOAD = 4096, /* the largest of a datagram */
	VERBS_HELD = 512,     /* messages of one worker that wait for address handles */
	VERBS_HELD_PER_AH = 64,
	VERBS_PENDING_PER_QP = 64, /* address handles that one queue pair's messages wait for */
	VERBS_AH_WAYS = 8,
};

/* A handle: worker 6 bits, generation 8 bits, index 18 bits. Index 0 is not used. */
enum { HANDLE_INDEX_BITS = 18, HANDLE_GENERATION_BITS = 8, HANDLE_INDICES = 1 << HANDLE_INDEX_BITS };

#define HANDLE_INDEX(h) ((h) & (HANDLE_INDICES - 1))

enum send_drop {
#define SEND_DROP(name, text) SEND_DROP_##name,
#define RECV_DROP(name, text)
#include "drops.def"
#undef SEND_DROP
#undef RECV_DROP
	SEND_DROPS,
};

enum recv_drop {
#define SEND_DROP(name, text)
#define RECV_DROP(name, text) RECV_DROP_##name,
#include "drops.def"
#undef SEND_DROP
#undef RECV_DROP
	RECV_DROPS,
};

/* At any quiet moment posted = sent + the sum of send_drops, and received = delivered + the sum of recv_drops. */
struct verbs_counters {
	uint64_t posted;
	uint64_t sent; /* carried out: counted when the send completes */
	uint64_t send_drops[SEND_DROPS];
	uint64_t received;
	uint64_t delivered;
	uint64_t recv_drops[RECV_DROPS];
	/* Not part of the sums. */
	uint64_t lists;      /* posted to the device */
	uint64_t inlined;    /* sends that carried their payload in the work request */
	uint64_t asked;      /* address handles asked for */
	uint64_t evicted;    /* address handles that gave way to others */
	uint64_t no_buffers; /* rounds in which the mempool had no receive buffers */
};

/* A device's port, opened: what all workers share. */
struct verbs_device {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct rte_mempool *pool;
	bool ethernet; /* link layer */
	uint8_t port;
	_Atomic uint32_t mtu; /* largest payload, bytes; management follows the port's */
	unsigned mrs;
	struct verbs_mr {
		uintptr_t start, end;
		uint32_t lkey;
		struct ibv_mr *mr;
	} mr[VERBS_MAX_MRS];     /* by address */
	_Atomic uint64_t subnet; /* the port's GID prefix, as its bytes lie in memory; on InfiniBand */
};

/* One MR for all is the usual case; else the table is searched. NULL: the address lies in no registered memory. */
static inline const struct verbs_mr *verbs_mr_of(const struct verbs_device *d, uintptr_t p)
{
	unsigned low = 0, high = d->mrs;

	while (high - low > 1) {
		unsigned middle = (low + high) / 2;
		if (d->mr[middle].start <= p)
			low = middle;
		else
			high = middle;
	}
	return p >= d->mr[low].start && p < d->mr[low].end ? &d->mr[low] : NULL;
}

/* What an address handle is for. Fields that do not count are zero. */
struct ah_key {
	struct ib_ah ah;
	uint32_t grh; /* with one */
};

enum ah_state {
	AH_EMPTY,
	AH_PENDING, /* management is at it; the entry stays until the answer */
	AH_READY,
	AH_FAILED, /* management says when to forget it */
};

/* Written by the worker alone, but for answer, which is management's while the entry is pending or failed. */
struct ah_entry {
	struct ah_key key;
	uint8_t state;
	bool used;
	uint16_t held;
	uint32_t asker; /* the queue pair, by its handle, whose message asked for it */
	struct ibv_ah *ah;
	struct ibv_ah *answer;
};

enum qp_state {
	QP_UP,       /* the worker posts and completes */
	QP_DRAINING, /* the worker completes */
	QP_DOWN,     /* management's */
};

/* A queue pair and the mbufs that it has under way: those of sequence numbers tail to head. */
struct verbs_qp {
	struct ibv_qp *qp; /* management frees it while the worker still finds this structure: what it needs is here */
	uint32_t handle;
	uint32_t qpn;
	uint32_t qkey;
	uint16_t pkey_index;
	uint16_t pending;    /* address handles that its messages asked for and that are not answered */
	uint32_t max_inline; /* bytes */
	_Atomic uint32_t state;
	_Atomic bool error;   /* set by whoever sees it, cleared by management */
	uint64_t received_by; /* how far recv_passed must be until what it received has been taken; management's */
	uint64_t batch;       /* the burst that last belongs to; 0: none */
	struct ibv_send_wr *last;
	uint32_t mask; /* of the fifo */
	_Atomic uint32_t head, tail;
	struct under_way {
		struct rte_mbuf *mbuf;
		struct ah_entry *ah; /* what it was sent by; the entry may be another handle's by now */
	} fifo[];
};

struct held {
	struct ib_send send;
	struct ah_entry *entry;
};

/* One worker's share. */
struct verbs_worker {
	struct ib_door door;
	struct verbs_device *dev;
	_Atomic uint64_t epoch;
	struct ibv_srq *srq;
	struct ibv_cq *send_cq, *recv_cq;
	struct rte_ring *asks, *answers, *retired;
	unsigned send_capacity;       /* sends under way that the completion queue surely holds */
	uint64_t taken, ended;        /* sends given to the device, and those that have ended */
	_Atomic uint64_t cleared;     /* those that management ended */
	_Atomic uint64_t errors;      /* how often a queue pair was marked */
	_Atomic uint64_t recv_passed; /* grows with what is taken from recv_cq, and each time that it is found empty */
	uint64_t batch;               /* the burst's number, from 1 */
	_Atomic uint32_t flush_asked; /* by management: forget all address handles */
	uint32_t flushed;
	unsigned held_n;
	unsigned recv_slots, recv_free; /* of the SRQ; and how many of them have no buffer posted */
	uint16_t *recv_stack;           /* the slots without a buffer */
	struct rte_mbuf **recv_mbuf;    /* by slot */
	unsigned ah_sets;               /* a power of two */
	uint64_t ah_seed[4];            /* of their hash: senders cannot know who shares a set */
	struct ah_entry *ahs;
	_Atomic(struct verbs_qp *) *qps; /* by index of the handle */
	unsigned qps_n;
	struct verbs_counters counters; /* the worker's */
	_Atomic uint64_t drops_reset;   /* qp_reset, by management */
	struct held held[VERBS_HELD];
	struct {
		struct ibv_send_wr wr[VERBS_BURST];
		struct ibv_sge sge[VERBS_BURST][VERBS_MAX_SGE];
		struct verbs_qp *qp[VERBS_BURST]; /* with a list in this burst */
		struct ibv_send_wr *first[VERBS_BURST];
		unsigned n, lists;
	} burst;
};

/* The worker says that it is inside a call, and what it reads from then on is not older than that. */
static inline void enter(struct verbs_worker *w)
{
	uint64_t e = atomic_load_explicit(&w->epoch, memory_order_relaxed);

	atomic_store_explicit(&w->epoch, e + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
}

static inline void leave(struct verbs_worker *w)
{
	uint64_t e = atomic_load_explicit(&w->epoch, memory_order_relaxed);

	atomic_store_explicit(&w->epoch, e + 1, memory_order_release);
}

/* What recv_passed grows by when recv_cq is found empty: more than completions lie there and in a burst at any time. */
static inline uint64_t recv_lap(const struct verbs_worker *w)
{
	return w->recv_slots + VERBS_BURST;
}

/* A queue pair by its handle; NULL: not there any more. */
static inline struct verbs_qp *verbs_qp_of(const struct verbs_worker *w, uint32_t handle)
{
	unsigned i = HANDLE_INDEX(handle);

	if (i >= w->qps_n)
		return NULL;
	struct verbs_qp *q = atomic_load_explicit(&w->qps[i], memory_order_acquire);
	return q && q->handle == handle ? q : NULL;
}

/* Marks a queue pair that is in error, for management to recover. */
static inline void mark_error(struct verbs_worker *w, struct verbs_qp *q)
{
	if (atomic_exchange_explicit(&q->error, true, memory_order_relaxed))
		return;
	atomic_fetch_add_explicit(&w->errors, 1, memory_order_release);
}

/* The worker's calls. */
unsigned verbs_post(void *self, const struct ib_send *sends, unsigned n);
unsigned verbs_poll(void *self, struct ib_recv *recvs, unsigned n);
void verbs_free(void *self);

/* post.c: posts what waited for address handles that are there now; and drops a message. */
void verbs_post_held(struct verbs_worker *w);
void verbs_drop_send(struct verbs_worker *w, enum send_drop why, struct rte_mbuf *m);

/* poll.c: posts receive buffers; takes completed sends. */
void verbs_refill(struct verbs_worker *w);
unsigned verbs_complete(struct verbs_worker *w);

/* ah.c: the worker's cache. find returns NULL when there is no room, or the queue pair waits for too many. */
struct ah_entry *verbs_ah_find(struct verbs_worker *w, struct verbs_qp *q, const struct ib_ah *ah, bool grh);
/* Takes answers, then forgets all if management has asked for that. Returns whether there were answers. */
bool verbs_ah_answers(struct verbs_worker *w);
void verbs_ah_retire(struct verbs_worker *w, struct ah_entry *e);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The InfiniBand port on libibverbs. Two sides use it, and each word of it has one writer:
 *
 *   worker      post.c, poll.c, ah.c, sleep.c, portable.c, direct_{post,poll}.c: the calls of ibside/port.h; no
 *               allocation, lock, log or system call but those of the verbs provider
 *   management  device.c, setup.c, sleep.c, qp.c, direct.c, cm.c: called from Go, may block
 *
 *   worker ── requests ▶ management    address handles that are missing
 *   worker ◀─ answers ─ management     an address handle, or NULL: there is none
 *   worker ── retired ─▶ management    address handles to destroy
 *
 * Management waits for a worker by its epoch (odd while the worker is inside a call); a worker never waits.
 * Functions that can fail return 0 or a positive errno.
 */
#ifndef CAUSEWAY_VERBS_WORKER_H
#define CAUSEWAY_VERBS_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "../port.h"
#include "../wake.h"

struct rte_mbuf;
struct rte_mempool;
struct rte_ring;

enum {
	VERBS_BURST = 64,
	VERBS_MAX_SGE = 4,
	VERBS_MAX_MRS = 64,
	VERBS_PAYLOAD = 4096, /* of the largest datagram, bytes */
	/* Messages of one worker that wait for address handles. A program with hundreds of queue pairs sends its first
	 * ones at once, some thousands for one handle; the other half is for others. */
	VERBS_PENDING = 4096,          /* at most */
	VERBS_AHS_PENDING_PER_QP = 64, /* address handles that one queue pair's messages wait for */
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
	uint64_t evicted;    /* address handles replaced by others */
	uint64_t no_buffers; /* rounds in which the mempool had no receive buffers */
};

/* An open port of a device, shared by all workers. */
struct verbs_device {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct rte_mempool *pool;
	bool ethernet;             /* link layer */
	bool grh;                  /* atomic: the port wants one in every message; on Ethernet always so */
	bool asked_to_block;       /* whether it keeps a queue pair's own multicast from it */
	bool blocks_own_multicast; /* it does */
	bool direct;               /* workers use mlx5's queues without its library, where they can */
	uint8_t port;
	uint32_t mtu; /* atomic: largest payload, bytes; management follows the port's */
	unsigned mrs;
	struct verbs_mr {
		uintptr_t start, end;
		uint32_t lkey;
		struct ibv_mr *mr;
	} mr[VERBS_MAX_MRS]; /* by address */
};

/* The MR of an address, by binary search; there is usually one MR. NULL: the address is not registered. */
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

/* The key of an address handle. Fields that do not matter are zero. */
struct ah_key {
	struct ib_ah ah;
	uint32_t grh; /* with one */
};

enum ah_state {
	AH_EMPTY,
	AH_PENDING, /* requested from management; the entry stays until the answer */
	AH_READY,
	AH_FAILED, /* management tells when it may be removed */
};

/* Written by the worker alone, but for answer and address, which are management's while the entry is pending or failed.
 */
struct ah_entry {
	struct ah_key key;
	uint8_t state;
	bool used;
	uint16_t pending_sends;
	uint32_t requester; /* the queue pair, by its handle, whose message caused the request */
	struct ibv_ah *ah;
	struct ibv_ah *answer;
	const void *address; /* what is posted: the handle, or directly its address vector. It outlives the entry */
};

enum qp_state {
	QP_UP,       /* the worker posts and completes */
	QP_DRAINING, /* the worker completes */
	QP_DOWN,     /* management's */
};

/* A send queue as mlx5 reads it. Places are counted in blocks of 64 bytes since the last reset. */
struct direct_sq {
	uint8_t *ring;
	uint32_t *record; /* doorbell record: blocks posted, big-endian */
	uint16_t mask;
	uint16_t next; /* to write */
	uint16_t last; /* request that was written: where it begins */
	uint16_t most; /* of one request */
};

static inline uint8_t *direct_block(const struct direct_sq *s, uint16_t i)
{
	enum { BYTES = 64 };

	return s->ring + (size_t)(i & s->mask) * BYTES;
}

/* A queue pair and its mbufs in flight: those of sequence numbers tail to head. What the worker needs for each message
 * is in the first cache line, but for the library's part. */
struct verbs_qp {
	uint32_t handle;
	uint32_t qpn;
	uint32_t state;       /* atomic: enum qp_state */
	uint32_t max_inline;  /* bytes */
	uint32_t mask;        /* of the fifo */
	uint32_t head, tail;  /* atomic */
	uint16_t list;        /* its list in the burst: if that one's queue pair is this one */
	uint16_t pending_ahs; /* address handles requested for its messages and not answered yet */
	bool error;           /* atomic: set by whoever sees it, cleared by management */
	bool pkey_lost;       /* atomic: it is down because its P_Key is not in the port's table */
	struct direct_sq sq;
	struct ibv_qp *qp; /* management frees it while the worker still finds this structure: what it needs is here */
	struct verbs_qp *next_in_bucket; /* atomic: see struct verbs_direct */
	/* Management's. */
	uint16_t pkey_index; /* the place of its P_Key in the port's table */
	uint32_t qkey;
	uint64_t received_by; /* all that it received has been taken when recv_passed is this far */
	struct in_flight {
		struct rte_mbuf *mbuf; /* NULL: it went inline, and is free already */
		uint32_t ah;           /* the entry of its address handle, which may have been reused since */
		uint16_t block;        /* where its request begins, if that is known */
	} fifo[] __attribute__((aligned(64)));
};

struct pending_send {
	struct ib_send send;
	struct ah_entry *entry;
};

/* A message of a burst, checked: the device is to have it. */
struct outgoing {
	struct verbs_qp *q;
	const void *address; /* of its entry, which may be another peer's before the burst is posted */
	struct rte_mbuf *mbuf;
	uint32_t sequence; /* its number in the fifo */
	uint32_t imm, dest_qpn, dest_qkey;
	uint16_t flags; /* IB_SEND_* */
	uint8_t list, pieces;
	bool inlined, signaled;
};

/* One queue pair's messages of a burst. */
struct outgoing_list {
	struct verbs_qp *q;
	unsigned first, last; /* of the burst's messages */
};

/* One worker's share. */
struct verbs_worker {
	struct ib_port ib_port;
	struct verbs_device *dev;
	struct ibv_td
		*td; /* with pd: the queue pairs are in a thread domain of their own. NULL: the provider has none */
	struct ibv_pd *pd; /* of the queue pairs: a parent domain, or the device's */
	const struct verbs_queues *queues;
	struct verbs_direct *direct; /* NULL: the library has the queues */
	uint64_t epoch;              /* atomic: odd while the worker is inside a call */
	struct ibv_srq *srq;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_comp_channel *channel; /* of both; NULL: the device has none */
	struct wake bell;                 /* management wakes the worker by it; -1: it cannot */
	struct rte_ring *requests, *answers, *retired;
	unsigned send_capacity; /* sends under way that the completion queue surely holds */
	uint64_t taken, ended;  /* sends given to the device, and those that have ended */
	uint64_t cleared;       /* atomic: those that management ended */
	uint64_t errors;        /* atomic: how often a queue pair was marked as failed */
	uint64_t recv_passed;  /* atomic: grows with what is taken from recv_cq, and each time that it is found empty */
	uint32_t flush_wanted; /* atomic: set by management: drop all address handles */
	uint32_t flushed;
	unsigned pending_n, pending_most;
	unsigned pending_told;          /* atomic: pending_n, but for when pending messages are being posted */
	unsigned recv_slots, recv_free; /* buffers to keep posted; and how many of them are not */
	uint32_t recv_room;             /* of a buffer, bytes */
	uint16_t *recv_stack;           /* the slots without a buffer */
	struct rte_mbuf **recv_mbuf;    /* by slot, or by the device's place */
	unsigned recv_mbufs;
	unsigned ah_sets;    /* a power of two */
	uint64_t ah_seed[4]; /* of their hash: senders cannot know who shares a set */
	struct ah_entry *ahs;
	struct verbs_qp **qps; /* elements atomic; by index of the handle */
	unsigned qps_n;
	int node;                       /* NUMA, of its memory */
	struct verbs_counters counters; /* the worker's */
	uint64_t drops_reset;           /* atomic: qp_reset, by management */
	struct pending_send pending[VERBS_PENDING];
	struct {
		struct outgoing out[VERBS_BURST];
		struct ibv_sge sge[VERBS_BURST][VERBS_MAX_SGE];
		struct outgoing_list list[VERBS_BURST];
		unsigned n, lists;
	} burst;
};

/* Marks the worker as inside a call; what it reads afterwards is not older than that. */
static inline void enter(struct verbs_worker *w)
{
	uint64_t e = __atomic_load_n(&w->epoch, __ATOMIC_RELAXED);

	__atomic_store_n(&w->epoch, e + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void leave(struct verbs_worker *w)
{
	uint64_t e = __atomic_load_n(&w->epoch, __ATOMIC_RELAXED);

	__atomic_store_n(&w->epoch, e + 1, __ATOMIC_RELEASE);
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
	struct verbs_qp *q = __atomic_load_n(&w->qps[i], __ATOMIC_ACQUIRE);
	return q && q->handle == handle ? q : NULL;
}

/* Whether all sends of a queue pair have ended. */
static inline bool verbs_qp_ended(const struct verbs_qp *q)
{
	return __atomic_load_n(&q->tail, __ATOMIC_ACQUIRE) == __atomic_load_n(&q->head, __ATOMIC_ACQUIRE);
}

/* Marks a queue pair that is in error, for management to recover. */
static inline void mark_error(struct verbs_worker *w, struct verbs_qp *q)
{
	if (__atomic_exchange_n(&q->error, true, __ATOMIC_RELAXED))
		return;
	__atomic_fetch_add(&w->errors, 1, __ATOMIC_RELEASE);
}

/* The worker's calls. */
unsigned verbs_post(void *self, const struct ib_send *sends, unsigned n);
unsigned verbs_poll(void *self, struct ib_recv *recvs, unsigned n);
void verbs_free(void *self);

/* sleep.c */
void verbs_arm(void *self);
void verbs_disarm(void *self);

/* post.c: posts messages whose address handles are there now; and drops a message. */
void verbs_post_pending(struct verbs_worker *w);
void verbs_drop_send(struct verbs_worker *w, enum send_drop why, struct rte_mbuf *m);

/* poll.c: posts receive buffers. */
void verbs_refill(struct verbs_worker *w);

/* ah.c: the worker's cache. find returns NULL when there is no room, or the queue pair waits for too many. */
struct ah_entry *verbs_ah_find(struct verbs_worker *w, struct verbs_qp *q, const struct ib_ah *ah, bool grh);
/* Takes answers, then drops all address handles if management wants that. Returns whether there were answers. */
bool verbs_ah_answers(struct verbs_worker *w);
void verbs_ah_retire(struct verbs_worker *w, struct ah_entry *e);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Between the worker's calls (post.c, poll.c) and its queues at the device, which are used in one of two ways: by
 * libibverbs (portable.c), or directly (direct.h). */
#ifndef CAUSEWAY_VERBS_QUEUES_H
#define CAUSEWAY_VERBS_QUEUES_H

#include "worker.h"

/* Mbufs of ended sends, to be freed together. */
struct ended_mbufs {
	struct rte_mbuf *mbuf[VERBS_BURST];
	unsigned n; /* less than VERBS_BURST */
};

/* One way. A worker has the same from its beginning to its end. */
struct verbs_queues {
	/* Posts the burst's lists. */
	void (*post)(struct verbs_worker *w);

	/* Takes up to VERBS_BURST completions of sends, and returns how many there were. */
	unsigned (*complete)(struct verbs_worker *w);

	/* Takes up to n completions of receives, n at most VERBS_BURST, and writes the good ones to recvs, *out many.
	 * Returns how many there were; negative: the queue is lost. */
	int (*receive)(struct verbs_worker *w, struct ib_recv *recvs, unsigned n, unsigned *out);

	/* Posts n buffers, which are the device's then; those that it does not take are freed. Returns whether it took
	 * all. */
	bool (*refill)(struct verbs_worker *w, struct rte_mbuf **m, unsigned n);

	/* The next completion of each kind is told by the worker's channel. */
	void (*arm)(struct verbs_worker *w);

	/* A completion queue has told of one. */
	void (*told)(struct verbs_worker *w, const struct ibv_cq *cq);
};

extern const struct verbs_queues verbs_portable, verbs_direct;

/* poll.c: a completion ends the n oldest sends of a queue pair, with this status of the last. */
void verbs_end_sends(struct verbs_worker *w, struct verbs_qp *q, uint32_t n, enum ibv_wc_status status,
		     struct ended_mbufs *ended);
void verbs_free_ended(struct ended_mbufs *e);
void verbs_mark_qpn(struct verbs_worker *w, uint32_t qpn);

#endif

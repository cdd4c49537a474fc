/* SPDX-License-Identifier: Apache-2.0 */
/* The port's management side: called from Go, one call at a time for each queue pair; may block. */
#ifndef CAUSEWAY_VERBS_MANAGE_H
#define CAUSEWAY_VERBS_MANAGE_H

#include "worker.h"

/* The sizes of a worker's share. */
struct verbs_sizes {
	unsigned worker;     /* its number */
	unsigned lcore;      /* its memory is on that NUMA node; 0: anywhere */
	unsigned qps;        /* queue pairs at a time */
	unsigned receives;   /* buffers posted */
	unsigned sends;      /* under way, of all queue pairs */
	unsigned ah_entries; /* address handles kept */
	unsigned pending;    /* messages that wait for address handles; 0: VERBS_PENDING */
};

/* Opens a device by name. names gets the names of all devices, separated by ", ". */
int verbs_device_open(const char *name, unsigned port, struct verbs_device **out, char *names, unsigned size);

/* Registers the mempool's memory. */
int verbs_device_register(struct verbs_device *d, struct rte_mempool *pool);
int verbs_device_close(struct verbs_device *d);

/* The room of the pool's buffers behind the headroom, bytes. */
unsigned verbs_pool_room(struct rte_mempool *pool);

/* The most that the device holds in one queue: receive buffers, completions; and its queue pairs, all programs'
 * together. */
struct verbs_limits {
	int receives, completions, qps;
};

int verbs_limits_read(struct verbs_device *d, struct verbs_limits *to);

/* mlx5's queues without its library. supported says whether the port's device is one for it; the others do nothing for
 * a worker whose queues are the library's. take takes a new worker's queues, and take_qp a new queue pair, before they
 * are used; discard ends what is left of a queue pair that has been reset; forget has the worker find it no more, once
 * it has ended its call; address is what a worker posts of a handle. 0 or a positive errno: ENOTSUP, where the device
 * has another form than the port knows, and ETIMEDOUT from discard, where the worker does not run. */
bool verbs_direct_supported(const struct verbs_device *d);
int verbs_direct_take(struct verbs_worker *w);
void verbs_direct_free(struct verbs_worker *w);
int verbs_direct_take_qp(struct verbs_worker *w, struct verbs_qp *q);
int verbs_direct_discard(struct verbs_worker *w, struct verbs_qp *q);
void verbs_direct_forget_qp(struct verbs_worker *w, struct verbs_qp *q);
const void *verbs_direct_address(const struct verbs_worker *w, struct ibv_ah *ah);
void verbs_direct_stop(struct verbs_worker *w); /* management is in the worker's place from now on */

/* A GID table entry. */
struct verbs_gid {
	uint8_t gid[16];
	uint32_t index;
	uint32_t type; /* enum ibv_gid_type */
	uint32_t ifindex;
};

/* Returns how many entries there are, at most n, or a negative errno. */
int verbs_gids(struct verbs_device *d, struct verbs_gid *to, unsigned n);

int verbs_worker_new(struct verbs_device *d, const struct verbs_sizes *s, struct verbs_worker **out);

/* The worker must make no more calls: management takes its place, waits a moment for sends in flight, and counts the
 * rest as dropped. The queue pairs are destroyed, too. */
int verbs_worker_stop(struct verbs_worker *w);
void verbs_worker_free(struct verbs_worker *w);

/* What wakes the worker when it sleeps. */
void verbs_sleep_open(struct verbs_worker *w);
void verbs_sleep_close(struct verbs_worker *w);

void verbs_counters_read(const struct verbs_worker *w, struct verbs_counters *to);
const char *verbs_send_drop_name(unsigned i);
const char *verbs_recv_drop_name(unsigned i);

/* How often queue pairs of the worker were marked as failed. */
uint64_t verbs_errors(const struct verbs_worker *w);

/* Asks the device, once, whether it keeps from a queue pair the multicast that this has sent itself
 * (IBV_QP_CREATE_BLOCK_SELF_MCAST_LB). All queue pairs made later are of that kind if it does. */
void verbs_ask_to_block(struct verbs_worker *w);

/* Queue pairs. A handle of the given index and generation. */
int verbs_qp_new(struct verbs_worker *w, uint32_t handle, uint32_t qkey, uint16_t pkey_index, unsigned depth,
		 struct verbs_qp **out);
/* Stops it, waits a moment until the worker has taken all received messages, and destroys it. An error means that it
 * stays, and must be marked. */
int verbs_qp_destroy(struct verbs_worker *w, struct verbs_qp *q);
int verbs_qp_rest(struct verbs_worker *w, struct verbs_qp *q); /* the same, but for its number: until verbs_qp_free */
int verbs_qp_free(struct verbs_qp *q);
int verbs_qp_end(struct verbs_worker *w, struct verbs_qp *q); /* at once: for one that receives no more */

/* Recovery in steps, so that no call blocks: drain lets the device flush sends in flight; drained returns whether the
 * worker has taken all completions, of sends and receives; cycle drops what is left and resets the queue pair, which
 * keeps its number, with its P_Key at a place in the port's table. */
bool verbs_qp_take_error(struct verbs_qp *q);
void verbs_qp_drain(struct verbs_worker *w, struct verbs_qp *q);
bool verbs_qp_drained(const struct verbs_worker *w, const struct verbs_qp *q);
int verbs_qp_cycle(struct verbs_worker *w, struct verbs_qp *q, uint16_t pkey_index);
void verbs_qp_set_pkey_lost(struct verbs_qp *q, bool lost); /* what is sent by it meanwhile is dropped as such */
void verbs_mark_error(struct verbs_worker *w, struct verbs_qp *q);

/* What was posted: whether messages wait for their address handles; and until which number a queue pair is to have
 * ended its sends, false: it has ended all. */
bool verbs_pends(const struct verbs_worker *w);
bool verbs_qp_sends(const struct verbs_qp *q, uint32_t *until);
bool verbs_qp_ended_until(const struct verbs_qp *q, uint32_t until);

/* Address handles. */
struct ah_entry *verbs_ah_next_request(struct verbs_worker *w); /* NULL: none */
struct ibv_ah *verbs_ah_next_retired(struct verbs_worker *w);
int verbs_ah_create(struct verbs_device *d, const struct ah_key *k, unsigned sgid_index, struct ibv_ah **out);
void verbs_ah_answer(struct verbs_worker *w, struct ah_entry *e, struct ibv_ah *ah);
void verbs_ah_flush(struct verbs_worker *w);
void verbs_ah_release(struct verbs_worker *w); /* in the worker's place, after it has stopped: retires all */

/* The state of a port. */
struct verbs_port {
	uint32_t state; /* enum ibv_port_state */
	uint32_t mtu;   /* enum ibv_mtu, active */
	uint32_t gids, pkeys;
	uint16_t lid, sm_lid;
	uint8_t lmc;
	uint8_t width, speed; /* of the link, as ibv_query_port(3) encodes them */
};

/* Reads the port; the workers' largest payload follows its MTU. */
int verbs_port_read(struct verbs_device *d, struct verbs_port *to);
int verbs_pkey_read(struct verbs_device *d, unsigned index, uint16_t *pkey);

/* An asynchronous event. */
struct verbs_async {
	uint32_t type;               /* enum ibv_event_type */
	uint32_t handle;             /* the queue pair's, 0: not about one */
	struct verbs_worker *worker; /* whose completion or receive queue, NULL: not about one */
};

/* Takes the next event; EAGAIN when there is none. */
int verbs_async_next(struct verbs_device *d, struct verbs_async *to);

#endif

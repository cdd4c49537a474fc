// SPDX-License-Identifier: Apache-2.0

/* The UD QP of an endpoint. A call that fails in a way that no test expects ends the program with an "error" line. */

#ifndef UDEND_QUEUE_PAIR_H
#define UDEND_QUEUE_PAIR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct endpoint {
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *receive_cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_gid_entry source; /* the GID of our IP: index, netdev */
	const char *netdev;
	uint16_t pkey_index;
	bool infiniband;         /* the link layer */
	struct group *groups;    /* that rdma_cm has joined, on InfiniBand */
	uint8_t *memory;         /* RECEIVES slots, then one to send from */
	struct endpoint *second; /* on another fabric; NULL: none */
};

/* Seconds of CLOCK_MONOTONIC. */
double now(void);

/* Prints an "error" line with errno, and exits with 3. */
void fail(const char *what) __attribute__((noreturn));

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* One UD queue pair with buffers of its own, for the traffic commands, which may wait. */
#ifndef CAUSEWAY_VERBS_UD_H
#define CAUSEWAY_VERBS_UD_H

#include "manage.h"

enum {
	VERBS_UD_RECEIVES = 4096,
	VERBS_UD_SENDS = 512,
	VERBS_UD_SLOT = 4096 + 64, /* the 40-byte area and the largest payload */
};

struct verbs_ud;

/* A message. Its buffer is valid until verbs_ud_repost is called with its slot. */
struct verbs_ud_message {
	const uint8_t *area; /* 40 bytes: a GRH, or an IPv4 header at their end; then the payload */
	uint32_t len;        /* of the payload */
	uint32_t src_qpn;
	uint32_t slot;
	uint16_t slid;
	uint8_t sl;
	bool grh; /* the area is filled */
};

/* The destination of messages. On Ethernet there is always a GRH. */
struct verbs_ud_to {
	uint8_t dgid[16];
	uint32_t flow_label;
	uint32_t sgid_index;
	uint16_t dlid;
	uint8_t sl, hop_limit, tclass, static_rate;
	bool grh;
};

/* All return 0 or an errno. One thread at a time may send, and one may receive. */
int verbs_ud_new(struct verbs_device *d, uint32_t qkey, uint16_t pkey_index, struct verbs_ud **out);
void verbs_ud_free(struct verbs_ud *u);
uint32_t verbs_ud_qpn(const struct verbs_ud *u);
int verbs_ud_attach(struct verbs_ud *u, const uint8_t *mgid, uint16_t mlid);
int verbs_ud_address(struct verbs_ud *u, const struct verbs_ud_to *to, struct ibv_ah **out);
/* The data is copied. EAGAIN: all buffers are in flight. */
int verbs_ud_send(struct verbs_ud *u, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey, const void *data, uint32_t len);
/* Waits until all sends have left, a second at most. */
void verbs_ud_flush(struct verbs_ud *u);
/* Waits until there may be messages, at most so long: ETIMEDOUT. */
int verbs_ud_wait(struct verbs_ud *u, int milliseconds);
/* Returns how many it took, at most n, or a negative errno. */
int verbs_ud_poll(struct verbs_ud *u, struct verbs_ud_message *to, int n);
int verbs_ud_repost(struct verbs_ud *u, uint32_t slot);

#endif

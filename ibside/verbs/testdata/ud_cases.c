/* SPDX-License-Identifier: Apache-2.0 */
/* ud.c on a device that returns every message to its sender, when the test makes it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../ud.h"

#undef ibv_reg_mr
#define WANT(what)                                                                                                     \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			printf("line %d: not %s\n", __LINE__, #what);                                                  \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

enum { QUEUE = 8192, QPN = 0x77 };

static struct ibv_context context;
static struct ibv_pd pd = {.context = &context};
static struct ibv_comp_channel channel;
static struct ibv_cq cqs[2]; /* of receives, of sends */
static struct ibv_qp qp = {.context = &context, .qp_num = QPN};
static struct ibv_mr mr = {.lkey = 5};
static struct ibv_ah ah;
static struct verbs_device device = {.ctx = &context, .pd = &pd, .ethernet = true, .grh = true, .port = 1};
static struct ibv_wc done[2][QUEUE];
static unsigned done_first[2], done_n[2], made, live;
static struct ibv_sge posted[QUEUE];
static uint64_t posted_id[QUEUE];
static unsigned posted_first, posted_n;
static bool slow; /* sends do not complete */
static int pipes[2];

static int req_notify(struct ibv_cq *cq, int solicited)
{
	(void)solicited;
	return cq == &cqs[0] ? 0 : EINVAL;
}

static void put(unsigned which, const struct ibv_wc *wc)
{
	WANT(done_n[which] < QUEUE);
	done[which][(done_first[which] + done_n[which]++) % QUEUE] = *wc;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	unsigned which = cq == &cqs[1];
	int got = 0;

	for (; got < n && done_n[which] > 0; got++, done_n[which]--)
		wc[got] = done[which][done_first[which]++ % QUEUE];
	return got;
}

static int post_recv(struct ibv_qp *q, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)q;
	(void)bad;
	WANT(posted_n < VERBS_UD_RECEIVES && wr->sg_list->lkey == mr.lkey);
	posted[(posted_first + posted_n) % QUEUE] = *wr->sg_list;
	posted_id[(posted_first + posted_n++) % QUEUE] = wr->wr_id;
	return 0;
}

/* A sent message comes back, if there is a buffer; the completion comes at once unless the device is slow. */
static int post_send(struct ibv_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	(void)bad;
	WANT(wr->wr.ud.ah == &ah && wr->wr.ud.remote_qpn == QPN && wr->wr.ud.remote_qkey == 0x1234);
	if (!slow)
		put(1, &wc);
	if (posted_n > 0) {
		struct ibv_sge to = posted[posted_first % QUEUE];
		wc.wr_id = posted_id[posted_first++ % QUEUE];
		posted_n--;
		wc.byte_len = IB_GRH_LEN + wr->sg_list->length;
		wc.src_qp = q->qp_num;
		wc.wc_flags = IBV_WC_GRH;
		WANT(wc.byte_len <= to.length);
		memset((void *)(uintptr_t)to.addr, 0x60, IB_GRH_LEN);
		memcpy((void *)(uintptr_t)(to.addr + IB_GRH_LEN), (void *)(uintptr_t)wr->sg_list->addr,
		       wr->sg_list->length);
		put(0, &wc);
		WANT(write(pipes[1], "x", 1) == 1);
	}
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	(void)ctx;
	live++;
	channel.fd = pipes[0];
	return &channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *c)
{
	(void)c;
	live--;
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int n, void *arg, struct ibv_comp_channel *ch, int vector)
{
	(void)n;
	(void)arg;
	(void)ch;
	(void)vector;
	live++;
	cqs[made % 2].context = ctx;
	return &cqs[made++ % 2];
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	(void)cq;
	live--;
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **context_of)
{
	char c;

	*cq = &cqs[0];
	*context_of = NULL;
	return read(ch->fd, &c, 1) == 1 ? 0 : -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	(void)cq;
	(void)n;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *p, struct ibv_qp_init_attr *a)
{
	(void)p;
	WANT(a->recv_cq == &cqs[0] && a->send_cq == &cqs[1] && a->qp_type == IBV_QPT_UD);
	live++;
	return &qp;
}

int ibv_modify_qp(struct ibv_qp *q, struct ibv_qp_attr *a, int mask)
{
	(void)mask;
	q->state = a->qp_state;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *q)
{
	(void)q;
	live--;
	return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *p, void *addr, size_t len, int access)
{
	(void)p;
	(void)addr;
	(void)len;
	(void)access;
	live++;
	return &mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *p, void *addr, size_t len, uint64_t iova, unsigned access)
{
	(void)iova;
	return ibv_reg_mr(p, addr, len, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *m)
{
	(void)m;
	live--;
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *p, struct ibv_ah_attr *a)
{
	(void)p;
	WANT(a->is_global && a->grh.sgid_index == 3 && a->grh.dgid.raw[15] == 9 && a->port_num == 1);
	return &ah;
}

int ibv_attach_mcast(struct ibv_qp *q, const union ibv_gid *gid, uint16_t lid)
{
	return q == &qp && gid->raw[0] == 0xff && lid == 0xc000 ? 0 : EINVAL;
}

/* Takes all messages that have come and returns how many; each must carry the next number. */
static unsigned take(struct verbs_ud *u, uint32_t *next, uint32_t len)
{
	struct verbs_ud_message m[64];
	unsigned all = 0;

	for (int n = 64; n > 0;) {
		n = verbs_ud_poll(u, m, 64);
		WANT(n >= 0);
		for (int i = 0; i < n; i++, all++, (*next)++) {
			uint32_t number;
			memcpy(&number, m[i].area + IB_GRH_LEN, sizeof(number));
			WANT(number == *next && m[i].len == len && m[i].grh && m[i].src_qpn == QPN &&
			     m[i].area[0] == 0x60);
			WANT(verbs_ud_repost(u, m[i].slot) == 0);
		}
	}
	return all;
}

static void exchange(struct verbs_ud *u, struct ibv_ah *to)
{
	static uint8_t data[4096];
	uint32_t next = 0;

	for (uint32_t i = 0; i < 3 * VERBS_UD_RECEIVES; i++) {
		memcpy(data, &i, sizeof(i));
		WANT(verbs_ud_send(u, to, QPN, 0x1234, data, sizeof(data)) == 0);
		WANT(verbs_ud_wait(u, 1000) == 0);
		if (i % 100 == 99)
			WANT(take(u, &next, sizeof(data)) == 100);
	}
	take(u, &next, sizeof(data));
	WANT(next == 3 * VERBS_UD_RECEIVES && posted_n == VERBS_UD_RECEIVES);
	WANT(verbs_ud_wait(u, 1) == ETIMEDOUT);
}

/* A slow device takes as many as there is room for, and then none until it has completed some. */
static void full(struct verbs_ud *u, struct ibv_ah *to)
{
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	slow = true;
	for (unsigned i = 0; i < VERBS_UD_SENDS; i++)
		WANT(verbs_ud_send(u, to, QPN, 0x1234, "full", 4) == 0);
	WANT(verbs_ud_send(u, to, QPN, 0x1234, "full", 4) == EAGAIN);
	put(1, &wc);
	WANT(verbs_ud_send(u, to, QPN, 0x1234, "full", 4) == 0);
	WANT(verbs_ud_send(u, to, QPN, 0x1234, "full", 4) == EAGAIN);
	for (unsigned i = 0; i < VERBS_UD_SENDS; i++)
		put(1, &wc);
	verbs_ud_flush(u);
	wc.status = IBV_WC_WR_FLUSH_ERR;
	put(1, &wc);
	WANT(verbs_ud_send(u, to, QPN, 0x1234, "gone", 4) == EIO);
	WANT(verbs_ud_send(u, to, QPN, 0x1234, "long", VERBS_UD_SLOT + 1) == EMSGSIZE);
}

int main(void)
{
	struct verbs_ud_to to = {.dgid = {[0] = 0xfe, [15] = 9}, .sgid_index = 3, .grh = true};
	uint8_t group[16] = {0xff};
	struct verbs_ud *u;
	struct ibv_ah *handle;

	WANT(pipe(pipes) == 0);
	context.ops.poll_cq = poll_cq;
	context.ops.post_send = post_send;
	context.ops.post_recv = post_recv;
	context.ops.req_notify_cq = req_notify;
	WANT(verbs_ud_new(&device, 0x1234, 0, &u) == 0);
	WANT(verbs_ud_qpn(u) == QPN && qp.state == IBV_QPS_RTS && posted_n == VERBS_UD_RECEIVES);
	WANT(verbs_ud_attach(u, group, 0xc000) == 0 && verbs_ud_attach(u, group, 0xc001) == EINVAL);
	WANT(verbs_ud_address(u, &to, &handle) == 0 && handle == &ah);
	exchange(u, handle);
	full(u, handle);
	verbs_ud_free(u);
	WANT(live == 0);
	printf("ud: ok\n");
	return 0;
}

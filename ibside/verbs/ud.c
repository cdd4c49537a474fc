/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ud.h"

struct group {
	struct group *next;
	union ibv_gid gid;
	uint16_t lid;
};

struct verbs_ud {
	struct verbs_device *dev;
	struct ibv_comp_channel *channel;
	struct ibv_cq *recv_cq, *send_cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *room; /* the receives' slots, then the sends' */
	uint32_t sent; /* slots are used in turn: completions of one queue pair come in order */
	uint32_t under_way;
	struct group *groups;
};

static uint8_t *slot_at(const struct verbs_ud *u, uint32_t slot)
{
	return u->room + (size_t)slot * VERBS_UD_SLOT;
}

int verbs_ud_repost(struct verbs_ud *u, uint32_t slot)
{
	struct ibv_sge sge = {.addr = (uintptr_t)slot_at(u, slot), .length = VERBS_UD_SLOT, .lkey = u->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(u->qp, &wr, &bad);
}

static int make_queues(struct verbs_ud *u)
{
	struct ibv_context *ctx = u->dev->ctx;

	u->channel = ibv_create_comp_channel(ctx);
	if (!u->channel)
		return errno;
	u->recv_cq = ibv_create_cq(ctx, VERBS_UD_RECEIVES, NULL, u->channel, 0);
	if (!u->recv_cq)
		return errno;
	u->send_cq = ibv_create_cq(ctx, VERBS_UD_SENDS, NULL, NULL, 0);
	if (!u->send_cq)
		return errno;
	struct ibv_qp_init_attr a = {
		.send_cq = u->send_cq,
		.recv_cq = u->recv_cq,
		.cap = {.max_send_wr = VERBS_UD_SENDS,
			.max_recv_wr = VERBS_UD_RECEIVES,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
	};
	u->qp = ibv_create_qp(u->dev->pd, &a);
	return u->qp ? 0 : errno;
}

static int make_ready(struct verbs_ud *u, uint32_t qkey, uint16_t pkey_index)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .pkey_index = pkey_index, .port_num = u->dev->port, .qkey = qkey};
	int err = ibv_modify_qp(u->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	for (uint32_t i = 0; !err && i < VERBS_UD_RECEIVES; i++)
		err = verbs_ud_repost(u, i);
	if (!err)
		err = ibv_req_notify_cq(u->recv_cq, 0);
	if (!err) {
		a.qp_state = IBV_QPS_RTR;
		err = ibv_modify_qp(u->qp, &a, IBV_QP_STATE);
	}
	if (!err) {
		a.qp_state = IBV_QPS_RTS;
		a.sq_psn = 0;
		err = ibv_modify_qp(u->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
	}
	return err;
}

int verbs_ud_new(struct verbs_device *d, uint32_t qkey, uint16_t pkey_index, struct verbs_ud **out)
{
	const size_t size = (size_t)(VERBS_UD_RECEIVES + VERBS_UD_SENDS) * VERBS_UD_SLOT;
	struct verbs_ud *u = calloc(1, sizeof(*u));
	int err = ENOMEM;

	if (!u)
		return err;
	u->dev = d;
	u->room = aligned_alloc(4096, size);
	if (u->room) {
		memset(u->room, 0, size);
		u->mr = ibv_reg_mr(d->pd, u->room, size, IBV_ACCESS_LOCAL_WRITE);
		err = u->mr ? make_queues(u) : errno;
	}
	if (!err)
		err = make_ready(u, qkey, pkey_index);
	if (err) {
		verbs_ud_free(u);
		return err;
	}
	*out = u;
	return 0;
}

/* The kernel does not end a queue pair that is a member of a group. */
static void detach_all(struct verbs_ud *u)
{
	for (struct group *g = u->groups, *next; g; g = next) {
		next = g->next;
		ibv_detach_mcast(u->qp, &g->gid, g->lid);
		free(g);
	}
}

void verbs_ud_free(struct verbs_ud *u)
{
	detach_all(u);
	if (u->qp)
		ibv_destroy_qp(u->qp);
	if (u->send_cq)
		ibv_destroy_cq(u->send_cq);
	if (u->recv_cq)
		ibv_destroy_cq(u->recv_cq);
	if (u->channel)
		ibv_destroy_comp_channel(u->channel);
	if (u->mr)
		ibv_dereg_mr(u->mr);
	free(u->room);
	free(u);
}

uint32_t verbs_ud_qpn(const struct verbs_ud *u)
{
	return u->qp->qp_num;
}

int verbs_ud_attach(struct verbs_ud *u, const uint8_t *mgid, uint16_t mlid)
{
	struct group *g = calloc(1, sizeof(*g));

	if (!g)
		return ENOMEM;
	memcpy(g->gid.raw, mgid, sizeof(g->gid.raw));
	g->lid = mlid;
	g->next = u->groups;
	int err = ibv_attach_mcast(u->qp, &g->gid, mlid);
	if (err)
		free(g);
	else
		u->groups = g;
	return err;
}

int verbs_ud_address(struct verbs_ud *u, const struct verbs_ud_to *to, struct ibv_ah **out)
{
	struct ibv_ah_attr a = {.dlid = to->dlid,
				.sl = to->sl,
				.static_rate = to->static_rate,
				.port_num = u->dev->port,
				.is_global = to->grh};

	if (to->grh) {
		memcpy(a.grh.dgid.raw, to->dgid, sizeof(a.grh.dgid.raw));
		a.grh.flow_label = to->flow_label;
		a.grh.sgid_index = (uint8_t)to->sgid_index;
		a.grh.hop_limit = to->hop_limit;
		a.grh.traffic_class = to->tclass;
	}
	*out = ibv_create_ah(u->dev->pd, &a);
	return *out ? 0 : errno;
}

/* Takes completions of sends; returns the error of a failed one. */
static int reap(struct verbs_ud *u)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(u->send_cq, 16, wc), err = n < 0 ? EIO : 0;

	for (int i = 0; i < n; i++) {
		u->under_way--;
		if (wc[i].status != IBV_WC_SUCCESS)
			err = EIO;
	}
	return err;
}

int verbs_ud_send(struct verbs_ud *u, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey, const void *data, uint32_t len)
{
	uint8_t *room = slot_at(u, VERBS_UD_RECEIVES + u->sent % VERBS_UD_SENDS);
	struct ibv_sge sge = {.addr = (uintptr_t)room, .length = len, .lkey = u->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	if (len > VERBS_UD_SLOT)
		return EMSGSIZE;
	int err = reap(u);
	if (err)
		return err;
	if (u->under_way == VERBS_UD_SENDS)
		return EAGAIN;
	memcpy(room, data, len);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = qkey;
	err = ibv_post_send(u->qp, &wr, &bad);
	if (!err) {
		u->sent++;
		u->under_way++;
	}
	return err == ENOMEM ? EAGAIN : err;
}

void verbs_ud_flush(struct verbs_ud *u)
{
	enum { TRIES = 1000, PAUSE_US = 1000 };

	for (int i = 0; i < TRIES && u->under_way > 0 && !reap(u); i++)
		usleep(PAUSE_US);
}

int verbs_ud_wait(struct verbs_ud *u, int milliseconds)
{
	struct pollfd p = {.fd = u->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;
	int n = poll(&p, 1, milliseconds);

	if (n == 0 || (n < 0 && errno == EINTR))
		return ETIMEDOUT;
	if (n < 0 || ibv_get_cq_event(u->channel, &cq, &context))
		return errno;
	ibv_ack_cq_events(cq, 1);
	return ibv_req_notify_cq(cq, 0); /* before the poll that follows: nothing is missed */
}

int verbs_ud_poll(struct verbs_ud *u, struct verbs_ud_message *to, int n)
{
	struct ibv_wc wc[64];
	int got = ibv_poll_cq(u->recv_cq, n < 64 ? n : 64, wc), whole = 0;

	if (got < 0)
		return -EIO;
	for (int i = 0; i < got; i++) {
		uint32_t slot = (uint32_t)wc[i].wr_id;
		if (wc[i].status != IBV_WC_SUCCESS || wc[i].byte_len < IB_GRH_LEN)
			return -EIO; /* the queue pair is in error, or the port's device has gone */
		to[whole++] = (struct verbs_ud_message){
			.area = slot_at(u, slot),
			.len = wc[i].byte_len - IB_GRH_LEN,
			.src_qpn = wc[i].src_qp,
			.slot = slot,
			.slid = wc[i].slid,
			.sl = u->dev->ethernet ? 0 : wc[i].sl,
			.grh = wc[i].wc_flags & IBV_WC_GRH,
		};
	}
	return whole;
}

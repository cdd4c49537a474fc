// SPDX-License-Identifier: Apache-2.0

#include "endpoint.h"
#include "group.h"
#include "options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_GIDS = 128, SENDS = 16 };

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	for (int i = 0; list && list[i]; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			return ibv_open_device(list[i]);
	errno = ENODEV;
	return NULL;
}

static void find_gid(struct endpoint *e, const union ibv_gid *ip, const char *netdev)
{
	struct ibv_gid_entry table[MAX_GIDS];
	unsigned ifindex = netdev ? if_nametoindex(netdev) : 0;
	ssize_t n = ibv_query_gid_table(e->device, table, MAX_GIDS, 0);
	for (ssize_t i = 0; i < n; i++) {
		bool infiniband = table[i].gid_type == IBV_GID_TYPE_IB;
		if (table[i].gid_type == IBV_GID_TYPE_ROCE_V1 || memcmp(&table[i].gid, ip, sizeof *ip))
			continue;
		if (netdev && !infiniband && table[i].ndev_ifindex != ifindex)
			continue;
		e->source = table[i];
		e->infiniband = infiniband;
		e->netdev = netdev;
		return;
	}
	errno = EADDRNOTAVAIL;
	fail("no GID for --ip");
}

static void modify(struct endpoint *e, enum ibv_qp_state state, uint32_t qkey, int mask)
{
	struct ibv_qp_attr attr = {
		.qp_state = state, .port_num = e->source.port_num, .pkey_index = e->pkey_index, .qkey = qkey};
	if (ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | mask))
		fail("ibv_modify_qp");
}

static void post_receive(struct endpoint *e, uint64_t slot)
{
	struct ibv_sge sge = {(uintptr_t)(e->memory + slot * SLOT), GRH_AREA + MAX_PAYLOAD, e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;
	if (ibv_post_recv(e->qp, &wr, &bad))
		fail("ibv_post_recv");
}

static struct ibv_qp *create_qp(struct endpoint *e)
{
	struct ibv_qp_init_attr init = {
		.send_cq = e->send_cq,
		.recv_cq = e->receive_cq,
		.qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = SENDS, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(e->pd, &init);
	if (!qp)
		fail("ibv_create_qp");
	return qp;
}

static void start_qp(struct endpoint *e, uint32_t qkey)
{
	modify(e, IBV_QPS_INIT, qkey, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	for (int i = 0; i < RECEIVES; i++)
		post_receive(e, i);
	modify(e, IBV_QPS_RTR, 0, 0);
	modify(e, IBV_QPS_RTS, 0, IBV_QP_SQ_PSN);
}

static void open_end(struct endpoint *e, const char *device, const union ibv_gid *ip, const char *netdev)
{
	size_t size = (RECEIVES + 1) * SLOT;
	e->device = open_device(device);
	if (!e->device)
		fail("open the RDMA device");
	find_gid(e, ip, netdev);
	e->memory = aligned_alloc(64, size);
	e->pd = ibv_alloc_pd(e->device);
	if (!e->memory || !e->pd)
		fail("allocate");
	memset(e->memory, 0, size);
	e->mr = ibv_reg_mr(e->pd, e->memory, size, IBV_ACCESS_LOCAL_WRITE);
	e->send_cq = ibv_create_cq(e->device, SENDS, NULL, NULL, 0);
	e->receive_cq = ibv_create_cq(e->device, RECEIVES, NULL, NULL, 0);
	if (!e->mr || !e->send_cq || !e->receive_cq)
		fail("create MR and CQs");
	e->qp = create_qp(e);
}

/* A device gives the next number each time. */
static void another_qp(struct endpoint *e)
{
	ibv_destroy_qp(e->qp);
	e->qp = create_qp(e);
}

static void open_second(struct endpoint *e, const char *device, const union ibv_gid *gid, const char *netdev)
{
	struct endpoint *second = calloc(1, sizeof *second);
	if (!second)
		fail("calloc");
	open_end(second, device, gid, netdev);
	e->second = second;
	while (e->qp->qp_num != second->qp->qp_num)
		another_qp(e->qp->qp_num < second->qp->qp_num ? e : second);
}

void endpoint_open(struct endpoint *e, const struct options *o)
{
	open_end(e, o->dev, &o->ip, o->netdev);
	if (o->second_dev)
		open_second(e, o->second_dev, &o->second_ip, o->second_netdev);
	for (struct endpoint *x = e; x; x = x->second)
		start_qp(x, o->qkey);
}

/* The socket stays open: the membership lasts as long as the program. */
static void join_ip_group(struct endpoint *e, const union ibv_gid *mgid)
{
	struct in6_addr group;
	memcpy(&group, mgid, sizeof group);
	int v4 = IN6_IS_ADDR_V4MAPPED(&group), rc;
	int fd = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM, 0);
	if (v4) {
		struct ip_mreqn join = {.imr_ifindex = e->source.ndev_ifindex};
		memcpy(&join.imr_multiaddr, mgid->raw + 12, 4);
		rc = setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join);
	} else {
		struct ipv6_mreq join = {.ipv6mr_multiaddr = group, .ipv6mr_interface = e->source.ndev_ifindex};
		rc = setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &join, sizeof join);
	}
	if (rc)
		fail("join the IP group");
}

void endpoint_attach(struct endpoint *e, const union ibv_gid *mgid)
{
	if (e->infiniband) {
		for (; e; e = e->second)
			group_receive(e, mgid);
		return;
	}
	join_ip_group(e, mgid);
	errno = ibv_attach_mcast(e->qp, mgid, 0);
	if (errno)
		fail("ibv_attach_mcast");
}

uint8_t *endpoint_send_buffer(struct endpoint *e)
{
	return e->memory + RECEIVES * SLOT;
}

static enum ibv_wc_status send_wait(struct endpoint *e, struct ibv_ah *ah, const struct target *to, uint32_t n)
{
	struct ibv_sge sge = {(uintptr_t)endpoint_send_buffer(e), n, e->mr->lkey};
	struct ibv_send_wr wr =
				   {
					   .sg_list = &sge,
					   .num_sge = n ? 1 : 0,
					   .opcode = to->with_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
					   .send_flags = IBV_SEND_SIGNALED,
					   .imm_data = htonl(to->imm),
					   .wr.ud = {.ah = ah, .remote_qpn = to->qpn, .remote_qkey = to->qkey},
				   },
			   *bad;
	struct ibv_wc wc;
	errno = ibv_post_send(e->qp, &wr, &bad);
	if (errno)
		fail("ibv_post_send");
	while (ibv_poll_cq(e->send_cq, 1, &wc) < 1)
		;
	return wc.status;
}

enum ibv_wc_status endpoint_send(struct endpoint *e, const struct target *to, uint32_t n)
{
	enum ibv_wc_status status;
	groups_serve(e);
	status = send_wait(e, to->group ? group_ah(e, to->group) : to->ah, to, n);
	if (!to->second)
		return status;
	groups_serve(e->second);
	memcpy(endpoint_send_buffer(e->second), endpoint_send_buffer(e), n);
	return send_wait(e->second, group_ah(e->second, to->second), to, n);
}

static bool poll_once(struct endpoint *e, struct message *m)
{
	if (ibv_poll_cq(e->receive_cq, 1, &m->wc) < 1)
		return false;
	m->of = e;
	m->grh = e->memory + m->wc.wr_id * SLOT;
	m->payload = m->grh + GRH_AREA;
	m->length = m->wc.byte_len > GRH_AREA ? m->wc.byte_len - GRH_AREA : 0;
	return true;
}

/* Polls with short sleeps, because two emulated hosts share few real CPUs. Nothing that may wait is between the two
 * ends: what comes to the first meanwhile would be taken after what comes to the second later. */
bool endpoint_receive(struct endpoint *e, double deadline, struct message *m)
{
	for (;; usleep(200)) {
		for (struct endpoint *x = e; x; x = x->second)
			groups_serve(x);
		for (struct endpoint *x = e; x; x = x->second)
			if (poll_once(x, m))
				return true;
		if (now() > deadline)
			return false;
	}
}

void endpoint_release(const struct message *m)
{
	post_receive(m->of, m->wc.wr_id);
}

static bool is_ipv4_group(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	return !memcmp(gid->raw, mapped, sizeof mapped) && gid->raw[12] >> 4 == 0xe;
}

static struct ibv_ah *create_ah(struct endpoint *e, const union ibv_gid *gid, const struct path *path)
{
	struct ibv_ah_attr attr = {
		.is_global = !path->without_grh,
		.dlid = path->dlid,
		.src_path_bits = path->source_bits,
		.sl = path->sl,
		.port_num = e->source.port_num,
		.grh = {.dgid = *gid,
			.sgid_index = e->source.gid_index,
			.traffic_class = path->tclass,
			.hop_limit = path->hop_limit},
	};
	struct ibv_ah *ah = ibv_create_ah(e->pd, &attr);
	if (!ah)
		fail("ibv_create_ah");
	return ah;
}

void endpoint_route(struct endpoint *e, struct target *to, const union ibv_gid *gid, const struct path *path)
{
	if (!e->infiniband || !is_ipv4_group(gid)) {
		to->ah = create_ah(e, gid, path);
		return;
	}
	to->group = group_send(e, gid);
	if (e->second)
		to->second = group_send(e->second, gid);
}

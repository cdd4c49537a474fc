/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <infiniband/ib.h>

#include "cm.h"

int verbs_cm_open(struct rdma_event_channel **out)
{
	*out = rdma_create_event_channel();
	if (!*out)
		return errno;
	fcntl((*out)->fd, F_SETFL, fcntl((*out)->fd, F_GETFL) | O_NONBLOCK);
	return 0;
}

void verbs_cm_sockaddr(struct sockaddr_storage *to, const struct verbs_address *a)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	memset(to, 0, sizeof(*to));
	if (memcmp(a->ip, mapped, sizeof(mapped)) == 0) {
		struct sockaddr_in *in = (void *)to;
		in->sin_family = AF_INET;
		in->sin_port = htons(a->port);
		memcpy(&in->sin_addr, a->ip + 12, 4);
	} else {
		struct sockaddr_in6 *in6 = (void *)to;
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(a->port);
		in6->sin6_scope_id = a->scope;
		memcpy(&in6->sin6_addr, a->ip, 16);
	}
}

/* An address as a join wants it: IP, or a GID of family AF_IB on InfiniBand, which takes an MGID as it is
 * (rdma_join_multicast(3)). */
static void fill_address(struct sockaddr_storage *to, const struct verbs_join *j, const uint8_t *gid)
{
	struct sockaddr_ib *ib = (void *)to;

	if (j->by_ip) {
		struct verbs_address a = {0};
		memcpy(a.ip, gid, sizeof(a.ip));
		verbs_cm_sockaddr(to, &a);
		return;
	}
	memset(to, 0, sizeof(*to));
	ib->sib_family = AF_IB;
	ib->sib_pkey = htons(j->pkey);
	ib->sib_sid = htobe64((uint64_t)RDMA_PS_UDP << 16);
	ib->sib_sid_mask = htobe64(0xffffffffffff0000);
	memcpy(&ib->sib_addr, gid, 16);
}

int verbs_cm_join(struct rdma_event_channel *c, const struct verbs_join *j, struct rdma_cm_id **out)
{
	struct sockaddr_storage own, group;
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = j->send_only ? RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER : RDMA_MC_JOIN_FLAG_FULLMEMBER,
		.addr = (struct sockaddr *)&group,
	};
	void *token = (void *)(uintptr_t)j->token;

	if (rdma_create_id(c, out, token, j->ipoib ? RDMA_PS_IPOIB : RDMA_PS_UDP))
		return errno;
	fill_address(&own, j, j->own);
	fill_address(&group, j, j->mgid);
	if (rdma_bind_addr(*out, (struct sockaddr *)&own) || rdma_join_multicast_ex(*out, &attr, token)) {
		int err = errno;
		rdma_destroy_id(*out);
		*out = NULL;
		return err;
	}
	return 0;
}

void verbs_cm_leave(struct rdma_cm_id *id, const struct verbs_join *j)
{
	struct sockaddr_storage group;

	fill_address(&group, j, j->mgid);
	rdma_leave_multicast(id, (struct sockaddr *)&group);
	rdma_destroy_id(id);
}

/* A request over native InfiniBand addresses has GIDs in place of IP addresses. */
static void read_address(const struct sockaddr *from, uint16_t port, struct verbs_address *to)
{
	const struct sockaddr_in *in = (const void *)from;
	const struct sockaddr_in6 *in6 = (const void *)from;
	const struct sockaddr_ib *ib = (const void *)from;

	*to = (struct verbs_address){.port = ntohs(port)};
	switch (from->sa_family) {
	case AF_INET:
		memset(to->ip + 10, 0xff, 2);
		memcpy(to->ip + 12, &in->sin_addr, 4);
		break;
	case AF_INET6:
		memcpy(to->ip, &in6->sin6_addr, 16);
		to->scope = in6->sin6_scope_id;
		break;
	case AF_IB:
		memcpy(to->ip, &ib->sib_addr, 16);
		break;
	}
}

static void read_route(const struct rdma_cm_event *e, struct verbs_sidr *to)
{
	const struct ibv_ah_attr *ah = &e->param.ud.ah_attr;
	const struct ibv_sa_path_rec *path = e->id->route.num_paths > 0 ? e->id->route.path_rec : NULL;

	to->qpn = e->param.ud.qp_num;
	to->is_global = ah->is_global;
	memcpy(to->dgid, ah->grh.dgid.raw, sizeof(to->dgid));
	if (!path)
		return;
	memcpy(to->sgid, path->sgid.raw, sizeof(to->sgid));
	memcpy(to->dgid, path->dgid.raw, sizeof(to->dgid)); /* without a GRH the handle's is empty */
	to->mtu = path->mtu;
}

/* Copies an event's data about a request or a connection, before the event is acknowledged. */
static void read_sidr(const struct rdma_cm_event *e, struct verbs_sidr *to)
{
	struct rdma_cm_id *id = e->id;
	const struct rdma_ud_param *u = &e->param.ud;
	const struct rdma_ib_addr *a = &id->route.addr.addr.ibaddr;

	if (id->verbs) {
		strncpy(to->device, ibv_get_device_name(id->verbs->device), sizeof(to->device) - 1);
		to->device_port = id->port_num;
	}
	to->pkey = ntohs(a->pkey);
	switch (e->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		to->request = id;
		read_address(rdma_get_local_addr(id), rdma_get_src_port(id), &to->local);
		read_address(rdma_get_peer_addr(id), rdma_get_dst_port(id), &to->peer);
		memcpy(to->sgid, a->sgid.raw, sizeof(to->sgid));
		memcpy(to->dgid, a->dgid.raw, sizeof(to->dgid));
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		read_route(e, to);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		break;
	default:
		return;
	}
	if (u->private_data) { /* 255 bytes at most, by its length's type */
		to->len = u->private_data_len;
		memcpy(to->data, u->private_data, to->len);
	}
}

int verbs_cm_next(struct rdma_event_channel *c, struct verbs_cm_event *to)
{
	struct rdma_cm_event *e;

	if (rdma_get_cm_event(c, &e))
		return errno;
	*to = (struct verbs_cm_event){
		.token = (uintptr_t)e->id->context,
		.type = (int32_t)e->event,
		.status = e->status,
	};
	read_sidr(e, &to->sidr);
	if (e->event == RDMA_CM_EVENT_MULTICAST_JOIN || e->event == RDMA_CM_EVENT_ESTABLISHED) {
		const struct rdma_ud_param *u = &e->param.ud;
		to->qkey = u->qkey;
		to->flow_label = u->ah_attr.grh.flow_label;
		to->lid = u->ah_attr.dlid;
		memcpy(to->mgid, u->ah_attr.grh.dgid.raw, sizeof(to->mgid));
		to->sl = u->ah_attr.sl;
		to->hop_limit = u->ah_attr.grh.hop_limit;
		to->tclass = u->ah_attr.grh.traffic_class;
		to->static_rate = u->ah_attr.static_rate;
	}
	rdma_ack_cm_event(e); /* at once: rdma_destroy_id waits for it */
	return 0;
}

int verbs_attach(struct verbs_qp *q, const uint8_t *mgid, uint16_t mlid)
{
	union ibv_gid g;

	memcpy(g.raw, mgid, sizeof(g.raw));
	return ibv_attach_mcast(q->qp, &g, mlid);
}

int verbs_detach(struct verbs_qp *q, const uint8_t *mgid, uint16_t mlid)
{
	union ibv_gid g;

	memcpy(g.raw, mgid, sizeof(g.raw));
	return ibv_detach_mcast(q->qp, &g, mlid);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include <infiniband/ib.h>

#include "sidr.h"

/* Requests that the kernel keeps for us till we fetch them; it refuses those beyond. The kernel's own limit is
 * /proc/sys/net/rdma_ucm/max_backlog, 1024 as it comes. */
#define BACKLOG 1024

static int fail(struct rdma_cm_id **id)
{
	int err = errno;

	rdma_destroy_id(*id);
	*id = NULL;
	return err;
}

int verbs_sidr_listen(struct rdma_event_channel *c, uint64_t token, uint16_t port, struct rdma_cm_id **out)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	if (rdma_create_id(c, out, (void *)(uintptr_t)token, RDMA_PS_UDP))
		return errno;
	if (rdma_bind_addr(*out, (struct sockaddr *)&any) || rdma_listen(*out, BACKLOG))
		return fail(out);
	return 0;
}

int verbs_sidr_accept(struct rdma_cm_id *id, uint32_t qpn, const uint8_t *data, uint8_t len)
{
	struct rdma_conn_param p = {.qp_num = qpn, .private_data = data, .private_data_len = len};

	return rdma_accept(id, &p) ? errno : 0;
}

int verbs_sidr_reject(struct rdma_cm_id *id, const uint8_t *data, uint8_t len)
{
	return rdma_reject(id, data, len) ? errno : 0;
}

int verbs_sidr_resolve(struct rdma_event_channel *c, uint64_t token, const struct verbs_address *from,
		       const struct verbs_address *to, unsigned ms, struct rdma_cm_id **out)
{
	struct sockaddr_storage src, dst;

	if (rdma_create_id(c, out, (void *)(uintptr_t)token, RDMA_PS_UDP))
		return errno;
	if (from)
		verbs_cm_sockaddr(&src, from);
	verbs_cm_sockaddr(&dst, to);
	if (rdma_resolve_addr(*out, from ? (struct sockaddr *)&src : NULL, (struct sockaddr *)&dst, (int)ms))
		return fail(out);
	return 0;
}

int verbs_sidr_route(struct rdma_cm_id *id, unsigned ms)
{
	return rdma_resolve_route(id, (int)ms) ? errno : 0;
}

int verbs_sidr_connect(struct rdma_cm_id *id, const uint8_t *data, uint8_t len)
{
	struct rdma_conn_param p = {.private_data = data, .private_data_len = len};

	return rdma_connect(id, &p) ? errno : 0;
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

void verbs_sidr_read(const struct rdma_cm_event *e, struct verbs_sidr *to)
{
	struct rdma_cm_id *id = e->id;
	const struct rdma_ud_param *u = &e->param.ud;
	const struct rdma_ib_addr *a = &id->route.addr.addr.ibaddr;

	if (id->verbs) {
		strncpy(to->device, ibv_get_device_name(id->verbs->device), sizeof(to->device) - 1);
		to->device_port = id->port_num;
	}
	switch (e->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		to->request = id;
		read_address(rdma_get_local_addr(id), rdma_get_src_port(id), &to->local);
		read_address(rdma_get_peer_addr(id), rdma_get_dst_port(id), &to->peer);
		to->pkey = ntohs(a->pkey);
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

/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>

#include "sidr.h"

/* Requests that the kernel queues for us; it rejects those beyond. The kernel's own limit is
 * /proc/sys/net/rdma_ucm/max_backlog, 1024 by default. */
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

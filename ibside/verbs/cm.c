/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <infiniband/ib.h>

#include "sidr.h"

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

/* An address as a join wants it: IP on Ethernet, a GID of family AF_IB on InfiniBand, where it takes an MGID as it
 * is (rdma_join_multicast(3)). */
static void fill_address(struct sockaddr_storage *to, const struct verbs_join *j, const uint8_t *gid)
{
	struct sockaddr_ib *ib = (void *)to;

	if (j->ethernet) {
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

	if (rdma_create_id(c, out, token, RDMA_PS_UDP))
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
	verbs_sidr_read(e, &to->sidr);
	if (e->event == RDMA_CM_EVENT_MULTICAST_JOIN || e->event == RDMA_CM_EVENT_ESTABLISHED) {
		const struct rdma_ud_param *u = &e->param.ud;
		to->qkey = u->qkey;
		to->flow_label = u->ah_attr.grh.flow_label;
		to->lid = u->ah_attr.dlid;
		to->sl = u->ah_attr.sl;
		to->hop_limit = u->ah_attr.grh.hop_limit;
		to->tclass = u->ah_attr.grh.traffic_class;
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

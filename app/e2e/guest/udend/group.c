// SPDX-License-Identifier: Apache-2.0

#include "group.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* An IPv4 group on InfiniBand, joined by rdma_cm from the IPoIB interface. When the subnet has ended the membership,
 * the kernel says so and leaves it to the program to join again. */
struct group {
	struct group *next;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct sockaddr_in to;
	struct ibv_ah_attr path; /* of the membership in force, or the last one */
	struct ibv_ah *ah;       /* to send by it; NULL until asked for */
	bool joined, joining;
	bool receives, attached;
	double retry; /* when to join again */
};

/* The IPv4 address of the IPoIB interface, which rdma_cm joins from. */
static struct sockaddr_in ipoib_address(const struct endpoint *e)
{
	struct ifreq request = {0};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (!e->netdev)
		fail("--netdev must name the IPoIB interface");
	strncpy(request.ifr_name, e->netdev, IFNAMSIZ - 1);
	if (ioctl(fd, SIOCGIFADDR, &request))
		fail("no IPv4 address on --netdev");
	close(fd);
	return *(struct sockaddr_in *)&request.ifr_addr;
}

/* While the port is not up, a request would wait for seconds for an answer. And rdma_cm needs IPoIB to have joined its
 * own group, which takes it a moment after a change of the subnet: or two seconds, when it tries while the kernel does
 * not know the new SM's address yet (-EAGAIN), because it waits that long before it tries again. */
static void try_join(struct endpoint *e, struct group *g)
{
	struct ibv_port_attr port;
	g->retry = now() + 0.05;
	if (ibv_query_port(e->device, e->source.port_num, &port) || port.state != IBV_PORT_ACTIVE)
		return;
	g->joining = !rdma_join_multicast(g->id, (struct sockaddr *)&g->to, NULL);
}

/* The group may be at another MLID than before. */
static void renew(struct endpoint *e, struct group *g, const struct ibv_ah_attr *path)
{
	if (g->attached && path->dlid != g->path.dlid) {
		ibv_detach_mcast(e->qp, &g->path.grh.dgid, g->path.dlid);
		g->attached = false;
	}
	g->path = *path;
	if (g->receives && !g->attached) {
		errno = ibv_attach_mcast(e->qp, &g->path.grh.dgid, g->path.dlid);
		if (errno)
			fail("ibv_attach_mcast");
		g->attached = true;
	}
	if (g->ah) {
		ibv_destroy_ah(g->ah);
		g->ah = NULL;
	}
	g->joined = true;
	printf("{\"event\":\"joined\",\"at\":%.6f,\"mlid\":%u}\n", now(), path->dlid);
}

/* Takes an event, if there is one. */
static bool take_event(struct endpoint *e, struct group *g)
{
	struct rdma_cm_event *event;
	if (rdma_get_cm_event(g->channel, &event))
		return false;
	enum rdma_cm_event_type type = event->event;
	struct ibv_ah_attr path = event->param.ud.ah_attr;
	rdma_ack_cm_event(event); /* rdma_leave_multicast waits for it */
	if (type == RDMA_CM_EVENT_MULTICAST_JOIN) {
		g->joining = false;
		renew(e, g, &path);
	} else if (type == RDMA_CM_EVENT_MULTICAST_ERROR) {
		g->joined = g->joining = false;
		rdma_leave_multicast(g->id, (struct sockaddr *)&g->to);
	}
	return true;
}

/* Joins are granted by events. */
static void serve(struct endpoint *e, struct group *g)
{
	while (take_event(e, g))
		;
	if (!g->joined && !g->joining && now() >= g->retry)
		try_join(e, g);
}

void groups_serve(struct endpoint *e)
{
	for (struct group *g = e->groups; g; g = g->next)
		serve(e, g);
}

static struct group *join(struct endpoint *e, const union ibv_gid *group, bool receives)
{
	struct group *g = calloc(1, sizeof *g);
	struct sockaddr_in own = ipoib_address(e);
	own.sin_port = 0;
	if (!g)
		fail("calloc");
	*g = (struct group){.next = e->groups, .to = {.sin_family = AF_INET}, .receives = receives};
	memcpy(&g->to.sin_addr, group->raw + 12, 4);
	g->channel = rdma_create_event_channel();
	if (!g->channel || fcntl(g->channel->fd, F_SETFL, O_NONBLOCK) ||
	    rdma_create_id(g->channel, &g->id, NULL, RDMA_PS_UDP) || rdma_bind_addr(g->id, (struct sockaddr *)&own))
		fail("bind to --netdev");
	for (double deadline = now() + 10; !g->joined; usleep(1000)) {
		errno = ETIMEDOUT;
		if (now() > deadline)
			fail("join the group");
		serve(e, g);
	}
	e->groups = g;
	return g;
}

void group_receive(struct endpoint *e, const union ibv_gid *group)
{
	join(e, group, true);
}

struct group *group_send(struct endpoint *e, const union ibv_gid *group)
{
	return join(e, group, false);
}

struct ibv_ah *group_ah(struct endpoint *e, struct group *g)
{
	if (!g->ah) {
		g->path.port_num = e->source.port_num;
		g->ah = ibv_create_ah(e->pd, &g->path);
		if (!g->ah)
			fail("ibv_create_ah");
	}
	return g->ah;
}

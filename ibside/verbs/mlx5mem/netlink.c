/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to NETLINK_RDMA. The one that is answered is whether memory is copied at a fork. Otherwise DPDK's
 * mlx5 driver calls ibv_fork_init (see calls.c). All others fail, so libibverbs looks for devices in sysfs.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/uio.h>

#include <rdma/rdma_netlink.h>

#include "device.h"

enum { NONE = 0, OPEN, ASKED, ASKED_SYSTEM };

static struct {
	uint8_t state[MAX_FDS];
	struct nlmsghdr last;
} sockets;

bool mem_netlink_is_ours(int fd)
{
	return fd >= 0 && fd < MAX_FDS && sockets.state[fd] != NONE;
}

void mem_netlink_open(int fd)
{
	if (fd < MAX_FDS)
		sockets.state[fd] = OPEN;
}

void mem_netlink_close(int fd)
{
	if (mem_netlink_is_ours(fd))
		sockets.state[fd] = NONE;
}

ssize_t mem_netlink_send(int fd, const struct msghdr *m)
{
	const struct nlmsghdr *h = m->msg_iov[0].iov_base;
	ssize_t all = 0;

	if (m->msg_iovlen < 1 || m->msg_iov[0].iov_len < sizeof(*h)) {
		errno = EINVAL;
		return -1;
	}
	for (size_t i = 0; i < m->msg_iovlen; i++)
		all += (ssize_t)m->msg_iov[i].iov_len;
	mem_lock();
	bool system = h->nlmsg_type == RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET);
	sockets.state[fd] = system ? ASKED_SYSTEM : ASKED;
	sockets.last = *h;
	mem_unlock();
	return all;
}

/* The answer to the last request; the number of its bytes. */
static uint32_t answer(int fd, uint8_t *to)
{
	struct nlmsghdr h = sockets.last;
	struct nlmsgerr e = {.error = -EOPNOTSUPP, .msg = h};
	struct nlattr a = {.nla_len = NLA_HDRLEN + 1, .nla_type = RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK};

	h.nlmsg_flags = 0;
	if (sockets.state[fd] == ASKED_SYSTEM) {
		h.nlmsg_len = NLMSG_HDRLEN + NLA_HDRLEN + NLA_ALIGN(1);
		memcpy(to + NLMSG_HDRLEN, &a, sizeof(a));
		to[NLMSG_HDRLEN + NLA_HDRLEN] = 1;
	} else {
		h.nlmsg_type = NLMSG_ERROR;
		h.nlmsg_len = NLMSG_LENGTH(sizeof(e));
		memcpy(to + NLMSG_HDRLEN, &e, sizeof(e));
	}
	memcpy(to, &h, sizeof(h));
	return h.nlmsg_len;
}

ssize_t mem_netlink_receive(int fd, struct msghdr *m)
{
	uint8_t bytes[128] = {0};
	struct sockaddr_nl from = {.nl_family = AF_NETLINK};

	mem_lock();
	bool asked = sockets.state[fd] != OPEN;
	uint32_t n = asked ? answer(fd, bytes) : 0;
	sockets.state[fd] = OPEN;
	mem_unlock();
	if (!asked || m->msg_iovlen < 1 || m->msg_iov[0].iov_len < n) {
		errno = asked ? EMSGSIZE : EAGAIN;
		return -1;
	}
	memcpy(m->msg_iov[0].iov_base, bytes, n);
	if (m->msg_name && m->msg_namelen >= sizeof(from))
		memcpy(m->msg_name, &from, sizeof(from));
	m->msg_namelen = sizeof(from);
	m->msg_controllen = 0;
	m->msg_flags = 0;
	return (ssize_t)n;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_af_packet puts the sockets of its queues, also a single one, into a group with PACKET_FANOUT_FLAG_DEFRAG
 * (packet(7)), without a choice. With it the kernel keeps fragments of IPv4 to itself until it has all of a datagram,
 * and drops without a count what stays incomplete, or is longer than a frame of the ring. Here the program has its own
 * setsockopt(2), which the PMD finds before the C library's, without that flag: fragments come to the workers, which
 * drop them by name. So it also learns which socket is of which queue.
 *
 * The PMD makes the group's number of those of the process and the interface, which two bridges on a machine may have
 * alike. Here the kernel chooses one that is free.
 */
#include <linux/if_packet.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dpdk.h"

/* The sockets that have joined a group since dpdk_fanout_begin(), in that order, which is that of the queues. */
static struct {
	unsigned n;
	int fd[DPDK_MAX_QUEUES];
	int group; /* of the first */
} joined;

void dpdk_fanout_begin(void)
{
	joined.n = 0;
}

unsigned dpdk_fanout_sockets(int *fds)
{
	memcpy(fds, joined.fd, joined.n * sizeof(*fds));
	return joined.n;
}

/* Above the group's number are type and flags. */
static int group_of(int fanout)
{
	unsigned flags = (unsigned)fanout >> 16 & ~(unsigned)PACKET_FANOUT_FLAG_DEFRAG;

	if (joined.n == 0)
		return (int)((flags | PACKET_FANOUT_FLAG_UNIQUEID) << 16);
	return (int)(flags << 16) | joined.group;
}

static void has_joined(int fd)
{
	int fanout;
	socklen_t len = sizeof(fanout);

	if (joined.n == 0 && getsockopt(fd, SOL_PACKET, PACKET_FANOUT, &fanout, &len) == 0)
		joined.group = fanout & 0xffff;
	if (joined.n < DPDK_MAX_QUEUES)
		joined.fd[joined.n++] = fd;
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	bool joins = level == SOL_PACKET && name == PACKET_FANOUT && len == sizeof(int);
	int fanout;

	if (joins) {
		memcpy(&fanout, value, sizeof(fanout));
		fanout = group_of(fanout);
		value = &fanout;
	}
	int done = (int)syscall(SYS_setsockopt, fd, level, name, value, len);
	if (done == 0 && joins) {
		has_joined(fd);
		done = dpdk_cut_other_tags(fd);
	}
	if (done == 0 && level == SOL_PACKET && name == PACKET_TX_RING && len == sizeof(struct tpacket_req))
		dpdk_stale_begin(fd, value);
	return done;
}

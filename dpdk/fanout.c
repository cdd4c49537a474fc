/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_af_packet puts the sockets of its queues, also a single one, into a group with PACKET_FANOUT_FLAG_DEFRAG
 * (packet(7)), without a choice. With it the kernel keeps fragments of IPv4 to itself until it has all of a datagram,
 * and drops without a count what stays incomplete, or is longer than a frame of the ring. Here the program has its own
 * setsockopt(2), which the PMD finds before the C library's, without that flag: fragments come to the workers, which
 * drop them by name. So it also learns which socket is of which queue.
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

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	int fanout;

	if (level == SOL_PACKET && name == PACKET_FANOUT && len == sizeof(fanout)) {
		memcpy(&fanout, value, sizeof(fanout));
		/* Above the group's number are type and flags. */
		fanout &= (int)~((unsigned)PACKET_FANOUT_FLAG_DEFRAG << 16);
		value = &fanout;
		if (joined.n < DPDK_MAX_QUEUES)
			joined.fd[joined.n++] = fd;
	}
	int done = (int)syscall(SYS_setsockopt, fd, level, name, value, len);
	if (done == 0 && level == SOL_PACKET && name == PACKET_TX_RING && len == sizeof(struct tpacket_req))
		dpdk_stale_begin(fd, value);
	return done;
}

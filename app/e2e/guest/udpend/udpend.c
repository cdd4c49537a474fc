/* SPDX-License-Identifier: Apache-2.0 */
/*
 * udpend - a program without RDMA that sends or receives multicast datagrams by a socket.
 *
 *   udpend ADDR GROUP PORT recv COUNT SECONDS         until COUNT datagrams or SECONDS
 *   udpend ADDR GROUP PORT send COUNT SIZE[,SIZE...]  COUNT datagrams, of these sizes by turns, 5 ms apart
 *
 * ADDR is the host's address on the interface to use. IPv4 alone. Datagrams are those of ibside/stamp. Output as
 * udend's, with "from" and "ttl" of received datagrams. Exit: 0 all came and were right; 1 otherwise.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../../../../ibside/stamp/stamp.h"

static uint8_t data[65536];

static void fail(const char *what)
{
	printf("{\"event\":\"error\",\"what\":\"%s: %s\"}\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void print_received(const struct sockaddr_in *from, ssize_t n, int ttl, int *bad)
{
	struct stamp s;
	char text[INET_ADDRSTRLEN];
	bool intact = stamp_intact(data, (size_t)n, &s);
	*bad += !intact;
	inet_ntop(AF_INET, &from->sin_addr, text, sizeof text);
	printf("{\"event\":\"received\",\"at\":%.6f,\"from\":\"%s:%u\",\"ttl\":%d,\"length\":%zd,\"intact\":%s,\"seq\":"
	       "%u}\n",
	       now(), text, ntohs(from->sin_port), ttl, n, intact ? "true" : "false", (unsigned)s.number);
}

/* Receives one datagram and its TTL. False: none came in time. */
static bool receive_one(int fd, int *bad)
{
	struct sockaddr_in from;
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {data, sizeof data};
	struct msghdr m = {.msg_name = &from,
			   .msg_namelen = sizeof from,
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof control};
	ssize_t n = recvmsg(fd, &m, 0);
	int ttl = 0;
	if (n < 0)
		return false;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL)
			memcpy(&ttl, CMSG_DATA(c), sizeof ttl);
	print_received(&from, n, ttl, bad);
	return true;
}

static int receive(int fd, int count, double seconds)
{
	struct timeval patience = {.tv_usec = 200000};
	double end = now() + seconds;
	int came = 0, bad = 0;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience))
		fail("SO_RCVTIMEO");
	printf("{\"event\":\"ready\"}\n");
	while (came < count && now() < end)
		came += receive_one(fd, &bad);
	printf("{\"event\":\"end\",\"received\":%d,\"bad\":%d}\n", came, bad);
	return came == count && bad == 0 ? 0 : 1;
}

static int transmit(int fd, const struct sockaddr_in *to, int count, const char *sizes)
{
	const char *at = sizes;
	printf("{\"event\":\"ready\"}\n");
	for (int i = 0; i < count; i++) {
		char *rest;
		size_t n = strtoul(at, &rest, 10);
		at = *rest == ',' ? rest + 1 : sizes;
		stamp_message(data, n, (uint64_t)i, (uint64_t)(now() * 1e9));
		if (sendto(fd, data, n, 0, (const struct sockaddr *)to, sizeof *to) != (ssize_t)n)
			fail("sendto");
		usleep(5000);
	}
	printf("{\"event\":\"end\",\"sent\":%d}\n", count);
	return 0;
}

int main(int argc, char **argv)
{
	struct ip_mreq group = {0};
	int on = 1, fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0)
		fail("socket");
	if (argc != 7 || inet_pton(AF_INET, argv[1], &group.imr_interface) != 1 ||
	    inet_pton(AF_INET, argv[2], &group.imr_multiaddr) != 1)
		fail("usage: udpend ADDR GROUP PORT recv|send COUNT SECONDS|SIZES");
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[3])), .sin_addr = group.imr_multiaddr};
	if (setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &group.imr_interface, sizeof group.imr_interface))
		fail("IP_MULTICAST_IF");
	if (strcmp(argv[4], "send") == 0)
		return transmit(fd, &to, atoi(argv[5]), argv[6]);
	if (setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &on, sizeof on) || bind(fd, (struct sockaddr *)&to, sizeof to))
		fail("bind");
	if (setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group))
		fail("IP_ADD_MEMBERSHIP");
	return receive(fd, atoi(argv[5]), atof(argv[6]));
}

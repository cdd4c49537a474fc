/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls of libibverbs, libmlx5 and libnl. Defined in the program, they come before libc's. What is not for
 * this device goes to the kernel, and so does all before mlx5mem_begin(). The device's node is /dev/null, whose number
 * the tree in sysfs.c gives, so that what libibverbs compares agrees.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <rdma/rdma_user_ioctl.h>

#include "device.h"

static const char node[] = "/dev/infiniband/uverbs0";

static bool is_node(const char *path)
{
	return mem_began() && strcmp(path, node) == 0;
}

int stat(const char *path, struct stat *to)
{
	return fstatat(AT_FDCWD, is_node(path) ? "/dev/null" : path, to, 0);
}

int open(const char *path, int flags, ...)
{
	bool ours = is_node(path);
	mode_t mode = 0;
	va_list a;

	if (flags & (O_CREAT | O_TMPFILE)) {
		va_start(a, flags);
		mode = va_arg(a, mode_t);
		va_end(a);
	}
	int fd = (int)syscall(SYS_openat, AT_FDCWD, ours ? "/dev/null" : path, flags, mode);
	if (ours && fd >= 0)
		mem_open(fd);
	return fd;
}

int close(int fd)
{
	mem_close(fd);
	mem_netlink_close(fd);
	return (int)syscall(SYS_close, fd);
}

/* A socket of another family of netlink takes the place, so that all that is not sent or received works. */
int socket(int domain, int type, int protocol)
{
	bool ours = mem_began() && domain == AF_NETLINK && protocol == NETLINK_RDMA;
	int fd = (int)syscall(SYS_socket, domain, type, ours ? NETLINK_USERSOCK : protocol);

	if (ours && fd >= 0)
		mem_netlink_open(fd);
	return fd;
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	return mem_netlink_is_ours(fd) ? mem_netlink_send(fd, m) : syscall(SYS_sendmsg, fd, m, flags);
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	return mem_netlink_is_ours(fd) ? mem_netlink_receive(fd, m) : syscall(SYS_recvmsg, fd, m, flags);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list a;

	va_start(a, request);
	void *arg = va_arg(a, void *);
	va_end(a);
	if (!mem_is_ours(fd))
		return (int)syscall(SYS_ioctl, fd, request, arg);
	int err = request == RDMA_VERBS_IOCTL ? mem_control(arg) : ENOTTY;
	errno = err ? err : errno;
	return err ? -1 : 0;
}

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	if (!mem_is_ours(fd))
		return (void *)syscall(SYS_mmap, at, len, prot, flags, fd, offset);
	void *page = mem_map((uint64_t)offset);
	if (!page)
		errno = EINVAL;
	return page ? page : MAP_FAILED;
}

ssize_t write(int fd, const void *from, size_t len)
{
	if (!mem_is_ours(fd))
		return syscall(SYS_write, fd, from, len);
	int err = mem_carry_out(fd, from, len);
	errno = err ? err : errno;
	return err ? -1 : (ssize_t)len;
}

/* Nobody forks here and goes on. DPDK's mlx4 driver calls this without having asked whether it is needed (netlink.c),
 * and from then on libibverbs reads /proc/self/smaps for every queue, which takes tens of milliseconds. */
int ibv_fork_init(void)
{
	int (*real)(void) = mem_began() ? NULL : (int (*)(void))dlsym(RTLD_NEXT, "ibv_fork_init");

	return real ? real() : 0;
}

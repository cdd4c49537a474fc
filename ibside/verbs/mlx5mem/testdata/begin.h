/* SPDX-License-Identifier: Apache-2.0 */
/* The program before mlx5mem_begin(), and what that changes. */
#include <fcntl.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static const char node[] = "/dev/infiniband/uverbs0";

static bool node_is_null(void)
{
	struct stat null, s;

	WANT(stat("/dev/null", &null) == 0);
	return stat(node, &s) == 0 && s.st_rdev == null.st_rdev;
}

static void close_both(int a, int b)
{
	if (a >= 0)
		close(a);
	if (b >= 0)
		close(b);
}

/* Each call has the kernel's own result: a socket of netlink is of the family that was asked for. */
static void passes_through(void)
{
	long kernels = syscall(SYS_openat, AT_FDCWD, node, O_RDWR | O_CLOEXEC);
	int fd = open(node, O_RDWR | O_CLOEXEC), s = socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA), family = -1;
	socklen_t len = sizeof(family);

	WANT((fd < 0) == (kernels < 0) && !getenv("SYSFS_PATH") && !node_is_null());
	WANT(s < 0 || (getsockopt(s, SOL_SOCKET, SO_PROTOCOL, &family, &len) == 0 && family == NETLINK_RDMA));
	close_both((int)kernels, fd);
	close_both(s, -1);
	mlx5mem_set_pkey(3, 0x8003); /* where there is no tree to write it to */
}

static void begins(void)
{
	WANT(mlx5mem_begin());
	const char *tree = getenv("SYSFS_PATH");
	int fd = open(node, O_RDWR | O_CLOEXEC), s = socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA);
	__be16 pkey;

	WANT(tree && node_is_null() && fd >= 0 && s >= 0);
	close_both(fd, s);
	WANT(mlx5mem_begin());
	WANT(getenv("SYSFS_PATH") == tree);
	set_up();
	WANT(ibv_query_pkey(ctx, 1, 3, &pkey) == 0 && ntohs(pkey) == 0x8003);
	take_down();
	mlx5mem_set_pkey(3, 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree in which libibverbs finds the device, instead of /sys: a temporary folder with the process's number in its
 * name, so that the next process can remove what one has left that did not end by exit(3). Go's programs do not.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "device.h"

#define PREFIX "mlx5mem."

static char root[64];
static pid_t maker;

static void put(const char *path, const char *text)
{
	char full[256];

	if (!mem_began())
		return; /* the tree gets all of it */
	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *s = full + strlen(root) + 1; (s = strchr(s, '/')); *s++ = '/') {
		*s = 0;
		mkdir(full, 0755);
	}
	FILE *f = fopen(full, "w");
	if (!f || fputs(text, f) < 0 || fclose(f))
		perror(full);
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *at)
{
	(void)s;
	(void)type;
	(void)at;
	return remove(path);
}

static void remove_tree(const char *path)
{
	enum { FDS = 8 };

	nftw(path, remove_one, FDS, FTW_DEPTH | FTW_PHYS);
}

static void remove_own(void)
{
	if (getpid() == maker)
		remove_tree(root);
}

static void remove_others(void)
{
	DIR *tmp = opendir("/tmp");
	struct dirent *e;
	char path[300];

	while (tmp && (e = readdir(tmp))) {
		int pid = 0;
		if (sscanf(e->d_name, PREFIX "%d.", &pid) != 1 || pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH)
			continue;
		snprintf(path, sizeof(path), "/tmp/%s", e->d_name);
		remove_tree(path);
	}
	if (tmp)
		closedir(tmp);
}

static void put_number(const char *format, unsigned place, const char *text)
{
	char path[64];

	snprintf(path, sizeof(path), format, place);
	put(path, text);
}

static void put_gid(unsigned place)
{
	const uint8_t *gid = mem.gids[place];
	char text[48] = "";
	size_t n = 0;

	for (int i = 0; i < 16; i += 2)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%02x%02x%c", gid[i], gid[i + 1],
				      i < 14 ? ':' : '\n');
	put_number("class/infiniband/mlx5_0/ports/1/gids/%u", place, text);
}

void mlx5mem_set_gid(unsigned place, const uint8_t gid[16])
{
	if (place >= MLX5MEM_GIDS)
		return;
	mem_lock();
	memcpy(mem.gids[place], gid, sizeof(mem.gids[place]));
	put_gid(place);
	mem_unlock();
}

static void put_pkey(unsigned place)
{
	char text[16];

	snprintf(text, sizeof(text), "0x%04x\n", mem.pkeys[place]);
	put_number("class/infiniband/mlx5_0/ports/1/pkeys/%u", place, text);
}

void mlx5mem_set_pkey(unsigned place, uint16_t pkey)
{
	if (place >= MLX5MEM_PKEYS)
		return;
	mem_lock();
	mem.pkeys[place] = pkey;
	put_pkey(place);
	mem_unlock();
}

uint16_t mlx5mem_pkey(unsigned place)
{
	return place < MLX5MEM_PKEYS ? mem.pkeys[place] : 0;
}

static void put_device(void)
{
	char dev[32];
	struct stat s;

	if (stat("/dev/null", &s))
		return;
	snprintf(dev, sizeof(dev), "%u:%u\n", major(s.st_rdev), minor(s.st_rdev));
	put("class/infiniband_verbs/abi_version", "6\n");
	put("class/infiniband_verbs/uverbs0/abi_version", "1\n");
	put("class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
	put("class/infiniband_verbs/uverbs0/dev", dev);
	put("class/infiniband/mlx5_0/node_type", "1: CA\n");
	put("class/infiniband/mlx5_0/node_guid", "0200:0000:0000:0001\n");
	put("class/infiniband/mlx5_0/device/modalias", "pci:v000015B3d0000101Bsv000015B3sd00000000bc02sc07i00\n");
}

static bool make_root(void)
{
	remove_others();
	maker = getpid();
	snprintf(root, sizeof(root), "/tmp/" PREFIX "%d.XXXXXX", (int)maker);
	if (mkdtemp(root))
		return true;
	perror(root);
	return false;
}

bool mlx5mem_begin(void)
{
	mem_lock();
	if (!mem_began() && make_root()) {
		__atomic_store_n(&mem.began, true, __ATOMIC_RELEASE);
		put_device();
		for (unsigned i = 0; i < MLX5MEM_GIDS; i++)
			put_gid(i);
		for (unsigned i = 0; i < MLX5MEM_PKEYS; i++)
			put_pkey(i);
		setenv("SYSFS_PATH", root, 1);
		atexit(remove_own);
	}
	mem_unlock();
	return mem_began();
}

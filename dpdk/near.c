/* SPDX-License-Identifier: Apache-2.0 */
/* The node of packets, and where memory really lies. The system calls have no wrapper in libc; where a container
 * forbids them, memory stays where the kernel puts it, and nobody knows where. */
#define _GNU_SOURCE
#include "near.h"

#include <linux/mempolicy.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_memory.h>
#include <rte_thread.h>

#include "dpdk.h"

static int packets = SOCKET_ID_ANY;

void dpdk_set_node(int node)
{
	packets = node;
}

int dpdk_node(void)
{
	return packets;
}

static int bind_list(const struct rte_memseg_list *list, void *arg)
{
	unsigned long nodes = 1ul << packets;

	(void)arg;
	if (!list->external)
		syscall(SYS_mbind, list->base_va, list->len, MPOL_PREFERRED, &nodes, 8 * sizeof(nodes), 0);
	return 0;
}

void dpdk_bind_ordinary(void)
{
	if (packets >= 0 && packets < 64)
		rte_memseg_list_walk(bind_list, NULL);
}

int dpdk_node_of(const void *at)
{
	int node;

	return syscall(SYS_get_mempolicy, &node, NULL, 0, at, MPOL_F_NODE | MPOL_F_ADDR) == 0 ? node : -1;
}

int dpdk_lcore_node(unsigned lcore)
{
	return near_lcore(lcore);
}

struct pages {
	struct dpdk_pages *out;
	unsigned n, room;
};

static int add_page(const struct rte_memseg_list *list, const struct rte_memseg *page, void *arg)
{
	struct pages *all = arg;
	unsigned i = 0;

	if (list->external)
		return 0;
	while (i < all->n && (all->out[i].size != page->hugepage_sz || all->out[i].node != page->socket_id))
		i++;
	if (i == all->room)
		return 0;
	if (i == all->n)
		all->out[all->n++] = (struct dpdk_pages){.size = page->hugepage_sz, .node = page->socket_id};
	all->out[i].n += page->len / page->hugepage_sz;
	return 0;
}

unsigned dpdk_pages(struct dpdk_pages *out, unsigned room)
{
	struct pages all = {.out = out, .room = room};

	rte_memseg_walk(add_page, &all);
	return all.n;
}

unsigned dpdk_short(unsigned node)
{
	return node < RTE_MAX_NUMA_NODES ? __atomic_load_n(&near_short[node], __ATOMIC_RELAXED) : 0;
}

int dpdk_thread_register(unsigned *lcore)
{
	if (rte_thread_register() < 0)
		return -rte_errno;
	*lcore = rte_lcore_id();
	return 0;
}

void dpdk_thread_unregister(void)
{
	rte_thread_unregister();
}

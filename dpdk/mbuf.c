/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>

#include "dpdk.h"
#include "near.h"

/* An lcore's cache, in mbufs: the largest that rte_mempool_create() takes, but never so much of a small pool that
 * the lcores' caches together keep it from everybody else. */
static unsigned cache_size(unsigned n)
{
	unsigned share = n / 8;
	return share < RTE_MEMPOOL_CACHE_MAX_SIZE ? share : RTE_MEMPOOL_CACHE_MAX_SIZE;
}

/* Threads of Go's have no cache, and any of them may lose its CPU in the middle of taking or giving back: in such a
 * pool (relaxed tail synchronisation, rte_ring.h) an lcore does not wait for it. */
static const char POOL_OPS[] = "ring_mt_rts";

int dpdk_mempool_create(const char *name, unsigned n, uint16_t priv, uint16_t data_room, struct rte_mempool **out)
{
	int node = dpdk_node();

	*out = rte_pktmbuf_pool_create_by_ops(name, n, cache_size(n), priv, data_room, node, POOL_OPS);
	if (*out || node == SOCKET_ID_ANY || rte_errno != ENOMEM)
		return *out ? 0 : -rte_errno;
	*out = rte_pktmbuf_pool_create_by_ops(name, n, cache_size(n), priv, data_room, SOCKET_ID_ANY, POOL_OPS);
	if (!*out)
		return -rte_errno;
	near_note(node);
	return 0;
}

void dpdk_mempool_free(struct rte_mempool *pool)
{
	rte_mempool_free(pool);
}

uint64_t dpdk_mempool_bytes(const struct rte_mempool *pool)
{
	return (uint64_t)pool->size * (pool->header_size + pool->elt_size + pool->trailer_size);
}

int dpdk_mempool_node(const struct rte_mempool *pool)
{
	const struct rte_mempool_memhdr *first = STAILQ_FIRST(&pool->mem_list);

	return first ? dpdk_node_of(first->addr) : -1;
}

unsigned dpdk_mempool_in_use(struct rte_mempool *pool)
{
	return rte_mempool_in_use_count(pool);
}

unsigned dpdk_mempool_data_room(struct rte_mempool *pool)
{
	return rte_pktmbuf_data_room_size(pool);
}

struct rte_mbuf *dpdk_mbuf_alloc(struct rte_mempool *pool, const uint8_t *data, unsigned len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

	if (!m)
		return NULL;
	char *room = len <= UINT16_MAX ? rte_pktmbuf_append(m, (uint16_t)len) : NULL;
	if (!room) {
		rte_pktmbuf_free(m);
		return NULL;
	}
	if (len > 0)
		memcpy(room, data, len);
	return m;
}

unsigned dpdk_mbuf_len(const struct rte_mbuf *m)
{
	return rte_pktmbuf_pkt_len(m);
}

void dpdk_mbuf_copy(const struct rte_mbuf *m, uint8_t *out, unsigned len)
{
	const void *at = rte_pktmbuf_read(m, 0, len, out);

	if (at && at != out)
		memcpy(out, at, len);
}

void dpdk_mbuf_free(struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
}

int dpdk_ring_create(const char *name, unsigned size, bool multi_producer, struct rte_ring **out)
{
	unsigned flags = RING_F_EXACT_SZ | RING_F_SC_DEQ | (multi_producer ? 0 : RING_F_SP_ENQ);

	*out = near_ring(name, size, dpdk_node(), flags);
	return *out ? 0 : -rte_errno;
}

void dpdk_ring_free(struct rte_ring *ring)
{
	rte_ring_free(ring);
}

unsigned dpdk_ring_enqueue(struct rte_ring *ring, struct rte_mbuf **mbufs, unsigned n)
{
	return rte_ring_enqueue_burst(ring, (void *const *)mbufs, n, NULL);
}

unsigned dpdk_ring_dequeue(struct rte_ring *ring, struct rte_mbuf **mbufs, unsigned n)
{
	return rte_ring_dequeue_burst(ring, (void **)mbufs, n, NULL);
}

unsigned dpdk_ring_count(struct rte_ring *ring)
{
	return rte_ring_count(ring);
}

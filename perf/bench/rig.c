/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <errno.h>
#include <rte_debug.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_ring.h>
#include <string.h>

int bench_port(const char *name, struct rte_ring *rx, struct rte_ring *tx, struct rte_mempool *pool)
{
	struct rte_eth_conf conf = {0};
	int id = rte_eth_from_rings(name, &rx, 1, &tx, 1, 0);
	if (id < 0)
		return -rte_errno;
	uint16_t port = (uint16_t)id;
	int rc = rte_eth_dev_configure(port, 1, 1, &conf);
	if (rc == 0)
		rc = rte_eth_rx_queue_setup(port, 0, 1024, 0, NULL, pool);
	if (rc == 0)
		rc = rte_eth_tx_queue_setup(port, 0, 1024, 0, NULL);
	if (rc == 0)
		rc = rte_eth_dev_start(port);
	return rc ? rc : id;
}

void bench_port_close(uint16_t port)
{
	char name[RTE_ETH_NAME_MAX_LEN];
	rte_eth_dev_stop(port);
	if (rte_eth_dev_get_name_by_port(port, name) == 0)
		rte_eal_hotplug_remove("vdev", name);
}

struct rte_ring *bench_ring(const char *name, unsigned size)
{
	return rte_ring_create(name, size, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
}

void bench_ring_empty(struct rte_ring *ring)
{
	struct rte_mbuf *m;
	while (rte_ring_dequeue(ring, (void **)&m) == 0)
		rte_pktmbuf_free(m);
}

void bench_ring_free(struct rte_ring *ring)
{
	bench_ring_empty(ring);
	rte_ring_free(ring);
}

unsigned bench_ring_move(struct rte_ring *from, struct rte_ring *to)
{
	struct rte_mbuf *m;
	unsigned n = 0;
	for (; rte_ring_dequeue(from, (void **)&m) == 0; n++)
		if (rte_ring_enqueue(to, m) != 0)
			rte_panic("no room in a ring of the benchmark's\n");
	return n;
}

unsigned bench_ring_count(const struct rte_ring *ring)
{
	return rte_ring_count(ring);
}

uint32_t bench_ring_produced(const struct rte_ring *ring)
{
	return __atomic_load_n(&ring->prod.tail, __ATOMIC_RELAXED);
}

int bench_put(struct rte_mempool *pool, struct rte_ring *ring, const void *data, uint32_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	void *p = m ? rte_pktmbuf_append(m, (uint16_t)len) : NULL;
	if (!p) {
		rte_pktmbuf_free(m);
		return -ENOMEM;
	}
	memcpy(p, data, len);
	memset(rte_mbuf_to_priv(m), 0, m->priv_size);
	if (rte_ring_enqueue(ring, m) == 0)
		return 0;
	rte_pktmbuf_free(m);
	return -ENOBUFS;
}

int bench_look(struct rte_ring *ring, void *data, uint32_t size)
{
	struct rte_mbuf *m;
	if (rte_ring_dequeue(ring, (void **)&m) != 0)
		return -ENOENT;
	memcpy(data, rte_pktmbuf_mtod(m, void *), m->data_len < size ? m->data_len : size);
	rte_ring_enqueue(ring, m);
	return m->data_len;
}

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

int ring_port(const char *name, struct rte_ring *rx, struct rte_ring *tx, struct rte_mempool *pool)
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

void ring_port_close(uint16_t port)
{
	char name[RTE_ETH_NAME_MAX_LEN];
	rte_eth_dev_stop(port);
	if (rte_eth_dev_get_name_by_port(port, name) == 0)
		rte_eal_hotplug_remove("vdev", name);
}

unsigned ring_move(struct rte_ring *from, struct rte_ring *to)
{
	struct rte_mbuf *m;
	unsigned n = 0;
	for (; rte_ring_dequeue(from, (void **)&m) == 0; n++)
		if (!to)
			rte_pktmbuf_free(m);
		else if (rte_ring_enqueue(to, m) != 0)
			rte_panic("a ring of the benchmark is full\n");
	return n;
}

uint32_t ring_produced(const struct rte_ring *ring)
{
	return __atomic_load_n(&ring->prod.tail, __ATOMIC_RELAXED);
}

int ring_put(struct rte_mempool *pool, struct rte_ring *ring, const void *data, uint32_t len)
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "loops.h"

#include <errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_ring.h>
#include <stdlib.h>
#include <string.h>

enum { BURST = 64 };

static unsigned null_post(void *self, const struct ib_send *sends, unsigned n)
{
	struct null_door *d = self;
	struct rte_mbuf *m[BURST];
	for (unsigned i = 0; i < n; i++) {
		m[i] = sends[i].mbuf;
		m[i]->data_off = (uint16_t)d->frame_off;
		m[i]->data_len = (uint16_t)d->frame_len;
		m[i]->pkt_len = d->frame_len;
	}
	return rte_ring_sp_enqueue_bulk(d->frames, (void **)m, n, NULL);
}

static unsigned null_poll(void *self, struct ib_recv *recvs, unsigned n)
{
	struct null_door *d = self;
	struct rte_mbuf *m[BURST];
	if (!d->messages)
		return 0;
	n = rte_ring_sc_dequeue_burst(d->messages, (void **)m, n < BURST ? n : BURST, NULL);
	for (unsigned i = 0; i < n; i++) {
		const struct null_message *p = rte_mbuf_to_priv(m[i]);
		m[i]->data_off = RTE_PKTMBUF_HEADROOM;
		m[i]->data_len = (uint16_t)d->message_len;
		m[i]->pkt_len = d->message_len;
		recvs[i] = (struct ib_recv){.mbuf = m[i], .qpn = p->qpn, .src_qpn = p->src_qpn, .slid = p->slid};
	}
	return n;
}

static void null_free(void *self)
{
	(void)self;
}

struct null_door *null_door_new(void)
{
	struct null_door *d = calloc(1, sizeof *d);
	if (d)
		d->door = (struct ib_door){d, null_post, null_poll, null_free};
	return d;
}

void null_door_free(struct null_door *d)
{
	free(d);
}

struct floor *floor_new(uint16_t port)
{
	struct floor *f = calloc(1, sizeof *f);
	if (f)
		f->port = port;
	return f;
}

/* Whole words; every size measured is a multiple of 8, headers included or not. */
static uint64_t read_all(const struct rte_mbuf *m)
{
	const uint8_t *p = rte_pktmbuf_mtod(m, const uint8_t *);
	uint64_t sum = 0, word;
	for (uint32_t i = 0; i + sizeof word <= m->data_len; i += sizeof word) {
		memcpy(&word, p + i, sizeof word);
		sum += word;
	}
	return sum;
}

/* Ring ports pass pointers only; a driver writes where the frame lies in its mbuf, so the floor does too. */
static void as_received(struct rte_mbuf *m)
{
	uint16_t len = m->data_len;
	m->data_off = RTE_PKTMBUF_HEADROOM;
	m->data_len = len;
	m->pkt_len = len;
}

static int floor_run(void *arg)
{
	struct floor *f = arg;
	struct rte_mbuf *m[BURST];
	while (!f->stop) {
		unsigned n = rte_eth_rx_burst(f->port, 0, m, BURST);
		for (unsigned i = 0; i < n; i++)
			as_received(m[i]);
		for (unsigned i = 0; f->touch && i < n; i++)
			f->sum += read_all(m[i]);
		f->packets += rte_eth_tx_burst(f->port, 0, m, (uint16_t)n);
	}
	return 0;
}

int floor_start(struct floor *f, bool touch, unsigned lcore)
{
	f->touch = touch;
	f->stop = false;
	return rte_eal_remote_launch(floor_run, f, lcore);
}

void floor_stop(struct floor *f, unsigned lcore)
{
	f->stop = true;
	rte_eal_wait_lcore(lcore);
}

struct rte_ring *bench_ring(const char *name, unsigned size)
{
	return rte_ring_create(name, size, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
}

void bench_ring_free(struct rte_ring *ring)
{
	bench_empty(ring);
	rte_ring_free(ring);
}

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

int bench_put(struct rte_mempool *pool, struct rte_ring *ring, const void *data, uint32_t len,
	      const struct null_message *private)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	void *p = m ? rte_pktmbuf_append(m, (uint16_t)len) : NULL;
	if (!p) {
		rte_pktmbuf_free(m);
		return -ENOMEM;
	}
	memcpy(p, data, len);
	*(struct null_message *)rte_mbuf_to_priv(m) = *private;
	if (rte_ring_enqueue(ring, m) == 0)
		return 0;
	rte_pktmbuf_free(m);
	return -ENOBUFS;
}

void bench_empty(struct rte_ring *ring)
{
	struct rte_mbuf *m;
	while (rte_ring_dequeue(ring, (void **)&m) == 0)
		rte_pktmbuf_free(m);
}

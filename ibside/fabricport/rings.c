/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include <rte_errno.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include "../../dpdk/near.h"
#include "rings.h"

enum { PORT_BURST = 64 };

_Static_assert(sizeof(struct ib_send) <= PORT_PRIV_SIZE, "a send's descriptor fits the private area");
_Static_assert(sizeof(struct ib_recv) <= PORT_PRIV_SIZE, "a receive's descriptor fits the private area");
_Static_assert(RTE_PKTMBUF_HEADROOM >= PORT_HEADROOM, "a fresh mbuf has room for the RoCE headers");

/* An mbuf of a foreign pool may have no private area to write to: it, and all after it, stay the worker's. */
static unsigned describe(const struct ib_send *sends, struct rte_mbuf **mbufs, unsigned n)
{
	unsigned i;

	for (i = 0; i < n && sends[i].mbuf->priv_size >= sizeof(struct ib_send); i++) {
		mbufs[i] = sends[i].mbuf;
		memcpy(rte_mbuf_to_priv(mbufs[i]), &sends[i], sizeof(sends[i]));
	}
	return i;
}

static unsigned post(void *self, const struct ib_send *sends, unsigned n)
{
	struct port_end *e = self;
	struct rte_mbuf *mbufs[PORT_BURST];
	unsigned done = 0;

	while (done < n) {
		unsigned want = RTE_MIN(n - done, (unsigned)PORT_BURST);
		unsigned fit = describe(sends + done, mbufs, want);
		unsigned took = rte_ring_sp_enqueue_burst(e->sends, (void **)mbufs, fit, NULL);

		done += took;
		if (took < want)
			break;
	}
	wake_up(&e->sent);
	return done;
}

static unsigned poll(void *self, struct ib_recv *recvs, unsigned n)
{
	struct port_end *e = self;
	struct rte_mbuf *mbufs[PORT_BURST];
	unsigned got = rte_ring_sc_dequeue_burst(e->recvs, (void **)mbufs, RTE_MIN(n, (unsigned)PORT_BURST), NULL);

	for (unsigned i = 0; i < got; i++)
		memcpy(&recvs[i], rte_mbuf_to_priv(mbufs[i]), sizeof(recvs[i]));
	return got;
}

/* A send's mbuf is freed by port_take(), and receives need no buffer before they come. */
static void nothing_to_free(void *self)
{
	(void)self;
}

static void arm(void *self)
{
	wake_arm(&((struct port_end *)self)->received);
}

static void disarm(void *self)
{
	wake_disarm(&((struct port_end *)self)->received);
}

static struct rte_ring *ring_new(const char *what, unsigned worker, unsigned depth, int node)
{
	static unsigned serial;
	char name[RTE_RING_NAMESIZE];

	snprintf(name, sizeof(name), "ib_%s_%u_%u", what, worker, __atomic_fetch_add(&serial, 1, __ATOMIC_SEQ_CST));
	return near_ring(name, depth, node, RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
}

struct port_end *port_new(struct rte_mempool *pool, unsigned worker, unsigned depth, unsigned lcore)
{
	int node = near_lcore(lcore);
	struct port_end *e = near_zmalloc("ib_port", sizeof(*e), node);

	if (!e) {
		rte_errno = ENOMEM;
		return NULL;
	}
	e->pool = pool;
	e->received.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	e->sent.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rte_errno = errno;
	if (e->received.fd >= 0 && e->sent.fd >= 0)
		e->sends = ring_new("sends", worker, depth, node);
	e->recvs = e->sends ? ring_new("recvs", worker, depth, node) : NULL;
	if (!e->recvs) {
		int err = rte_errno;

		port_free(e);
		rte_errno = err;
		return NULL;
	}
	e->ib_port = (struct ib_port){
		.self = e,
		.post = post,
		.poll = poll,
		.free = nothing_to_free,
		.arm = arm,
		.disarm = disarm,
		.wake = {e->received.fd, -1},
	};
	return e;
}

static void ring_free(struct rte_ring *r)
{
	void *m;

	if (!r)
		return;
	while (rte_ring_sc_dequeue(r, &m) == 0)
		rte_pktmbuf_free(m);
	rte_ring_free(r);
}

void port_free(struct port_end *e)
{
	ring_free(e->sends);
	ring_free(e->recvs);
	close(e->sent.fd);
	close(e->received.fd);
	rte_free(e);
}

void port_arm_sends(struct port_end *e)
{
	wake_arm(&e->sent);
}

void port_disarm_sends(struct port_end *e)
{
	wake_disarm(&e->sent);
}

/* Copies the first slot bytes of m, which may have several segments. */
static void copy_out(const struct rte_mbuf *m, uint8_t *to, uint32_t slot)
{
	uint32_t n = RTE_MIN(rte_pktmbuf_pkt_len(m), slot);
	const void *data = rte_pktmbuf_read(m, 0, n, to);

	if (data && data != to)
		memcpy(to, data, n);
}

unsigned port_take(struct port_end *e, struct port_sent *sent, unsigned n, uint8_t *bytes, uint32_t slot)
{
	struct rte_mbuf *mbufs[PORT_BURST];
	unsigned got = rte_ring_sc_dequeue_burst(e->sends, (void **)mbufs, RTE_MIN(n, (unsigned)PORT_BURST), NULL);

	for (unsigned i = 0; i < got; i++) {
		const struct ib_send *s = rte_mbuf_to_priv(mbufs[i]);

		sent[i] = (struct port_sent){
			.ah = s->ah,
			.qp = s->qp,
			.dest_qpn = s->dest_qpn,
			.dest_qkey = s->dest_qkey,
			.imm = s->imm,
			.flags = s->flags,
			.len = rte_pktmbuf_pkt_len(mbufs[i]),
		};
		copy_out(mbufs[i], bytes + (size_t)i * slot, slot);
	}
	rte_pktmbuf_free_bulk(mbufs, got);
	return got;
}

/* Returns how many mbufs it got: all, or one by one what there is. */
static unsigned alloc(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned n)
{
	unsigned i;

	if (rte_pktmbuf_alloc_bulk(pool, mbufs, n) == 0)
		return n;
	for (i = 0; i < n; i++) {
		mbufs[i] = rte_pktmbuf_alloc(pool);
		if (!mbufs[i])
			break;
	}
	return i;
}

static void copy_in(struct rte_mbuf *m, const struct port_received *r, const uint8_t *bytes)
{
	struct ib_recv *d = rte_mbuf_to_priv(m);

	memcpy(rte_pktmbuf_append(m, r->len), bytes + r->offset, r->len);
	*d = (struct ib_recv){
		.mbuf = m,
		.qpn = r->qpn,
		.src_qpn = r->src_qpn,
		.imm = r->imm,
		.slid = r->slid,
		.sl = r->sl,
		.flags = r->flags,
	};
}

/* Of one burst. The room in the ring can only grow under our hands: we are its one producer. */
static unsigned deliver(struct port_end *e, const struct port_received *msgs, unsigned n, const uint8_t *bytes,
			unsigned *why)
{
	struct rte_mbuf *mbufs[PORT_BURST];
	unsigned room = RTE_MIN(n, rte_ring_free_count(e->recvs));
	unsigned got = room ? alloc(e->pool, mbufs, room) : 0;

	if (got < n)
		*why = got < room ? PORT_NO_MBUF : PORT_RING_FULL;
	for (unsigned i = 0; i < got; i++)
		copy_in(mbufs[i], &msgs[i], bytes);
	return rte_ring_sp_enqueue_burst(e->recvs, (void **)mbufs, got, NULL);
}

unsigned port_deliver(struct port_end *e, const struct port_received *msgs, unsigned n, const uint8_t *bytes,
		      unsigned *why)
{
	unsigned done = 0;

	*why = PORT_TAKEN_ALL;
	while (done < n && *why == PORT_TAKEN_ALL)
		done += deliver(e, msgs + done, RTE_MIN(n - done, (unsigned)PORT_BURST), bytes, why);
	wake_up(&e->received);
	return done;
}

unsigned port_pending_sends(const struct port_end *e)
{
	return rte_ring_count(e->sends);
}

unsigned port_pending_recvs(const struct port_end *e)
{
	return rte_ring_count(e->recvs);
}

unsigned port_pool_priv(struct rte_mempool *pool)
{
	return rte_pktmbuf_priv_size(pool);
}

unsigned port_pool_room(struct rte_mempool *pool)
{
	unsigned room = rte_pktmbuf_data_room_size(pool);

	return room > RTE_PKTMBUF_HEADROOM ? room - RTE_PKTMBUF_HEADROOM : 0;
}

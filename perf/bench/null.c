/* SPDX-License-Identifier: Apache-2.0 */
#include "null.h"

#include <rte_mbuf.h>
#include <rte_ring.h>
#include <stdlib.h>
#include <string.h>

enum { BURST = 64 };

static inline uint32_t load32(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

static inline void store32(uint8_t *p, uint32_t v)
{
	memcpy(p, &v, sizeof v);
}

static inline void xor32(uint8_t *p, uint32_t v)
{
	store32(p, load32(p) ^ v);
}

/* Updates the IPv4 checksum for new addresses (RFC 1624 §3, equation 3). A one's complement sum may be taken in
 * either byte order, and in words of 32 bits. */
static inline void update_sum(uint8_t *sum, uint32_t old, uint32_t new, uint32_t old2, uint32_t new2)
{
	uint16_t was;
	memcpy(&was, sum, sizeof was);
	uint64_t s = (uint64_t)(uint16_t)~was + (uint32_t)~old + new + (uint32_t)~old2 + new2;
	s = (s & 0xffffffff) + (s >> 32);
	s = (s & 0xffff) + (s >> 16 & 0xffff) + (s >> 32);
	s = (s & 0xffff) + (s >> 16);
	s = (s & 0xffff) + (s >> 16);
	uint16_t is = (uint16_t)~s;
	memcpy(sum, &is, sizeof is);
}

static inline void set_data(struct rte_mbuf *m, uint32_t len)
{
	m->data_off = RTE_PKTMBUF_HEADROOM;
	m->data_len = (uint16_t)len;
	m->pkt_len = len;
}

static inline void readdress_frame(const struct frame_layout *l, struct rte_mbuf *m, const struct step *s)
{
	set_data(m, l->len);
	uint8_t *f = rte_pktmbuf_mtod(m, uint8_t *);
	uint32_t from = load32(f + l->from_at), to = load32(f + l->to_at);
	if (l->sum_at)
		update_sum(f + l->sum_at, from & l->from_summed, (from ^ s->from) & l->from_summed, to, to ^ s->to);
	store32(f + l->from_at, from ^ s->from);
	store32(f + l->to_at, to ^ s->to);
	xor32(f + l->icrc_at, s->icrc);
}

void null_frames(struct null_port *d, struct rte_mbuf **m, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		readdress_frame(&d->frame, m[i], next_step(&d->stream));
}

static inline void readdress_message(const struct message_layout *l, struct rte_mbuf *m, const struct step *s,
				     struct ib_recv *r)
{
	typedef uint64_t gid __attribute__((vector_size(16)));
	struct changed *at = rte_mbuf_to_priv(m);
	at->from ^= s->from;
	at->to ^= s->to;
	uint32_t mgid = l->to_group ? at->to : 0;
	uint32_t qpn = l->to_group ? 0 : __builtin_bswap32(at->to);
	gid source = {l->grh[1], l->grh[2] ^ (uint64_t)at->from << 32};
	gid destination = {l->grh[3], l->grh[4] ^ (uint64_t)mgid << 32};
	set_data(m, l->len);
	uint8_t *area = rte_pktmbuf_mtod(m, uint8_t *);
	memcpy(area, &l->grh[0], 8);
	memcpy(area + 8, &source, 16); /* in one store: the reader's wide loads are forwarded */
	memcpy(area + 24, &destination, 16);
	*r = (struct ib_recv){.mbuf = m,
			      .qpn = l->qpn ^ qpn,
			      .src_qpn = l->src_qpn,
			      .slid = 1 + (__builtin_bswap32(at->from) & 0x7fff),
			      .flags = IB_RECV_GRH};
}

void null_messages(struct null_port *d, struct rte_mbuf **m, unsigned n, struct ib_recv *recvs)
{
	for (unsigned i = 0; i < n; i++)
		readdress_message(&d->message, m[i], next_step(&d->stream), &recvs[i]);
}

static void keep(struct null_port *d, const struct ib_send *sends, unsigned n)
{
	for (unsigned i = 0; i < n && d->record_n < d->record_max; i++)
		d->record[d->record_n++] = sends[i];
}

static unsigned null_post(void *self, const struct ib_send *sends, unsigned n)
{
	struct null_port *d = self;
	struct rte_mbuf *m[BURST];
	for (unsigned i = 0; i < n; i++)
		m[i] = sends[i].mbuf;
	if (unlikely(d->record))
		keep(d, sends, n);
	null_frames(d, m, n);
	return rte_ring_sp_enqueue_bulk(d->frames, (void **)m, n, NULL);
}

static unsigned null_poll(void *self, struct ib_recv *recvs, unsigned n)
{
	struct null_port *d = self;
	struct rte_mbuf *m[BURST];
	if (!d->messages || __atomic_load_n(&d->paused, __ATOMIC_RELAXED))
		return 0;
	n = rte_ring_sc_dequeue_burst(d->messages, (void **)m, n < BURST ? n : BURST, NULL);
	null_messages(d, m, n, recvs);
	return n;
}

static void null_free(void *self)
{
	(void)self;
}

struct null_port *null_port_new(void)
{
	struct null_port *d = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(sizeof *d, RTE_CACHE_LINE_SIZE));
	if (!d)
		return NULL;
	memset(d, 0, sizeof *d);
	d->ib_port = (struct ib_port){.self = d, .post = null_post, .poll = null_poll, .free = null_free};
	return d;
}

void null_port_pause(struct null_port *d, bool on)
{
	__atomic_store_n(&d->paused, on, __ATOMIC_RELAXED);
}

void null_port_free(struct null_port *d)
{
	free(d);
}

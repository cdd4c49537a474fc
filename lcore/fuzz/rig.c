/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <rte_ethdev.h>
#include <rte_ring.h>
#include <stdio.h>
#include <stdlib.h>

#include "entries.h"
#include "../mirror/endpoints.h"
#include "../segment.h"
#include "../mirror/number.h"
#include "../mirror/ring.h"
#include "../pending.h"
#include "../lease.h"

enum { RING = 16 };

static struct rte_ring *make_ring(const char *name, unsigned flags)
{
	struct rte_ring *r = aligned_alloc(RTE_CACHE_LINE_SIZE, (size_t)rte_ring_get_memsize(RING));
	CHECK(r && rte_ring_init(r, name, RING, flags) == 0);
	return r;
}

static struct rig rigs[2], *current;

/* The ports' queues are their indexes. */
static uint16_t receive(void *queue, struct rte_mbuf **m, uint16_t n)
{
	struct rig *r = current;
	if (n == 0 || !r->frame || *(const unsigned *)queue != r->in)
		return 0;
	m[0] = r->frame;
	r->frame = NULL;
	return 1;
}

static uint16_t transmit(void *queue, struct rte_mbuf **m, uint16_t n)
{
	struct rig *r = current;
	r->transmitted += n;
	r->last = n ? m[n - 1] : NULL;
	r->out = *(const unsigned *)queue;
	return n;
}

/* What came by a port is sent by a queue pair of its segment, in its partition, to what is in that. */
static void check_partition(const struct rig *r, const struct ib_send *s)
{
	unsigned first = s->ah.dlid >= MLID ? MLID : LID;
	CHECK((s->qp - QP) / OF_NEXT == r->in);
	CHECK(s->partition == r->in);
	CHECK(s->ah.dlid - first == r->in);
}

static unsigned post(void *self, const struct ib_send *sends, unsigned n)
{
	struct rig *r = self;
	for (unsigned i = 0; i < n; i++) {
		const struct rte_mbuf *m = sends[i].mbuf;
		volatile uint8_t sink = 0;
		check_partition(r, &sends[i]);
		for (unsigned k = 0; k < m->data_len; k++)
			sink ^= rte_pktmbuf_mtod(m, const uint8_t *)[k];
		(void)sink;
	}
	r->posted += n;
	return n;
}

static unsigned poll(void *self, struct ib_recv *recvs, unsigned n)
{
	struct rig *r = self;
	if (n == 0 || !r->message)
		return 0;
	recvs[0] = *r->message;
	r->message = NULL;
	return 1;
}

static enum ib_arrival arrived(void *self, const struct ib_recv *r)
{
	(void)self;
	CHECK(r->flags & IB_RECV_ASK);
	return r->src_qpn % 3;
}

static void complete(void *self)
{
	(void)self;
}

static void set_segment(struct datapath *dp, unsigned i, unsigned segments)
{
	struct segment *s = &dp->segment[i];
	dp->mac[i] = 0x020000000002 + (i << 8);
	s->port = (uint8_t)i;
	s->partition = segments > 1 ? (uint8_t)i : (uint8_t)PARTITION_ANY;
	s->roce_mtu = 4096;
	s->versions = ROCE_V1 | ROCE_V2;
	s->ttl = 64;
	s->addresses = 1;
	memcpy(s->address[0], rig_host, 16);
	s->address[0][15] = 254;
	memcpy(&s->own4[0].address, s->address[0] + 12, 4);
	memcpy(&s->own4[0].broadcast, (uint8_t[]){10, 10, 0, 255}, 4);
}

static void set_datapath(struct datapath *dp, unsigned ports)
{
	static struct admission all = {.n = 1, .prefix[0].segments = 0xff};
	static struct wake manager;
	dp->manager = &manager;
	dp->ports = (uint16_t)((1u << ports) - 1);
	dp->roce_pkey = 0xffff;
	dp->segments = (uint8_t)ports;
	dp->rewrite_imm = true;
	dp->admission = &all;
	for (unsigned i = 0; i < ports; i++)
		set_segment(dp, i, ports);
	dp->tables = make_tables(ports);
	datapath_prepare(dp);
}

/* The mirrors: one without a filter, and those with filters that need the packet's endpoints. */
static struct mirrors *make_mirrors(const struct datapath *dp)
{
	struct mirrors *s = calloc(1, sizeof *s);
	const struct mirror_filter all = {.ports = MIRROR_ROCE | MIRROR_IB, .directions = 3, .points = 0xff};
	CHECK(s);
	s->datapath = dp;
	for (s->n = 0; s->n < MAX_MIRRORS; s->n++) {
		struct mirror_filter *f = &s->mirror[s->n].filter;
		*f = all;
		f->by_qpn = s->n == 1;
		f->by_host = s->n >= 2;
		f->by_group = s->n == 2;
		f->qpn = HOST_QPN;
		memcpy(f->host, rig_host, 16);
		memcpy(f->group, rig_group, 16);
		s->mirror[s->n].ring = mirror_ring_new(64, 9000);
		CHECK(s->mirror[s->n].ring);
	}
	mirror_prepare_at(RTE_ALIGN_CEIL((int)offsetof(struct rte_mbuf, dynfield1), 8));
	return s;
}

/* Whether a filter wants a packet, by all that the copy tells. */
static bool wants(const struct mirror_filter *f, const struct datapath *dp, const struct mirrored_packet *s)
{
	const uint8_t *data = (const uint8_t *)(s + 1);
	const struct rte_mbuf frame = {.port = s->port};
	struct endpoints e = {.tables = dp->tables, .from_key = segment_of_frame(dp, &frame, data, s->kept)->from_key};
	if (s->form == MIRROR_FRAME)
		endpoints_of_frame(&e, data, s->kept);
	else
		endpoints_of_message(&e, &s->ib, s->ib.flags & IB_RECV_GRH && s->kept >= IB_GRH_LEN ? data : NULL);
	return (!f->by_host || endpoints_have(&e, f->host)) && (!f->by_group || endpoints_have(&e, f->group)) &&
	       (!f->by_qpn || endpoints_have_qpn(&e, f->qpn));
}

/* The mirrors with filters have copied those packets of the first that their filters want. What a send was looked up by
 * is not in its copy. */
static void check_mirrors(const struct mirrors *m)
{
	struct mirror_ring *first = m->mirror[0].ring;
	for (const struct mirrored_packet *s; (s = mirror_ring_peek(first)); mirror_ring_pop(first)) {
		CHECK(s->kept == s->len && s->packet != 0);
		for (unsigned i = 1; i < m->n; i++) {
			const struct mirrored_packet *c = mirror_ring_peek(m->mirror[i].ring);
			bool has = c && c->packet == s->packet && c->point == s->point;
			CHECK(s->form == MIRROR_SEND || has == wants(&m->mirror[i].filter, m->datapath, s));
			if (has)
				mirror_ring_pop(m->mirror[i].ring);
		}
	}
	for (unsigned i = 0; i < m->n; i++)
		CHECK(!mirror_ring_peek(m->mirror[i].ring) && mirror_ring_missed(m->mirror[i].ring) == 0);
}

void mirror_by(struct rig *r, uint8_t options)
{
	r->worker->mirrors = options & MIRRORED ? r->mirrors : NULL;
	check_mirrors(r->mirrors);
}

/* Printed for the user: a fuzzer that sends nothing tests little. */
static void report(void)
{
	for (struct rig *r = rigs; r < rigs + 2; r++) {
		const struct direction_counters *c = r->worker->counters.direction;
		fprintf(stderr, "rig of %u: sent %llu to IB, %llu to RoCE, %llu dropped as wrong_partition\n", r->ports,
			(unsigned long long)c[ROCE_TO_IB].sent, (unsigned long long)c[IB_TO_ROCE].sent,
			(unsigned long long)(c[ROCE_TO_IB].drops[DROP_wrong_partition] +
					     c[IB_TO_ROCE].drops[DROP_wrong_partition]));
	}
}

static void make_worker(struct rig *r)
{
	struct ib_port *ib_port = calloc(1, sizeof *ib_port);
	struct worker *w = aligned_alloc(_Alignof(struct worker), sizeof *w);
	CHECK(ib_port && w);
	*ib_port = (struct ib_port){.self = r, .post = post, .poll = poll, .arrived = arrived, .free = complete};
	memset(w, 0, sizeof *w);
	w->datapath = &r->datapath;
	lease_begin_worker(w);
	w->ports = r->datapath.ports;
	w->port[1] = 1;
	w->by_port = calloc(MAX_PORTS, sizeof *w->by_port);
	w->ib_port = ib_port;
	w->punt = make_ring("punt", RING_F_SP_ENQ | RING_F_SC_DEQ);
	w->requeue = make_ring("requeue", RING_F_SC_DEQ);
	w->send = make_ring("send", RING_F_SP_ENQ | RING_F_SC_DEQ);
	w->groups = calloc(16, sizeof *w->groups);
	w->pending = aligned_alloc(_Alignof(struct pending), sizeof *w->pending);
	CHECK(w->by_port && w->groups && w->pending);
	memset(w->pending, 0, sizeof *w->pending);
	r->datapath.requeue[0] = w->requeue;
	r->datapath.bell[0] = &w->bell;
	r->worker = w;
}

static void make_rigs(void)
{
	static unsigned index[2] = {0, 1};
	static void *queues[2] = {&index[0], &index[1]}, *callbacks[2];
	icrc_init();
	for (unsigned i = 0; i < 2; i++) {
		struct rig *r = &rigs[i];
		r->ports = i + 1;
		set_datapath(&r->datapath, r->ports);
		make_worker(r);
		r->mirrors = make_mirrors(&r->datapath);
		rte_eth_fp_ops[i] = (struct rte_eth_fp_ops){
			.rx_pkt_burst = receive,
			.tx_pkt_burst = transmit,
			.rxq = {.data = &queues[i], .clbk = &callbacks[i]},
			.txq = {.data = &queues[i], .clbk = &callbacks[i]},
		};
	}
	atexit(report);
}

struct rig *rig(uint8_t options)
{
	if (!rigs[0].worker)
		make_rigs();
	current = &rigs[options & TWO ? 1 : 0];
	current->in = options & TWO && options & SECOND;
	return current;
}

struct rte_mbuf *mbuf_make(const uint8_t *data, size_t n, size_t headroom, size_t tailroom)
{
	struct rte_mbuf *m = aligned_alloc(RTE_CACHE_LINE_SIZE, sizeof *m);
	CHECK(m);
	memset(m, 0, sizeof *m);
	m->buf_addr = malloc(headroom + n + tailroom);
	CHECK(m->buf_addr);
	m->buf_len = (uint16_t)(headroom + n + tailroom);
	m->data_off = (uint16_t)headroom;
	m->data_len = (uint16_t)n;
	m->pkt_len = (uint32_t)n;
	m->nb_segs = 1;
	rte_mbuf_refcnt_set(m, 2);
	memset(m->buf_addr, 0xa5, headroom + n + tailroom);
	if (data && n)
		memcpy((uint8_t *)m->buf_addr + headroom, data, n);
	return m;
}

void mbuf_end(struct rte_mbuf *m)
{
	free(m->buf_addr);
	free(m);
}

/* Towards RoCE a port has counted what it was given. Punted frames, and those of management, are no port's. */
static void check_port(const struct port_counters *p)
{
	for (unsigned d = 0; d < DIRECTIONS; d++) {
		const struct direction_counters *c = &p->direction[d];
		uint64_t dropped = 0;
		for (unsigned i = 0; i < DROP_COUNT; i++)
			dropped += c->drops[i];
		CHECK(c->received == c->sent + dropped);
	}
}

void check_counters(const struct rig *r)
{
	for (unsigned i = 0; i < r->ports && r->ports > 1; i++)
		check_port(&r->worker->by_port[i]);
	for (unsigned d = 0; d < DIRECTIONS; d++) {
		const struct direction_counters *c = &r->worker->counters.direction[d];
		uint64_t dropped = 0;
		for (unsigned i = 0; i < DROP_COUNT; i++)
			dropped += c->drops[i];
		CHECK(c->drops[PASS] == 0);
		CHECK(c->received == c->sent + dropped);
	}
	const struct punt_counters *o = &r->worker->counters.punt;
	CHECK(o->received == o->handed + o->full);
	CHECK(r->worker->counters.direction[ROCE_TO_IB].sent == r->posted);
	CHECK(r->worker->counters.direction[IB_TO_ROCE].sent == r->transmitted);
}

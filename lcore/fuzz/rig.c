/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <rte_ethdev.h>
#include <rte_ring.h>
#include <stdio.h>
#include <stdlib.h>

#include "lcore/mirror/endpoints.h"
#include "lcore/segment.h"
#include "lcore/mirror/number.h"
#include "lcore/mirror/ring.h"
#include "tables/tables_write.h"

enum {
	RING = 16,
	HOST_QPN = 0x456,
	PROXY_QPN = 0x700,
	QKEY = 0x01234567,
	PORT = 4711,
};

/* The addresses of the worked examples. */
static const uint8_t host[3][16] = {
	{[10] = 0xff, 0xff, 10, 10, 0, 1},
	{0x20, 0x01, 0x0d, 0xb8, [15] = 1},
	{0xfe, 0x80, [11] = 0xff, 0xfe, 0, 0, 1},
};
static const uint8_t node[3][16] = {
	{[10] = 0xff, 0xff, 10, 10, 0, 2},
	{0x20, 0x01, 0x0d, 0xb8, [15] = 2},
	{0xfe, 0x80, [11] = 0xff, 0xfe, 0, 0, 2},
};
static const uint8_t group[3][16] = {
	{[10] = 0xff, 0xff, 239, 1, 2, 3},
	{0xff, 0x15, [11] = 1, 0, 2, 0, 3},
	{[10] = 0xff, 0xff, 239, 129, 2, 4},
};
static const uint8_t node_gid[16] = {0xfe, 0x80, [9] = 2, 0xc9, 3, 0, 0, 0, 2};
static const uint8_t bridge_gid[16] = {0xfe, 0x80, [9] = 2, 0xc9, 3, 0, 0, 0, 1};

void check_failed(const char *what, const char *file, int line)
{
	fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
	abort();
}

/* Copies an entry of any kind, all 64 bytes, into a change. */
static void put(struct table *t, const void *entry)
{
	struct table_change c = {.table = t, .what = TABLE_PUT};
	unsigned failed;
	memcpy(c.entry, entry, sizeof c.entry);
	CHECK(table_apply(&c, 1, &failed) == 0);
}

static void put_host(struct tables *t, unsigned i)
{
	struct proxy_qp_entry s = {.key.number = HOST_QPN,
				   .id = i,
				   .qp = 40 + i,
				   .qpn = PROXY_QPN + i,
				   .src = i == 1 ? 0 : 0x010000000002};
	struct proxy_qpn_entry q = {.key.number = PROXY_QPN + i,
				    .peer = {.l2 = 0x010000000002 | (i == 1 ? UINT64_C(100) << L2_MAC_BITS : 0),
					     .qpn = HOST_QPN,
					     .qkey = QKEY},
				    .id = i,
				    .version = i == 2 ? ROCE_V1 : ROCE_V2};
	memcpy(s.key.addr, host[i], 16);
	memcpy(q.peer.ip, host[i], 16);
	put(&t->proxy_qps, &s);
	put(&t->proxy_qpns, &q);
}

static void put_node(struct tables *t, unsigned i)
{
	struct node_entry n = {.id = i, .lid = 7, .mtu = 4096, .sl = 2, .flags = i ? NODE_GRH : 0};
	memcpy(n.key.addr, node[i], 16);
	memcpy(n.gid, node_gid, 16);
	put(&t->nodes, &n);
}

static void put_group(struct tables *t, unsigned i)
{
	struct group_entry g = {.id = i,
				.qkey = QKEY,
				.roce_qkey = QKEY,
				.mlid = 0xc001,
				.mtu = 2048,
				.flags = GROUP_TO_IB | GROUP_TO_ROCE | GROUP_REWRITE_IMM};
	struct mgid_entry m = {
		.id = i,
		.peer = {.l2 = 0x00005e0001 | UINT64_C(100) << L2_MAC_BITS, .qpn = 0xffffff, .qkey = QKEY},
		.mtu = 2048,
		.version = i == 2 ? ROCE_V1 : ROCE_V2,
		.flags = g.flags};
	memcpy(g.key.addr, group[i], 16);
	g.mgid[0] = 0xff;
	g.mgid[1] = 0x12;
	memcpy(g.mgid + 12, group[i] + 12, 4);
	memcpy(m.key.addr, g.mgid, 16);
	memcpy(m.peer.ip, group[i], 16);
	put(&t->groups, &g);
	put(&t->mgids, &m);
}

/* Makes group i one of plain UDP, too, with another MGID, and lets host i send to it. */
static void put_plain(struct tables *t, unsigned i)
{
	struct proxy_qp_entry s = {.key.number = PLAIN_QPN, .id = 4 + i, .qp = 44 + i, .qpn = PROXY_QPN + 4 + i};
	struct group_entry g = {.key.number = PORT,
				.id = 4 + i,
				.qkey = QKEY,
				.mlid = 0xc001,
				.mtu = 2048,
				.mgid = {0xff, 0x13, [15] = (uint8_t)i},
				.flags = GROUP_TO_IB | GROUP_TO_ROCE};
	struct mgid_entry m = {.id = 4 + i,
			       .peer = {.l2 = 0x00005e0001 | UINT64_C(100) << L2_MAC_BITS, .qpn = PORT, .qkey = 64},
			       .mtu = 2048,
			       .version = PLAIN_UDP,
			       .flags = g.flags};
	memcpy(s.key.addr, host[i], 16);
	memcpy(g.key.addr, group[i], 16);
	memcpy(m.key.addr, g.mgid, 16);
	memcpy(m.peer.ip, group[i], 16);
	put(&t->proxy_qps, &s);
	put(&t->groups, &g);
	put(&t->mgids, &m);
}

static struct tables *make_tables(void)
{
	static const uint64_t seeds[TABLES_N * TABLE_SEED] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
	static const struct tables_config config = {16, 16, 16, 16, 1};
	struct source_entry by_gid = {.flags = 0}, by_lid = {.key.number = 7}, own = {.flags = NODE_OWN};
	struct tables *t = tables_new(&config, seeds);
	CHECK(t);
	for (unsigned i = 0; i < 3; i++) {
		put_host(t, i);
		put_node(t, i);
		put_group(t, i);
		if (i < 2)
			put_plain(t, i);
	}
	memcpy(by_gid.key.addr, node_gid, 16);
	for (struct source_entry *s = &by_gid; s; s = s == &by_gid ? &by_lid : NULL) {
		memcpy(s->ip4, node[0], 16);
		memcpy(s->ip6, node[1], 16);
		put(&t->sources, s);
	}
	memcpy(own.key.addr, bridge_gid, 16);
	put(&t->sources, &own);
	return t;
}

static struct rte_ring *make_ring(const char *name, unsigned flags)
{
	struct rte_ring *r = aligned_alloc(RTE_CACHE_LINE_SIZE, (size_t)rte_ring_get_memsize(RING));
	CHECK(r && rte_ring_init(r, name, RING, flags) == 0);
	return r;
}

static uint16_t receive(void *queue, struct rte_mbuf **m, uint16_t n)
{
	struct rig *r = queue;
	if (n == 0 || !r->frame)
		return 0;
	m[0] = r->frame;
	r->frame = NULL;
	return 1;
}

static uint16_t transmit(void *queue, struct rte_mbuf **m, uint16_t n)
{
	struct rig *r = queue;
	r->transmitted += n;
	r->last = n ? m[n - 1] : NULL;
	return n;
}

static unsigned post(void *self, const struct ib_send *sends, unsigned n)
{
	struct rig *r = self;
	for (unsigned i = 0; i < n; i++) {
		const struct rte_mbuf *m = sends[i].mbuf;
		volatile uint8_t sink = 0;
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

static void complete(void *self)
{
	(void)self;
}

static void set_datapath(struct datapath *dp)
{
	static struct allow all = {.n = 1, .prefix[0].segments = 0xff};
	static struct wake manager;
	dp->manager = &manager;
	dp->ports = ONLY_PORT;
	dp->mac[0] = 0x020000000002;
	dp->roce_pkey = 0xffff;
	dp->segments = 1;
	struct segment *s = &dp->segment[0];
	s->partition = PARTITION_ANY;
	s->roce_mtu = 4096;
	s->versions = ROCE_V1 | ROCE_V2;
	s->ttl = 64;
	dp->rewrite_imm = true;
	s->addresses = 1;
	dp->allow = &all;
	memcpy(s->address[0], host[0], 16);
	s->address[0][15] = 254;
	memcpy(&s->own4[0].address, s->address[0] + 12, 4);
	memcpy(&s->own4[0].broadcast, (uint8_t[]){10, 10, 0, 255}, 4);
	dp->tables = make_tables();
	datapath_prepare(dp);
}

/* The mirrors: one without a filter, and those with filters that need the packet's endpoints. */
static struct mirrors *make_mirrors(const struct datapath *dp)
{
	static struct mirrors s;
	const struct mirror_filter all = {.ports = MIRROR_ROCE | MIRROR_IB, .directions = 3, .points = 0xff};
	s.datapath = dp;
	for (s.n = 0; s.n < MAX_MIRRORS; s.n++) {
		struct mirror_filter *f = &s.mirror[s.n].filter;
		*f = all;
		f->by_qpn = s.n == 1;
		f->by_host = s.n >= 2;
		f->by_group = s.n == 2;
		f->qpn = HOST_QPN;
		memcpy(f->host, host[0], 16);
		memcpy(f->group, group[2], 16);
		s.mirror[s.n].ring = mirror_ring_new(64, 9000);
		CHECK(s.mirror[s.n].ring);
	}
	mirror_prepare_at(RTE_ALIGN_CEIL((int)offsetof(struct rte_mbuf, dynfield1), 8));
	return &s;
}

/* Whether a filter wants a packet, by all that the copy tells. */
static bool wants(const struct mirror_filter *f, const struct datapath *dp, const struct mirrored_packet *s)
{
	const uint8_t *data = (const uint8_t *)(s + 1);
	const struct rte_mbuf first = {.port = 0};
	struct endpoints e = {.tables = dp->tables, .from_key = segment_of_frame(dp, &first, data, s->kept)->from_key};
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

static struct rig r;

/* Printed for the user: a fuzzer that sends nothing tests little. */
static void report(void)
{
	const struct direction_counters *c = r.worker->counters.direction;
	fprintf(stderr, "rig: sent %llu to IB, %llu to RoCE\n", (unsigned long long)c[ROCE_TO_IB].sent,
		(unsigned long long)c[IB_TO_ROCE].sent);
}

struct rig *rig(void)
{
	static void *queues[1] = {&r}, *callbacks[1];
	static struct ib_port ib_port = {.self = &r, .post = post, .poll = poll, .free = complete};
	if (r.worker)
		return &r;
	icrc_init();
	set_datapath(&r.datapath);
	struct worker *w = aligned_alloc(_Alignof(struct worker), sizeof *w);
	CHECK(w);
	memset(w, 0, sizeof *w);
	w->datapath = &r.datapath;
	w->ports = r.datapath.ports;
	w->ib_port = &ib_port;
	w->punt = make_ring("punt", RING_F_SP_ENQ | RING_F_SC_DEQ);
	w->requeue = make_ring("requeue", RING_F_SC_DEQ);
	w->send = make_ring("send", RING_F_SP_ENQ | RING_F_SC_DEQ);
	w->groups = calloc(16, sizeof *w->groups);
	r.datapath.requeue[0] = w->requeue;
	r.datapath.bell[0] = &w->bell;
	r.mirrors = make_mirrors(&r.datapath);
	rte_eth_fp_ops[0] = (struct rte_eth_fp_ops){
		.rx_pkt_burst = receive,
		.tx_pkt_burst = transmit,
		.rxq = {.data = queues, .clbk = callbacks},
		.txq = {.data = queues, .clbk = callbacks},
	};
	r.worker = w;
	atexit(report);
	return &r;
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

void check_counters(const struct rig *r)
{
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

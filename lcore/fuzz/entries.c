/* SPDX-License-Identifier: Apache-2.0 */
#include "entries.h"

#include "check.h"
#include "../../tables/tables_write.h"

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

const uint8_t rig_host[16] = {[10] = 0xff, 0xff, 10, 10, 0, 1};
const uint8_t rig_group[16] = {[10] = 0xff, 0xff, 239, 129, 2, 4};

/* Copies an entry of any kind, all 64 bytes, into a change. */
static void put(struct table *t, const void *entry)
{
	struct table_change c = {.table = t, .what = TABLE_PUT};
	unsigned failed;
	memcpy(c.entry, entry, sizeof c.entry);
	CHECK(table_apply(&c, 1, &failed) == 0);
}

/* p is the partition, and the segment. */
static void put_host(struct tables *t, unsigned i, unsigned p)
{
	uint64_t from_key = (uint64_t)p << SEGMENT_SHIFT | (uint64_t)p << PARTITION_SHIFT;
	unsigned at = i + p * OF_NEXT;
	struct proxy_qp_entry s = {.key.number = HOST_QPN | from_key,
				   .id = at,
				   .qp = QP + at,
				   .qpn = PROXY_QPN + at,
				   .partition = (uint8_t)p,
				   .src = i == 1 ? 0 : 0x010000000002};
	struct proxy_qpn_entry q = {.key.number = PROXY_QPN + at,
				    .partition = (uint8_t)p,
				    .segment = (uint8_t)p,
				    .peer = {.l2 = 0x010000000002 | (i == 1 ? UINT64_C(100) << L2_MAC_BITS : 0),
					     .qpn = HOST_QPN,
					     .qkey = QKEY},
				    .version = i == 2 ? ROCE_V1 : ROCE_V2};
	memcpy(s.key.addr, host[i], 16);
	memcpy(q.peer.ip, host[i], 16);
	put(&t->proxy_qps, &s);
	put(&t->proxy_qpns, &q);
}

static void put_node(struct tables *t, unsigned i, unsigned p)
{
	struct node_entry n = {.id = i + p * OF_NEXT,
			       .lid = (uint16_t)(LID + p),
			       .mtu = 4096,
			       .sl = 2,
			       .partition = (uint8_t)p,
			       .flags = i ? NODE_GRH : 0};
	memcpy(n.key.addr, node[i], 16);
	n.key.addr[15] += (uint8_t)(p * OF_NEXT);
	memcpy(n.gid, node_gid, 16);
	n.gid[15] += (uint8_t)p;
	put(&t->nodes, &n);
}

/* Adds both sides of a group, whose MGID g has; port is 0, or that of plain UDP. */
static void put_sides(struct tables *t, unsigned i, unsigned p, struct group_entry *g, struct mgid_entry *m)
{
	unsigned id = i + p * OF_NEXT;
	g->id = id;
	g->key.number |= (uint64_t)p << SEGMENT_SHIFT;
	g->mlid = (uint16_t)(MLID + p);
	g->mtu = m->mtu = 2048;
	g->partition = (uint8_t)p;
	g->mgid[2] = (uint8_t)p;
	m->id = id | p << GROUP_ID_BITS;
	m->flags = (uint8_t)(g->flags | p << GROUP_PARTITION_SHIFT);
	m->peer.l2 = 0x00005e0001 | UINT64_C(100) << L2_MAC_BITS;
	memcpy(m->key.addr, g->mgid, 16);
	put(&t->groups, g);
	put(&t->mgids, m);
}

static void put_group(struct tables *t, unsigned i, unsigned p)
{
	struct group_entry g = {.qkey = QKEY,
				.roce_qkey = QKEY,
				.mgid = {0xff, 0x12},
				.flags = GROUP_TO_IB | GROUP_TO_ROCE | GROUP_REWRITE_IMM};
	struct mgid_entry m = {.peer = {.qkey = QKEY}, .version = i == 2 ? ROCE_V1 : ROCE_V2};
	memcpy(g.key.addr, group[i], 16);
	memcpy(g.mgid + 12, group[i] + 12, 4);
	memcpy(m.peer.ip, group[i], 16);
	put_sides(t, i, p, &g, &m);
}

/* Makes group i one of plain UDP, too, with another MGID, and lets host i send to it. */
static void put_plain(struct tables *t, unsigned i, unsigned p)
{
	uint64_t from_key = (uint64_t)p << SEGMENT_SHIFT | (uint64_t)p << PARTITION_SHIFT;
	unsigned at = 4 + i + p * OF_NEXT;
	struct proxy_qp_entry s = {.key.number = PLAIN_QPN | from_key,
				   .id = at,
				   .qp = QP + at,
				   .partition = (uint8_t)p,
				   .qpn = PROXY_QPN + at};
	struct group_entry g = {.key.number = PORT,
				.qkey = QKEY,
				.mgid = {0xff, 0x13, [15] = (uint8_t)i},
				.flags = GROUP_TO_IB | GROUP_TO_ROCE};
	struct mgid_entry m = {.peer = {.qpn = PORT, .qkey = 64}, .version = PLAIN_UDP};
	memcpy(s.key.addr, host[i], 16);
	memcpy(g.key.addr, group[i], 16);
	memcpy(m.peer.ip, group[i], 16);
	put(&t->proxy_qps, &s);
	put_sides(t, 4 + i, p, &g, &m);
}

static void put_sources(struct tables *t, unsigned p)
{
	struct source_entry by_gid = {.partition = (uint8_t)p},
			    by_lid = {.key.number = LID + p, .partition = (uint8_t)p};
	memcpy(by_gid.key.addr, node_gid, 16);
	by_gid.key.addr[15] += (uint8_t)p;
	for (struct source_entry *s = &by_gid; s; s = s == &by_gid ? &by_lid : NULL) {
		memcpy(s->ip4, node[0], 16);
		memcpy(s->ip6, node[1], 16);
		s->ip4[15] += (uint8_t)(p * OF_NEXT);
		s->ip6[15] += (uint8_t)(p * OF_NEXT);
		put(&t->sources, s);
	}
}

struct tables *make_tables(unsigned partitions)
{
	static const uint64_t seeds[TABLES_N * TABLE_SEED] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
	static const struct tables_config config = {16, 16, 16, 16, 1};
	struct source_entry own = {.flags = NODE_OWN};
	struct tables *t = tables_new(&config, seeds);
	CHECK(t);
	for (unsigned p = 0; p < partitions; p++) {
		for (unsigned i = 0; i < 3; i++) {
			put_host(t, i, p);
			put_node(t, i, p);
			put_group(t, i, p);
			if (i < 2)
				put_plain(t, i, p);
		}
		put_sources(t, p);
	}
	memcpy(own.key.addr, bridge_gid, 16);
	put(&t->sources, &own);
	return t;
}

unsigned source_partition(const struct ib_recv *recv, const uint8_t *area)
{
	unsigned p = recv->flags & IB_RECV_GRH ? area[23] - node_gid[15] : recv->slid - (unsigned)LID;
	CHECK(p < 2);
	return p;
}

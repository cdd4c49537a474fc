/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and frees the set of tables; functions that concern more than one table. */
#include <rte_rcu_qsbr.h>

#include "shards.h"
#include "table_map.h"
#include "tables_write.h"

/* Slots for at most n entries: some more, so that entries that wait for readers do not keep a full table from
 * replacing what is in it. Unused slots cost address space only. */
static uint32_t slots_for(uint64_t n)
{
	uint64_t slots = n + n / 4 + 64;

	return slots > UINT32_MAX ? UINT32_MAX : (uint32_t)slots;
}

static struct rte_rcu_qsbr *rcu_new(uint32_t readers)
{
	size_t len = rte_rcu_qsbr_get_memsize(readers);
	struct rte_rcu_qsbr *rcu = (struct rte_rcu_qsbr *)map_new(len);

	if (rcu && rte_rcu_qsbr_init(rcu, readers) != 0) {
		unmap(rcu, len);
		return NULL;
	}
	return rcu;
}

static void rcu_free(struct rte_rcu_qsbr *rcu, uint32_t readers)
{
	unmap(rcu, rte_rcu_qsbr_get_memsize(readers));
}

/* The GIDs of nodes, of other bridges, and of the bridge's own port, and the LIDs of all these. */
static uint64_t sources_for(uint64_t nodes)
{
	uint64_t lids = (nodes + TABLES_BRIDGES + 1) * TABLES_PORT_LIDS;

	return nodes + TABLES_BRIDGES + TABLES_OWN_GIDS + (lids < TABLES_LIDS ? lids : TABLES_LIDS);
}

struct tables *tables_new(const struct tables_config *c, const uint64_t seeds[TABLES_N * TABLE_SEED])
{
	struct tables *t = (struct tables *)map_new(sizeof(*t));
	int err;

	if (!t)
		return NULL;
	t->max_readers = c->max_readers;
	t->max_hosts = c->max_hosts;
	t->max_proxy_qps = c->max_proxy_qps;
	t->max_nodes = c->max_nodes;
	t->max_groups = c->max_groups;
	t->heard = (uint8_t *)map_new(c->max_nodes);
	t->rcu = rcu_new(c->max_readers);
	err = !t->rcu || !t->heard;
	err = err || table_init(&t->hosts, t->rcu, slots_for(c->max_hosts), &seeds[0]);
	err = err || table_init(&t->proxy_qps, t->rcu, slots_for(c->max_proxy_qps), &seeds[TABLE_SEED]);
	err = err || table_init(&t->nodes, t->rcu, slots_for(2 * (uint64_t)c->max_nodes), &seeds[2 * TABLE_SEED]);
	err = err || table_init(&t->groups, t->rcu, slots_for(c->max_groups), &seeds[3 * TABLE_SEED]);
	err = err || table_init(&t->proxy_qpns, t->rcu, slots_for(c->max_proxy_qps), &seeds[4 * TABLE_SEED]);
	err = err || table_init(&t->sources, t->rcu, slots_for(sources_for(c->max_nodes)), &seeds[5 * TABLE_SEED]);
	err = err || table_init(&t->mgids, t->rcu, slots_for(c->max_groups), &seeds[6 * TABLE_SEED]);
	if (err) {
		tables_free(t);
		return NULL;
	}
	return t;
}

struct tables *tables_view_new(const struct tables *t)
{
	struct tables *v = (struct tables *)map_new(sizeof(*v));

	if (!v)
		return NULL;
	*v = *t;
	v->view = true;
	v->rcu = rcu_new(t->max_readers);
	if (!v->rcu) {
		unmap(v, sizeof(*v));
		return NULL;
	}
	/* Both parts of an array's word at once: the writer may be replacing it. */
	v->hosts.array = table_array(&t->hosts);
	v->proxy_qps.array = table_array(&t->proxy_qps);
	v->nodes.array = table_array(&t->nodes);
	v->groups.array = table_array(&t->groups);
	v->proxy_qpns.array = table_array(&t->proxy_qpns);
	v->sources.array = table_array(&t->sources);
	v->mgids.array = table_array(&t->mgids);
	return v;
}

void tables_view_free(struct tables *v)
{
	rcu_free(v->rcu, v->max_readers);
	unmap(v, sizeof(*v));
}

void tables_near(struct tables *t, int node)
{
	table_near(&t->hosts, node);
	table_near(&t->proxy_qps, node);
	table_near(&t->nodes, node);
	table_near(&t->groups, node);
	table_near(&t->proxy_qpns, node);
	table_near(&t->sources, node);
	table_near(&t->mgids, node);
	map_near(t->heard, t->max_nodes, node, MPOL_MF_MOVE);
	map_near(t->rcu, rte_rcu_qsbr_get_memsize(t->max_readers), node, MPOL_MF_MOVE);
	map_near(t, sizeof(*t), node, MPOL_MF_MOVE);
}

void tables_free(struct tables *t)
{
	table_fini(&t->hosts);
	table_fini(&t->proxy_qps);
	table_fini(&t->nodes);
	table_fini(&t->groups);
	table_fini(&t->proxy_qpns);
	table_fini(&t->sources);
	table_fini(&t->mgids);
	rcu_free(t->rcu, t->max_readers);
	unmap(t->heard, t->max_nodes);
	unmap(t, sizeof(*t));
}

unsigned tables_reclaim(struct tables *t)
{
	return table_reclaim(&t->hosts) + table_reclaim(&t->proxy_qps) + table_reclaim(&t->nodes) +
	       table_reclaim(&t->groups) + table_reclaim(&t->proxy_qpns) + table_reclaim(&t->sources) +
	       table_reclaim(&t->mgids);
}

uint64_t tables_token(struct tables *t)
{
	return rte_rcu_qsbr_start(t->rcu);
}

int tables_passed(struct tables *t, uint64_t token)
{
	return rte_rcu_qsbr_check(t->rcu, token, false);
}

/* The writer's look-up of an entry, to change its atomic fields. */
static void *find_to_change(struct table *t, const struct table_key *key)
{
	return (void *)(uintptr_t)table_find(t, table_hash(t, key), key);
}

int tables_move_host(struct tables *t, const struct table_key *key, uint64_t l2)
{
	struct host_entry *e = (struct host_entry *)find_to_change(&t->hosts, key);

	if (!e)
		return 0;
	__atomic_store_n(&e->l2, l2, __ATOMIC_RELAXED);
	return 1;
}

int tables_move_proxy_qp(struct tables *t, const struct table_key *key, uint64_t src)
{
	struct proxy_qp_entry *e = (struct proxy_qp_entry *)find_to_change(&t->proxy_qps, key);

	if (!e)
		return 0;
	__atomic_store_n(&e->src, src, __ATOMIC_RELAXED);
	return 1;
}

int tables_move_proxy_qpn(struct tables *t, const struct table_key *key, uint64_t l2)
{
	struct proxy_qpn_entry *e = (struct proxy_qpn_entry *)find_to_change(&t->proxy_qpns, key);

	if (!e)
		return 0;
	__atomic_store_n(&e->peer.l2, l2, __ATOMIC_RELAXED);
	__atomic_store_n(&e->shard, (uint8_t)host_shard(l2), __ATOMIC_RELAXED);
	return 1;
}

static int take_used(uint8_t *used)
{
	return __atomic_exchange_n(used, 0, __ATOMIC_RELAXED);
}

void tables_mark_used(const struct tables *t, const struct table_key *proxy_qp, const struct table_key *qp)
{
	const struct proxy_qp_entry *out =
		(const struct proxy_qp_entry *)table_find(&t->proxy_qps, table_hash(&t->proxy_qps, proxy_qp), proxy_qp);
	const struct proxy_qpn_entry *in =
		(const struct proxy_qpn_entry *)table_find(&t->proxy_qpns, table_hash(&t->proxy_qpns, qp), qp);

	if (out)
		table_mark_used(t, &out->used);
	if (in)
		table_mark_used(t, &in->used);
}

int tables_take_used(struct tables *t, const struct table_key *proxy_qp, const struct table_key *qp)
{
	struct proxy_qp_entry *out = (struct proxy_qp_entry *)find_to_change(&t->proxy_qps, proxy_qp);
	struct proxy_qpn_entry *in = (struct proxy_qpn_entry *)find_to_change(&t->proxy_qpns, qp);
	int used = 0;

	if (out && take_used(&out->used))
		used |= USED_TO_IB;
	if (in && take_used(&in->used))
		used |= USED_TO_ROCE;
	return used;
}

int tables_take_node_used(struct tables *t, const struct table_key *ip)
{
	struct node_entry *e = (struct node_entry *)find_to_change(&t->nodes, ip);

	return e && take_used(&e->used);
}

int tables_take_source_used(struct tables *t, const struct table_key *source)
{
	struct source_entry *e = (struct source_entry *)find_to_change(&t->sources, source);

	return e && take_used(&e->used);
}

uint8_t tables_heard_in(const struct tables *t, uint32_t node)
{
	return table_heard_in(t, node);
}

void tables_unhear(struct tables *t, uint32_t node)
{
	table_hear(t, node, 0);
}

int tables_copy(const struct table *t, const struct table_key *key, uint64_t entry[TABLE_ENTRY / 8])
{
	const void *e = table_find(t, table_hash(t, key), key);
	const uint64_t *words = (const uint64_t *)e;

	if (!e)
		return 0;
	for (unsigned i = 0; i < TABLE_ENTRY / 8; i++)
		entry[i] = __atomic_load_n(&words[i], __ATOMIC_RELAXED); /* l2 and src are among them */
	return 1;
}

int tables_reader_open(struct tables *t, unsigned n)
{
	if (n >= t->max_readers || rte_rcu_qsbr_thread_register(t->rcu, n) != 0)
		return 1;
	rte_rcu_qsbr_thread_online(t->rcu, n);
	return 0;
}

void tables_reader_close(struct tables *t, unsigned n)
{
	rte_rcu_qsbr_thread_offline(t->rcu, n);
	rte_rcu_qsbr_thread_unregister(t->rcu, n);
}

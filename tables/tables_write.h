/* SPDX-License-Identifier: Apache-2.0 */
/* The writer's side of the set of tables. */
#ifndef CAUSEWAY_TABLES_WRITE_H
#define CAUSEWAY_TABLES_WRITE_H

#include "table_write.h"
#include "tables.h"

/* The most objects and readers; all above 0. */
struct tables_config {
	uint32_t max_hosts;
	uint32_t max_proxy_qps;
	uint32_t max_nodes;
	uint32_t max_groups;
	uint32_t max_readers;
};

enum {
	TABLES_N = 7,
	TABLES_OWN_GIDS = 256,  /* as many as verbs can name */
	TABLES_BRIDGES = 64,    /* others on the subnet */
	TABLES_PORT_LIDS = 128, /* of one port at most: its LMC is 7 at most */
	TABLES_LIDS = 0xc000,   /* the LIDs of ports */
};

/* Makes empty tables, with seeds for TABLES_N tables. Returns NULL when there is no memory. */
struct tables *tables_new(const struct tables_config *c, const uint64_t seeds[TABLES_N * TABLE_SEED]);

/* Has all that readers read be on a NUMA node, as long as that has memory left. */
void tables_near(struct tables *t, int node);

/* Frees them. No reader may be left. */
void tables_free(struct tables *t);

/* The tables as they are, for a reader that must change nothing: it marks no entry, and its workers are not those that
 * the writer waits for. Whoever uses it is a reader of t as long. Returns NULL when there is no memory. */
struct tables *tables_view_new(const struct tables *t);
void tables_view_free(struct tables *v);

/* Frees retired memory of all tables that no reader can use any more; returns the number of entries. */
unsigned tables_reclaim(struct tables *t);

/* Starts a grace period: tables_passed() of the token is true when every reader has been quiescent since. */
uint64_t tables_token(struct tables *t);
int tables_passed(struct tables *t, uint64_t token);

/* Stores a new l2 word, with the shard that it tells where there is one, or src word in the entry of a key, each
 * atomically under its readers. False when there is none. */
int tables_move_host(struct tables *t, const struct table_key *key, uint64_t l2);
int tables_move_proxy_qp(struct tables *t, const struct table_key *key, uint64_t src);
int tables_move_proxy_qpn(struct tables *t, const struct table_key *key, uint64_t l2);

/* Clears the used marks of a proxy QP's two entries, and returns which were set. */
enum { USED_TO_IB = 1, USED_TO_ROCE = 2 };
int tables_take_used(struct tables *t, const struct table_key *proxy_qp, const struct table_key *qp);

/* The same for an entry of the table nodes, and one of the table sources. */
int tables_take_node_used(struct tables *t, const struct table_key *ip);
int tables_take_source_used(struct tables *t, const struct table_key *source);

/* Marks the entries of these keys as used, if they exist; for readers in Go. */
void tables_mark_used(const struct tables *t, const struct table_key *proxy_qp, const struct table_key *qp);

/* The partition that a node was last heard in, by its id; and 0 again. */
uint8_t tables_heard_in(const struct tables *t, uint32_t node);
void tables_unhear(struct tables *t, uint32_t node);

/* Copies the entry of key as a reader finds it; false when there is none. For the writer's thread or a reader. */
int tables_copy(const struct table *t, const struct table_key *key, uint64_t entry[TABLE_ENTRY / 8]);

/* The calls of rte_rcu_qsbr, for readers in Go. Returns 0, or 1 when n is out of range. */
int tables_reader_open(struct tables *t, unsigned n);
void tables_reader_close(struct tables *t, unsigned n);

#endif

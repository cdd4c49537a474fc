/* SPDX-License-Identifier: Apache-2.0 */
#include "exception.h"

#include "handover.h"
#include "partition.h"
#include "pending.h"
#include "lease.h"
#include "unknown.h"

bool punt_frame(struct worker *w, enum mirror_point p, enum drop reason, struct rte_mbuf *m, uint32_t what,
		struct punter from)
{
	if (mirroring(w))
		mirror_stage(w, p, ROCE_TO_IB, reason, &m, 1);
	bool given = punt(w, m, what, from);
	if (mirroring(w))
		mirror_taken(w, given);
	return given;
}

enum drop precise_drop(const struct datapath *dp, struct burst *b, unsigned i, enum drop reason)
{
	struct packet *p = &b->parsed[i];
	if (b->trim[i].fastpath) {
		struct icrc_job icrc;
		enum drop d = parse(dp, b->send[i].mbuf, p, &icrc);
		if (d == PASS && reason != DROP_icrc)
			d = transport(dp, p);
		if (d != PASS)
			return d;
	}
	return reason == DROP_mc_unknown && p->control_group ? DROP_mc_control : reason;
}

/* IPv4 prefixes are 96 bits or longer here: a shorter one is an IPv6 prefix, which matches no IPv4 address. */
static bool in_prefix(const struct prefix *f, const uint8_t *addr)
{
	unsigned whole = f->len / 8, rest = f->len % 8;
	if (f->len < 96 && is_ipv4(addr))
		return false;
	if (memcmp(f->addr, addr, whole) != 0)
		return false;
	return rest == 0 || ((f->addr[whole] ^ addr[whole]) >> (8 - rest)) == 0;
}

/* Whether an address is that of a node that a segment reaches. */
static bool is_nodes(const struct datapath *dp, const struct segment *s, struct table_key k)
{
	k.number = 0;
	const struct node_entry *n = table_find(&dp->tables->nodes, table_hash(&dp->tables->nodes, &k), &k);
	return n && segment_reaches(s, n->partition);
}

/* Whether another bridge has sent a frame, by its MAC address. */
static bool is_from_bridge(const struct datapath *dp, const struct rte_mbuf *m)
{
	uint64_t mac = mac48(rte_pktmbuf_mtod(m, const uint8_t *) + RTE_ETHER_ADDR_LEN);
	return is_virtual(dp, mac) /* the fleet's */ || is_bridge_mac(dp, mac);
}

/* Whether a source without a proxy QP may have one. */
static enum drop check_new_source(const struct worker *w, struct table_key k)
{
	const struct datapath *dp = w->datapath;
	unsigned segment = segment_of_key(&k);
	if (is_nodes(dp, &dp->segment[segment], k))
		return DROP_loop_bridge; /* an IB node's address on Ethernet: a bridge has sent this */
	const struct admission *a = __atomic_load_n(&dp->admission, __ATOMIC_ACQUIRE);
	for (unsigned i = 0; i < a->n; i++)
		if (a->prefix[i].segments >> segment & 1 && in_prefix(&a->prefix[i], k.addr))
			return PASS;
	return DROP_acl;
}

/* Punts packet i, which waits for a proxy QP or for what its host answers. */
static bool punt_pending(struct worker *w, struct burst *b, unsigned i, unsigned partition, struct punter from)
{
	struct rte_mbuf *m = b->send[i].mbuf;
	pending_punt(w, b, i);
	if (punt_frame(w, MIRROR_WAITING, PASS, m, PUNT_PROXY_QP | partition << PUNT_PARTITION_SHIFT, from))
		return true;
	pending_end(w, m);
	return false;
}

/* A packet of a source without a proxy QP. */
static enum drop punt_for_proxy_qp(struct worker *w, struct burst *b, unsigned i)
{
	const struct table_key *from = &b->lookup.from[i];
	enum drop d = check_new_source(w, *from);
	if (d)
		return d;
	struct punter punter = data_punter(w, from, b->send[i].mbuf);
	if (!punt_pending(w, b, i, partition_of(w->datapath, b, i), punter))
		return DROP_punt_full;
	w->counters.direction[ROCE_TO_IB].events[EVENT_PROXY_QP_WAIT]++;
	return PASS;
}

/* A packet of a host that is known by another MAC address: a second station, or the host has moved. Management asks at
 * the address that it knows, and rejects or requeues the packet. */
static enum drop punt_moved(struct worker *w, struct burst *b, unsigned i, const struct proxy_qp_entry *proxy_qp)
{
	return punt_pending(w, b, i, proxy_qp->partition, stranger(&proxy_qp->key)) ? PASS : DROP_src_refused;
}

static void add_handoff(const struct datapath *dp, struct burst *b, struct rte_mbuf *m, uint16_t worker)
{
	keep_port(dp, m);
	pending_none(m);
	b->handoff.mbuf[b->handoff.n] = m;
	b->handoff.worker[b->handoff.n++] = worker;
}

void send_handoffs(struct worker *w, struct handoff *h)
{
	struct direction_counters *c = &w->counters.direction[ROCE_TO_IB];
	while (h->n) {
		struct rte_mbuf *own[BURST];
		uint16_t worker = h->worker[0];
		unsigned n = 0, rest = 0;
		for (unsigned i = 0; i < h->n; i++) {
			if (h->worker[i] == worker) {
				own[n++] = h->mbuf[i];
				continue;
			}
			h->mbuf[rest] = h->mbuf[i];
			h->worker[rest++] = h->worker[i];
		}
		h->n = rest;
		if (mirroring(w))
			mirror_stage(w, MIRROR_HANDOFF, ROCE_TO_IB, PASS, own, n);
		unsigned taken = rte_ring_enqueue_burst(w->datapath->requeue[worker], (void **)own, n, NULL);
		wake_up(w->datapath->bell[worker]);
		if (mirroring(w))
			mirror_taken(w, taken);
		c->events[EVENT_HANDOFF] += taken;
		for (unsigned i = taken; i < n; i++)
			drop_packet(w, ROCE_TO_IB, DROP_peer_full, own[i]);
	}
}

/* Why the sender of packet i may not cross. */
static enum drop refuse_sender(const struct worker *w, const struct burst *b, unsigned i)
{
	return b->lookup.from_entry[i] ? PASS : check_new_source(w, b->lookup.from[i]);
}

/* Drops a packet to an address that is no node's, and asks management for it, if its sender may cross. */
static void drop_and_ask(struct worker *w, enum drop d, const struct burst *b, unsigned i, struct rte_mbuf *m)
{
	if (refuse_sender(w, b, i)) {
		drop_packet(w, ROCE_TO_IB, d, m);
		return;
	}
	count_drop(w, ROCE_TO_IB, d, m);
	free_or_ask(w, PUNT_NODE, &b->lookup.to[i], stranger(&b->lookup.from[i]), m);
}

/* Whether a packet to an address that is no node's is for a RoCE host, of whatever segment. */
static bool is_for_roce(const struct datapath *dp, struct table_key k)
{
	const struct table *hosts = &dp->tables->hosts;
	for (unsigned i = 0; i < dp->segments; i++) {
		k.number = dp->segment[i].group_key;
		if (table_find(hosts, table_hash(hosts, &k), &k))
			return true;
	}
	return false;
}

/* Has management make or look for what a packet that is kept will need, by a copy of it. */
static void prepare(struct worker *w, const struct burst *b, unsigned i, enum drop d)
{
	const struct table_key *from = &b->lookup.from[i];
	struct rte_mbuf *m = b->send[i].mbuf;
	if (!d && b->lookup.from_entry[i])
		return;
	struct rte_mbuf *copy = rte_pktmbuf_copy(m, m->pool, 0, UINT32_MAX);
	if (!copy)
		return;
	uint32_t what = PUNT_PREPARE | (d ? 0 : partition_of(w->datapath, b, i)) << PUNT_PARTITION_SHIFT;
	if (d)
		free_or_ask(w, PUNT_NODE, &b->lookup.to[i], stranger(from), copy);
	else if (!punt(w, copy, what, data_punter(w, from, copy)))
		rte_pktmbuf_free(copy);
}

void exception_path(struct worker *w, struct burst *b, unsigned i, enum drop d, enum origin from)
{
	const struct proxy_qp_entry *proxy_qp = b->lookup.from_entry[i];
	struct rte_mbuf *m = b->send[i].mbuf;
	if (from == FROM_PORT)
		m->hash.fdir.hi = latency_stamp(b->began); /* beside hash.usr; read when it is requeued */
	bool held = holds_sender(w, m);
	if (held && !d && proxy_qp && is_from(w->datapath, proxy_qp, m)) {
		add_handoff(w->datapath, b, m, proxy_qp->worker);
		return;
	}
	d = precise_drop(w->datapath, b, i, d);
	if ((!d || is_unknown(w, d)) && is_from_bridge(w->datapath, m))
		d = DROP_loop_bridge;
	if (!held && (!d || is_unknown(w, d))) {
		enum drop why = keeps_sender(w, m) ? refuse_sender(w, b, i) : DROP_not_mine;
		if (!why) {
			prepare(w, b, i, d);
			keep_frame(w, b, i);
			return;
		}
		d = d && why != DROP_not_mine ? d : why;
	}
	if (!d && proxy_qp)
		d = from == FROM_QUEUE ? DROP_src_refused : punt_moved(w, b, i, proxy_qp);
	else if (!d)
		d = from == FROM_QUEUE ? DROP_proxy_qp_unknown : punt_for_proxy_qp(w, b, i);
	if (d == DROP_node_unknown && is_for_roce(w->datapath, b->lookup.to[i]))
		d = DROP_same_side;
	if (d && is_unknown(w, d))
		drop_and_ask(w, d, b, i, m);
	else if (d)
		drop_packet(w, ROCE_TO_IB, d, m);
}

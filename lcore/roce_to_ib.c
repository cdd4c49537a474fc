/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ethernet to InfiniBand, in packet order:
 *
 *   take ▶ check_icrc ▶ check_transport ▶ choose ▶ post
 *
 * Look-ups run beside that: take() prefetches for them.
 *
 * Every mbuf received here leaves by exactly one way: posted to the IB port (which frees it), handed to
 * management or to another worker, or dropped by name.
 */
#include <rte_ethdev.h>
#include <rte_prefetch.h>
#include <rte_ring.h>

#include "burst.h"
#include "check_icrc.h"
#include "destination.h"
#include "egress.h"
#include "fastpath.h"
#include "handover.h"
#include "pending.h"
#include "lease.h"
#include "send.h"
#include "post.h"
#include "exception.h"

/* Punts a control frame; it is dropped when the punt ring has no room for its sender's. */
static void punt_control(struct worker *w, struct rte_mbuf *m)
{
	w->counters.punt.received++;
	if (punt_frame(w, MIRROR_MANAGEMENT, PASS, m, PUNT_CONTROL, control_punter(w->datapath, m))) {
		w->counters.punt.handed++;
		return;
	}
	w->counters.punt.full++;
	rte_pktmbuf_free(m);
}

/* Punts a MAD for the bridge's own services. */
static void punt_mad(struct worker *w, const struct table_key *from, struct rte_mbuf *m)
{
	unsigned port = port_index(w->datapath, m); /* the frame is management's from then on */
	if (!punt_frame(w, MIRROR_MANAGEMENT, DROP_mad_served, m, PUNT_MAD, data_punter(w, from, m))) {
		drop_packet(w, ROCE_TO_IB, DROP_punt_full, m);
		return;
	}
	w->counters.direction[ROCE_TO_IB].drops[DROP_mad_served]++;
	if (several_ports(w))
		w->by_port[port].direction[ROCE_TO_IB].drops[DROP_mad_served]++;
}

/* Prefetches a frame's headers and the beginning of its payload; the mbuf has been prefetched before. */
static inline void prefetch_frame(const struct rte_mbuf *m)
{
	const uint8_t *p = rte_pktmbuf_mtod(m, const uint8_t *);
	rte_prefetch0(p);
	rte_prefetch0(p + RTE_CACHE_LINE_SIZE);
	rte_prefetch0(p + 2 * RTE_CACHE_LINE_SIZE);
}

/* Parses a frame that is not on the fast path into place i, up to UDP or GRH. Returns as parse() does. */
static unsigned place_parsed(const struct datapath *dp, struct burst *b, unsigned i, struct rte_mbuf *m)
{
	struct packet *p = &b->parsed[i];
	unsigned result = parse(dp, m, p, &b->icrc[i]);
	if (unlikely(result != PASS))
		return result;
	b->trim[i].fastpath = false;
	b->send[i].mbuf = m;
	b->lookup.from[i] = p->from;
	b->lookup.to[i] = p->to;
	b->lookup.to_group[i] = p->multicast;
	b->lookup.groups += p->multicast;
	return PASS;
}

/* Returns whether the packet stays in the burst. */
static __rte_noinline bool take_parsed(struct worker *w, struct burst *b, unsigned i, struct rte_mbuf *m)
{
	struct direction_counters *c = &w->counters.direction[ROCE_TO_IB];
	unsigned result = place_parsed(w->datapath, b, i, m);
	if (unlikely(result == PUNT)) {
		punt_control(w, m);
		return false;
	}
	COUNT(c->received, 1);
	if (several_ports(w))
		counters_of(w, ROCE_TO_IB, m)->received++;
	if (unlikely(result != PASS))
		drop_packet(w, ROCE_TO_IB, result, m);
	return result == PASS;
}

static void clear(const struct tables *t, struct burst *b)
{
	b->lookup.from_table = &t->proxy_qps;
	b->lookup.to_table = &t->nodes;
	b->lookup.to_group_table = &t->groups;
	b->lookup.groups = 0;
	b->congested = false;
	b->handoff.n = 0;
	b->n = 0;
}

/* How far ahead mbufs and frames are prefetched. */
enum { MBUFS_AHEAD = 16, FRAMES_AHEAD = 8 };

/* Parses n frames into the burst. m has room for MBUFS_AHEAD more. */
static void take(struct worker *w, struct burst *b, struct rte_mbuf **m, unsigned n)
{
	clear(w->datapath->tables, b);
	for (unsigned i = n; i < n + MBUFS_AHEAD; i++)
		m[i] = m[n - 1];
	for (unsigned i = 0; i < MBUFS_AHEAD; i++)
		rte_prefetch0(m[i]);
	for (unsigned i = 0; i < FRAMES_AHEAD; i++)
		prefetch_frame(m[i]);
	const struct datapath *dp = w->datapath;
	const struct segment *only = only_segment(dp);
	unsigned kept = 0, parsed = 0;
	/* Now, because the first frame may be somebody else's when all are parsed. */
	struct direction_counters *of_port = several_ports(w) ? counters_of(w, ROCE_TO_IB, m[0]) : NULL;
	for (unsigned i = 0; i < n; i++) {
		rte_prefetch0(m[i + MBUFS_AHEAD]);
		prefetch_frame(m[i + FRAMES_AHEAD]);
		if (unlikely(!fastpath(dp, only, m[i], b, kept))) {
			if (!take_parsed(w, b, kept, m[i]))
				continue;
			parsed++;
		}
		kept++;
	}
	b->n = kept;
	b->fastpath = parsed == 0;
	COUNT(w->counters.direction[ROCE_TO_IB].received, kept - parsed);
	if (unlikely(of_port))
		of_port->received += kept - parsed;
}

/* Of the fast path: of others count_events() does it. */
static __rte_noinline void count_congestion(struct worker *w, const struct burst *b)
{
	unsigned congested = 0;
	for (unsigned i = 0; i < b->n; i++)
		congested += b->trim[i].fastpath && b->send[i].flags & IB_SEND_FECN;
	COUNT(w->counters.direction[ROCE_TO_IB].events[EVENT_ECN_CE], congested);
}

/* Parses the transport headers of a packet that is not on the fast path. */
static enum drop parse_transport(struct worker *w, struct burst *b, unsigned i, enum origin from)
{
	struct packet *p = &b->parsed[i];
	struct ib_send *s = &b->send[i];
	enum drop d = p->plain ? PASS : transport(w->datapath, p);
	if (unlikely(d))
		return d;
	if (from == FROM_PORT)
		count_events(w, p);
	s->ah.tclass = p->tclass;
	s->ah.hop_limit = p->hop_limit;
	s->ah.flow_label = p->flow_label;
	s->dest_qpn = p->dest_qpn;
	s->dest_qkey = p->qkey;
	s->imm = p->imm;
	s->flags = p->flags;
	b->trim[i].headers = (uint16_t)(p->payload - rte_pktmbuf_mtod(p->mbuf, const uint8_t *));
	b->trim[i].payload_len = p->payload_len;
	return PASS;
}

static __rte_noinline void check_transport(struct worker *w, struct burst *b, enum origin from)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < b->n; i++) {
		enum drop d = b->trim[i].fastpath ? PASS : parse_transport(w, b, i, from);
		if (unlikely(d == DROP_mad_served)) {
			punt_mad(w, &b->lookup.from[i], b->send[i].mbuf);
			continue;
		}
		if (unlikely(d)) {
			drop_packet(w, ROCE_TO_IB, d, b->send[i].mbuf);
			continue;
		}
		if (unlikely(kept != i))
			burst_move(b, kept, i);
		kept++;
	}
	b->n = kept;
}

/* Whether a frame comes from the host of a proxy QP, and this worker may forward what that sends. The host may move
 * meanwhile, so src is read once. */
static inline bool is_held_from(const struct worker *w, const struct proxy_qp_entry *proxy_qp, const struct rte_mbuf *m)
{
	uint64_t mac = source_mac(m), src = __atomic_load_n(&proxy_qp->src, __ATOMIC_RELAXED);
	uint64_t shard = likely(src) ? src >> L2_MAC_BITS : host_shard(mac);
	return is_host_of(w->datapath, proxy_qp, src, mac) && w->lease.shards.hosts >> shard & 1;
}

/* Chooses the packets that this worker sends. Where there are no groups, they are no question. */
static __rte_always_inline void choose_some(struct worker *w, struct burst *b, enum origin from, bool groups)
{
	const struct datapath *dp = w->datapath;
	unsigned kept = 0, n = b->n;
	bool pending = from < FROM_BEHIND && pending_any(w);
	b->bytes = 0;
	for (unsigned i = 0; i < n; i++) {
		bool group = groups && b->lookup.to_group[i];
		enum drop d = check_destination(dp, b, i, group);
		if (unlikely(pending) && !d && pending_may_keep(w, b, i) && pending_keeps(w, b, i, from))
			continue;
		const struct proxy_qp_entry *proxy_qp = b->lookup.from_entry[i];
		bool mine = !d && proxy_qp && proxy_qp->worker == w->id && is_held_from(w, proxy_qp, b->send[i].mbuf);
		if (group && likely(mine))
			d = apply_group_actions(w, b->lookup.to_entry[i], b, i);
		if (unlikely(d || !mine)) {
			exception_path(w, b, i, d, from);
			continue;
		}
		b->bytes += fill_send(dp, b, i, group, proxy_qp, b->lookup.to_entry[i]);
		if (unlikely(kept != i))
			burst_move(b, kept, i);
		kept++;
	}
	b->n = kept;
	if (unlikely(b->handoff.n))
		send_handoffs(w, &b->handoff);
}

static void choose(struct worker *w, struct burst *b, enum origin from)
{
	if (b->lookup.groups)
		choose_some(w, b, from, true);
	else
		choose_some(w, b, from, false);
}

/* Finishes the look-ups and sends the packets. */
static void look_up_and_post(struct worker *w, struct burst *b, enum origin from)
{
	if (unlikely(!b->fastpath))
		check_transport(w, b, from);
	lookup_finish(&b->lookup, b->n);
	choose(w, b, from);
	if (unlikely(lease_ended(w))) {
		drop_sends(w, b, DROP_lease_ended);
		return;
	}
	if (unlikely(w->lease.leaves))
		note_frames(w, b);
	if (b->n)
		post(w, b);
}

static unsigned bridge_burst(struct worker *w, unsigned port)
{
	struct rte_mbuf *m[BURST + MBUFS_AHEAD];
	struct burst b;
	unsigned n =
		likely(!w->inject[ROCE_TO_IB].live) ? receive_frames(w, port, m, BURST) : inject_frames(w, port, m);
	if (n == 0)
		return w->inject[ROCE_TO_IB].taken;
	b.began = latency_begin(&w->latency[ROCE_TO_IB]);
	if (mirroring(w))
		mirror_frames(w, m, n);
	take(w, &b, m, n);
	check_and_look_up(w, &b);
	if (unlikely(b.congested))
		count_congestion(w, &b);
	look_up_and_post(w, &b, FROM_PORT);
	return n;
}

/* One burst of each port, so that one that floods does not starve the others. */
unsigned roce_to_ib(struct worker *w)
{
	unsigned moved = 0;
	for (unsigned left = w->ports & PORTS_ALL; left; left &= left - 1)
		moved += bridge_burst(w, first_port(left));
	lease_received(w, ROCE_TO_IB, moved);
	return moved;
}

/* Sends frames that were counted as received, and whose ICRC was found right, when they came in. hosts: the shards that
 * are open to them. */
static void send_again(struct worker *w, struct rte_mbuf **m, unsigned n, enum origin from, uint64_t hosts)
{
	struct burst b;
	unsigned parsed = 0;
	const struct segment *only = only_segment(w->datapath);
	clear(w->datapath->tables, &b);
	b.began = LATENCY_WAITED;
	for (unsigned i = 0; i < n; i++) {
		if (unlikely(!fastpath(w->datapath, only, m[i], &b, b.n))) {
			unsigned result = place_parsed(w->datapath, &b, b.n, m[i]);
			if (result != PASS) {
				drop_packet(w, ROCE_TO_IB, result, m[i]);
				continue;
			}
			parsed++;
		}
		b.n++;
	}
	b.fastpath = parsed == 0;
	lookup_begin(&b.lookup, b.n);
	uint64_t open = w->lease.shards.hosts;
	w->lease.shards.hosts = hosts;
	look_up_and_post(w, &b, from);
	w->lease.shards.hosts = open;
	w->ib_port->free(w->ib_port->self); /* room for as many */
}

unsigned roce_to_ib_requeued(struct worker *w)
{
	unsigned moved = 0, waiting = rte_ring_count(w->requeue);
	while (moved < waiting) {
		struct rte_mbuf *m[BURST];
		unsigned n = rte_ring_sc_dequeue_burst(w->requeue, (void **)m, BURST, NULL);
		for (unsigned i = 0; i < n; i++)
			pending_end(w, m[i]);
		/* The worker that handed them over had the shard open, and no older packets queued. */
		if (n)
			send_again(w, m, n, FROM_QUEUE, w->lease.next.shards.hosts);
		moved += n;
	}
	return moved;
}

unsigned roce_to_ib_behind(struct worker *w)
{
	unsigned moved = 0;
	for (unsigned i = 0; i < BEHIND_BURSTS; i++) {
		struct rte_mbuf *m[BURST];
		unsigned n = pending_take(w, m);
		if (n == 0)
			break;
		send_again(w, m, n, FROM_BEHIND, w->lease.shards.hosts);
		moved += n;
	}
	return moved;
}

unsigned roce_to_ib_kept(struct worker *w)
{
	unsigned moved = 0;
	bool rest = true;
	for (unsigned i = 0; rest && i < KEPT_BURSTS; i++) {
		struct ib_recv kept[BURST];
		struct rte_mbuf *m[BURST];
		unsigned n = take_kept(w, ROCE_TO_IB, kept, &rest);
		for (unsigned k = 0; k < n; k++)
			m[k] = kept[k].mbuf;
		if (n)
			send_again(w, m, n, FROM_KEPT, w->lease.shards.hosts | w->lease.release.hosts);
		moved += n;
	}
	if (!rest)
		lease_released(w, ROCE_TO_IB);
	return moved;
}

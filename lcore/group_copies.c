/* SPDX-License-Identifier: Apache-2.0 */
#include "group_copies.h"

#include "headers.h"
#include "route.h"
#include "transmit.h"

struct copies {
	uint64_t began;        /* of the burst that they are of; probe/latency.h */
	struct roce_peer peer; /* that the message itself goes to */
	struct ib_recv recv[BURST];
	struct message message[BURST];
	struct icrc_job icrc[BURST];
};

size_t copies_size(void)
{
	return sizeof(struct copies);
}

/* The destination in a segment: the group's entry has neither VLAN nor version. RoCEv1 maps every group as IPv6 does.
 */
static void peer_in(const struct segment *s, const struct mgid_entry *m, struct roce_peer *peer, uint8_t *version)
{
	*peer = m->peer;
	*version = m->version & ~SHARED;
	uint64_t mac = table_l2(&m->peer.l2) & ((UINT64_C(1) << L2_MAC_BITS) - 1);
	if (*version != PLAIN_UDP && !(s->versions & ROCE_V2)) {
		*version = ROCE_V1;
		mac = 0x3333 | (uint64_t)load32(peer->ip + 12) << 16;
	}
	peer->l2 = mac | (uint64_t)s->vlan << L2_MAC_BITS;
}

static bool fits(const struct segment *s, const struct mgid_entry *m, const struct message *msg)
{
	return msg->payload_len <= m->mtu && ((m->version & PLAIN_UDP) || msg->payload_len <= s->roce_mtu);
}

enum drop refuse_to_segments(const struct datapath *dp, const struct mgid_entry *m, const struct source_entry *source,
			     const struct message *msg)
{
	enum drop first = PASS;
	if (!(m->flags & GROUP_TO_ROCE))
		return DROP_mc_direction;
	for (uint32_t left = m->id >> GROUP_ID_BITS; left; left &= left - 1) {
		const struct segment *s = &dp->segment[__builtin_ctz(left)];
		enum drop why = fits(s, m, msg)
					? refuse_source(dp, source, s, partition_in(m, true), !is_ipv4(m->peer.ip))
					: DROP_mtu_exceeded;
		if (!why)
			return PASS;
		first = first ? first : why;
	}
	return first ? first : DROP_mc_unknown;
}

/* The route in one segment. */
static enum drop route_in(struct worker *w, const struct segment *s, const struct mgid_entry *m,
			  const struct source_entry *source, const struct message *msg, struct route *r,
			  struct roce_peer *peer)
{
	peer_in(s, m, peer, &r->version);
	r->segment = s;
	r->to = peer;
	r->group = true;
	return fits(s, m, msg) ? route_from(w, source, partition_in(m, true), r) : DROP_mtu_exceeded;
}

/* Adds a copy of a message, whose headers are not written yet. */
static void add_copy(struct worker *w, const struct message *msg, const struct route *r)
{
	struct copies *c = w->copies;
	struct rte_mbuf *m = rte_pktmbuf_copy(msg->recv->mbuf, msg->recv->mbuf->pool, 0, UINT32_MAX);
	if (!m) {
		count_message_drop(w, DROP_no_buffer, msg->recv);
		return;
	}
	if (w->copied == BURST)
		send_copies(w);
	unsigned i = w->copied++;
	struct message *copy = &c->message[i];
	*copy = *msg;
	c->recv[i] = *msg->recv;
	c->recv[i].mbuf = m;
	copy->recv = &c->recv[i];
	copy->payload = rte_pktmbuf_mtod_offset(m, uint8_t *, IB_GRH_LEN);
	c->icrc[i] = r->version == PLAIN_UDP ? write_datagram(w, copy, *r) : write_headers(w, copy, r);
}

unsigned route_to_segments(struct worker *w, struct egress *e, unsigned i, const struct mgid_entry *m,
			   const struct source_entry *source, struct route *r)
{
	struct direction_counters *c = &w->counters.direction[IB_TO_ROCE];
	struct message *msg = &e->message[i];
	struct route to[MAX_SEGMENTS];
	struct roce_peer peer[MAX_SEGMENTS];
	enum drop why[MAX_SEGMENTS];
	unsigned n = 0, takers = 0;
	if (!(m->flags & GROUP_TO_ROCE))
		return DROP_mc_direction;
	msg->group = table_group_id(m);
	for (uint32_t left = m->id >> GROUP_ID_BITS; left; left &= left - 1, n++) {
		const struct segment *s = &w->datapath->segment[__builtin_ctz(left)];
		why[n] = route_in(w, s, m, source, msg, &to[n], &peer[n]);
		takers += !why[n];
	}
	if (takers == 0)
		return why[0];
	if (source && source->flags & NODE_HEARD)
		table_hear(w->datapath->tables, source->id, partition_in(m, true));
	enum drop d = apply_group_actions(w, m, msg);
	if (d)
		return d;
	c->received += n - 1;
	c->events[EVENT_GROUP_COPIES] += n - 1;
	w->copies->began = e->began;
	for (unsigned k = 1; k < n; k++) {
		if (why[k])
			count_message_drop(w, why[k], msg->recv);
		else
			add_copy(w, msg, &to[k]);
	}
	if (why[0])
		return why[0];
	w->copies->peer = peer[0];
	*r = to[0];
	r->to = &w->copies->peer;
	return r->version == PLAIN_UDP ? (unsigned)PLAIN : (unsigned)PASS;
}

void send_copies(struct worker *w)
{
	struct copies *c = w->copies;
	uint32_t crc[BURST];
	struct rte_mbuf *mbuf[BURST];
	bool to_group[BURST];
	uint64_t bytes = 0;
	unsigned n = w->copied;
	w->copied = 0;
	icrc_burst(c->icrc, n, crc);
	for (unsigned i = 0; i < n; i++) {
		store32((uint8_t *)(uintptr_t)c->icrc[i].p + c->icrc[i].len, crc[i]);
		mbuf[i] = c->message[i].recv->mbuf;
		bytes += c->message[i].payload_len;
		to_group[i] = true;
	}
	transmit(w, &(struct departure){c->message, mbuf, to_group, n, bytes, c->began});
}

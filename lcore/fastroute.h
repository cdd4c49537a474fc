/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes usual messages, which are nearly all: with a GRH and nothing else to carry over, from a known node that is no
 * bridge, to a proxy QP or a group, as RoCEv2. What find_route() and write_headers() ask of other messages is not asked
 * here: it is known. A message that passes here would pass there, too, and become the same frame; all others go there.
 */
#ifndef CAUSEWAY_FASTROUTE_H
#define CAUSEWAY_FASTROUTE_H

#include "headers.h"
#include "lease.h"
#include "route.h"

/* Of what finds a route: the message is not usual. */
enum { UNUSUAL = PLAIN + 1 };

/* Where a usual message goes, or NULL. */
static __rte_always_inline const struct roce_peer *fastroute_host(const struct datapath *dp,
								  const struct proxy_qpn_entry *to,
								  const struct message *msg, const struct segment **s)
{
	*s = segment_at(dp, to->segment);
	if (unlikely(to->version != ROCE_V2 || msg->payload_len > (*s)->roce_mtu))
		return NULL;
	return &to->peer;
}

/* The same for a group. */
static __rte_always_inline const struct roce_peer *
fastroute_group(const struct datapath *dp, const struct mgid_entry *to, struct message *msg, const struct segment **s)
{
	if (unlikely(to->version != ROCE_V2 || !(to->flags & GROUP_TO_ROCE) || msg->payload_len > to->mtu))
		return NULL;
	msg->group = table_group_id(to);
	*s = segment_at(dp, to->id >> GROUP_ID_BITS);
	return &to->peer;
}

/* Whether messages of a node are usual that go to what is in a partition. Most segments take all partitions. */
static __rte_always_inline bool fastroute_from(const struct source_entry *from, const struct segment *s, uint8_t to)
{
	if (unlikely(from->flags & (NODE_OWN | NODE_HEARD | NODE_BRIDGE)))
		return false;
	return likely(s->partition == PARTITION_ANY) || (segment_reaches(s, from->partition) && segment_reaches(s, to));
}

/* write_headers() of a usual message, to a proxy_qpn_entry or an mgid_entry: their peers lie at the same place. */
static __rte_always_inline struct icrc_job fastroute_write(struct worker *w, const struct message *msg, const void *to,
							   const struct segment *s, const uint8_t *src_ip, bool six,
							   bool group)
{
	const struct proxy_qpn_entry *host = to;
	uint8_t shard = group ? 0 : __atomic_load_n(&host->shard, __ATOMIC_RELAXED);
	return write_frame(w, msg, &(struct route){src_ip, &host->peer, s, ROCE_V2, shard, six, group}, HEADER_GRH,
			   IB_RECV_GRH);
}

/* Out of line, so that the rest needs fewer registers. */
static __rte_noinline struct icrc_job fastroute_write_six(struct worker *w, const struct message *msg, const void *to,
							  const struct segment *s, const uint8_t *src_ip, bool group)
{
	return fastroute_write(w, msg, to, s, src_ip, true, group);
}

/* Routes message i and writes its frame but for the ICRC. Returns UNUSUAL for messages that are not, and why a usual
 * one is dropped. Usual are only those to groups, or only those to hosts. */
static __rte_always_inline unsigned fastroute(struct worker *w, struct egress *e, unsigned i, struct icrc_job *icrc,
					      bool group)
{
	const struct lookup *l = &e->lookup;
	const struct source_entry *from = l->from_entry[i];
	const void *to = l->to_entry[i];
	struct message *msg = &e->message[i];
	const struct segment *s;
	if (unlikely((msg->recv->flags & ~IB_RECV_SEVERAL) != IB_RECV_GRH || msg->header != HEADER_GRH || !from || !to))
		return UNUSUAL;
	const struct roce_peer *peer =
		group ? fastroute_group(w->datapath, to, msg, &s) : fastroute_host(w->datapath, to, msg, &s);
	if (unlikely(!peer || (group && !holds_group(w, to)) ||
		     !fastroute_from(from, s, group ? from->partition : partition_in(to, false))))
		return UNUSUAL;
	bool six = !is_ipv4(peer->ip);
	if (unlikely(six ? is_zero(from->ip6) : load32(from->ip4 + 12) == 0))
		return UNUSUAL;
	enum drop d = PASS;
	if (group && unlikely(msg->recv->flags & IB_RECV_ASK))
		d = ask_port(w, e, msg);
	if (unlikely(d))
		return d;
	mark_used(w->datapath, &from->used);
	if (group)
		d = apply_group_actions(w, to, msg);
	else
		mark_used(w->datapath, &((const struct proxy_qpn_entry *)to)->used);
	if (unlikely(d))
		return d;
	*icrc = six ? fastroute_write_six(w, msg, to, s, from->ip6, group)
		    : fastroute_write(w, msg, to, s, from->ip4, false, group);
	return PASS;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "mirror.h"

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <string.h>

#include "endpoints.h"
#include "lcore/burst.h"
#include "ring.h"

/* The offset of a packet's number in its mbuf. */
static int number_at = -1;

int mirror_prepare(void)
{
	static const struct rte_mbuf_dynfield field = {
		.name = "causeway_mirror", .size = sizeof(uint64_t), .align = __alignof__(uint64_t)};
	if (number_at < 0)
		number_at = rte_mbuf_dynfield_register(&field);
	return number_at < 0 ? -rte_errno : 0;
}

void mirror_prepare_at(int offset)
{
	number_at = offset;
}

static uint64_t *number_of(struct rte_mbuf *m)
{
	return RTE_MBUF_DYNFIELD(m, number_at, uint64_t *);
}

/* Numbers are never zero. */
static void number(struct worker *w, struct rte_mbuf *m)
{
	*number_of(m) = (uint64_t)(w->id + 1) << 48 | (++w->packets_numbered & UINT64_C(0xffffffffffff));
}

/* A packet at a mirror point. Its endpoints are resolved lazily. */
struct candidate {
	struct rte_mbuf *mbuf;
	struct mirror_ib ib;
	const struct table_key *from, *to; /* of a send */
	uint16_t worker;
	enum mirror_point point;
	enum direction direction;
	enum drop drop;
	enum mirror_form form;
	uint8_t place;
};

static void find_endpoints(struct endpoints *e, const struct candidate *s)
{
	const uint8_t *data = rte_pktmbuf_mtod(s->mbuf, const uint8_t *);
	bool area = (s->ib.flags & IB_RECV_GRH) && s->mbuf->data_len >= IB_GRH_LEN;
	if (s->form == MIRROR_SEND)
		endpoints_of_send(e, &s->ib, s->from, s->to);
	else if (s->form == MIRROR_MESSAGE)
		endpoints_of_message(e, &s->ib, area ? data : NULL);
	else
		endpoints_of_frame(e, data, s->mbuf->data_len);
}

/* The conditions that a whole burst meets or not. */
static bool wants_such(const struct mirror_filter *f, enum mirror_point p, enum direction d, enum mirror_form form,
		       enum drop drop)
{
	unsigned ib_port = form == MIRROR_FRAME ? MIRROR_ROCE : MIRROR_IB;
	return (f->ports & ib_port) && (f->directions >> d & 1) && (f->points >> p & 1) &&
	       (!f->drop || f->drop == drop);
}

static bool wants_all(const struct mirror_filter *f)
{
	return !f->by_host && !f->by_group && !f->by_qpn;
}

static bool wanted(const struct mirror_filter *f, const struct candidate *s, struct endpoints *e)
{
	if (!wants_such(f, s->point, s->direction, s->form, s->drop))
		return false;
	if (wants_all(f))
		return true;
	if (e->addresses + e->qpns == 0)
		find_endpoints(e, s);
	return (!f->by_host || endpoints_have(e, f->host)) && (!f->by_group || endpoints_have(e, f->group)) &&
	       (!f->by_qpn || endpoints_have_qpn(e, f->qpn));
}

static void copy(struct mirrored_packet *slot, uint32_t snap, const struct candidate *s, uint64_t tsc)
{
	uint8_t *to = mirror_data(slot);
	slot->tsc = tsc;
	slot->packet = *number_of(s->mbuf);
	slot->len = s->mbuf->pkt_len;
	slot->kept = RTE_MIN(s->mbuf->pkt_len, snap);
	slot->worker = s->worker;
	slot->direction = (uint8_t)s->direction;
	slot->point = (uint8_t)s->point;
	slot->drop = (uint8_t)s->drop;
	slot->form = (uint8_t)s->form;
	slot->place = s->place;
	slot->ib = s->ib;
	const uint8_t *from = rte_pktmbuf_read(s->mbuf, 0, slot->kept, to);
	if (from && from != to)
		memcpy(to, from, slot->kept);
}

/* Stages a packet in the ring of each mirror whose filter it passes. */
static void stage(struct mirrors *all, const struct candidate *s)
{
	struct endpoints e = {.tables = all->tables};
	for (unsigned i = 0; i < all->n; i++) {
		struct mirror_ring *r = all->mirror[i].ring;
		if (!wanted(&all->mirror[i].filter, s, &e))
			continue;
		struct mirrored_packet *slot = r->staged_missed ? NULL : mirror_ring_slot(r);
		if (!slot) {
			r->staged_missed |= UINT64_C(1) << s->place;
			continue;
		}
		copy(slot, r->snap, s, rte_rdtsc());
		r->staged++;
	}
}

/* Begins a burst of such packets. False: no mirror can take any of them. A mirror that wants all packets and has no
 * room for the first misses all. */
static bool begin(struct mirrors *all, enum mirror_point p, enum direction d, enum mirror_form form, enum drop drop)
{
	bool somebody = false;
	for (unsigned i = 0; i < all->n; i++) {
		all->mirror[i].ring->staged = 0;
		all->mirror[i].ring->staged_missed = 0;
		if (!wants_such(&all->mirror[i].filter, p, d, form, drop))
			continue;
		if (wants_all(&all->mirror[i].filter) && !mirror_ring_slot(all->mirror[i].ring))
			all->mirror[i].ring->staged_missed = UINT64_MAX;
		else
			somebody = true;
	}
	return somebody;
}

/* Publishes those staged of the first n of a burst. */
static void publish_taken(struct mirrors *all, unsigned n)
{
	uint64_t places = n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
	for (unsigned i = 0; i < all->n; i++) {
		struct mirror_ring *r = all->mirror[i].ring;
		uint64_t missed = r->missed + (uint64_t)__builtin_popcountll(r->staged_missed & places);
		uint32_t good = 0, staged = r->staged;
		for (r->staged = 0; good < staged; good++, r->staged++)
			if (mirror_ring_slot(r)->place >= n)
				break;
		__atomic_store_n(&r->missed, missed, __ATOMIC_RELAXED);
		mirror_ring_publish(r, good);
		r->staged_missed = 0;
	}
}

_Static_assert(BURST <= 64, "places are bits of a word");

static struct mirrors *mirrors_of(struct worker *w)
{
	return __atomic_load_n(&w->mirrors, __ATOMIC_ACQUIRE);
}

/* The partition that a message came in, by the queue pair or the group that it is for. */
static uint8_t partition_of_recv(const struct tables *t, const struct ib_recv *r)
{
	const uint8_t *dgid = rte_pktmbuf_mtod_offset(r->mbuf, const uint8_t *, 24);
	struct table_key k = {.number = r->qpn};
	const struct proxy_qpn_entry *s = table_find(&t->proxy_qpns, table_hash(&t->proxy_qpns, &k), &k);
	if (s)
		return s->partition;
	if (r->mbuf->data_len < IB_GRH_LEN || !(r->flags & IB_RECV_GRH))
		return 0;
	k.number = 0;
	memcpy(k.addr, dgid, sizeof k.addr);
	const struct mgid_entry *m = table_find(&t->mgids, table_hash(&t->mgids, &k), &k);
	return m ? m->flags >> GROUP_PARTITION_SHIFT : 0;
}

static struct mirror_ib of_recv(const struct tables *t, const struct ib_recv *r)
{
	return (struct mirror_ib){.qpn = r->qpn,
				  .peer = r->src_qpn,
				  .imm = r->imm,
				  .lid = r->slid,
				  .partition = partition_of_recv(t, r),
				  .flags = r->flags,
				  .sl = r->sl,
				  .known = true};
}

static struct mirror_ib of_send(const struct ib_send *s, const struct proxy_qp_entry *proxy_qp)
{
	struct mirror_ib ib = {.qp = s->qp,
			       .qpn = proxy_qp->qpn,
			       .peer = s->dest_qpn,
			       .qkey = s->dest_qkey,
			       .imm = s->imm,
			       .flow_label = s->ah.flow_label,
			       .lid = s->ah.dlid,
			       .partition = s->partition,
			       .flags = s->flags,
			       .sl = s->ah.sl,
			       .tclass = s->ah.tclass,
			       .hop_limit = s->ah.hop_limit,
			       .source = s->ah.source,
			       .known = true};
	memcpy(ib.dgid, s->ah.dgid, sizeof ib.dgid);
	return ib;
}

void mirror_stage(struct worker *w, enum mirror_point p, enum direction d, enum drop reason, struct rte_mbuf **m,
		  unsigned n)
{
	struct mirrors *all = mirrors_of(w);
	if (!all)
		return;
	for (unsigned i = 0; i < n && p == MIRROR_OWN; i++)
		number(w, m[i]);
	if (!begin(all, p, d, MIRROR_FRAME, reason))
		return;
	for (unsigned i = 0; i < n; i++)
		stage(all, &(struct candidate){.mbuf = m[i],
					       .worker = w->id,
					       .point = p,
					       .direction = d,
					       .drop = reason,
					       .form = MIRROR_FRAME,
					       .place = (uint8_t)i});
}

void mirror_frames(struct worker *w, struct rte_mbuf **m, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		number(w, m[i]);
	mirror_stage(w, MIRROR_RECEIVED, ROCE_TO_IB, PASS, m, n);
	mirror_taken(w, n);
}

static void stage_message(struct worker *w, struct mirrors *all, enum mirror_point p, enum drop reason,
			  const struct ib_recv *r, unsigned place)
{
	stage(all, &(struct candidate){.mbuf = r->mbuf,
				       .ib = of_recv(w->datapath->tables, r),
				       .worker = w->id,
				       .point = p,
				       .direction = IB_TO_ROCE,
				       .drop = reason,
				       .form = MIRROR_MESSAGE,
				       .place = (uint8_t)place});
}

void mirror_messages(struct worker *w, const struct ib_recv *r, unsigned n)
{
	struct mirrors *all = mirrors_of(w);
	if (!all)
		return;
	for (unsigned i = 0; i < n; i++)
		number(w, r[i].mbuf);
	bool somebody = begin(all, MIRROR_RECEIVED, IB_TO_ROCE, MIRROR_MESSAGE, PASS);
	for (unsigned i = 0; i < n && somebody; i++)
		stage_message(w, all, MIRROR_RECEIVED, PASS, &r[i], i);
	publish_taken(all, n);
}

void mirror_stage_sends(struct worker *w, const struct burst *b)
{
	struct mirrors *all = mirrors_of(w);
	if (!all)
		return;
	if (!begin(all, MIRROR_SENT, ROCE_TO_IB, MIRROR_SEND, PASS))
		return;
	for (unsigned i = 0; i < b->n; i++)
		stage(all, &(struct candidate){.mbuf = b->send[i].mbuf,
					       .ib = of_send(&b->send[i], b->lookup.from_entry[i]),
					       .from = &b->lookup.from[i],
					       .to = &b->lookup.to[i],
					       .worker = w->id,
					       .point = MIRROR_SENT,
					       .direction = ROCE_TO_IB,
					       .form = MIRROR_SEND,
					       .place = (uint8_t)i});
}

void mirror_taken(struct worker *w, unsigned n)
{
	struct mirrors *all = mirrors_of(w);
	if (all)
		publish_taken(all, n);
}

/* A packet that the Ethernet port did not take is a frame already; else it is still as received. Injected drops come
 * before reception, so that the packet has no number yet. */
void mirror_drop(struct worker *w, enum direction d, enum drop reason, struct rte_mbuf *m)
{
	struct mirrors *all = mirrors_of(w);
	if (!all)
		return;
	bool message = d == IB_TO_ROCE && reason != DROP_eth_full;
	if (reason == DROP_injected)
		number(w, m);
	enum mirror_form form = message ? MIRROR_MESSAGE : MIRROR_FRAME;
	if (begin(all, MIRROR_DROPPED, d, form, reason))
		stage(all, &(struct candidate){.mbuf = m,
					       .worker = w->id,
					       .point = MIRROR_DROPPED,
					       .direction = d,
					       .drop = reason,
					       .form = form});
	publish_taken(all, 1);
}

void mirror_drop_message(struct worker *w, enum drop reason, const struct ib_recv *r)
{
	struct mirrors *all = mirrors_of(w);
	if (!all)
		return;
	if (begin(all, MIRROR_DROPPED, IB_TO_ROCE, MIRROR_MESSAGE, reason))
		stage_message(w, all, MIRROR_DROPPED, reason, r, 0);
	publish_taken(all, 1);
}

void mirror_punted_drop(struct mirrors *s, uint16_t worker, enum drop reason, struct rte_mbuf *m)
{
	if (begin(s, MIRROR_DROPPED, ROCE_TO_IB, MIRROR_FRAME, reason))
		stage(s, &(struct candidate){.mbuf = m,
					     .worker = worker,
					     .point = MIRROR_DROPPED,
					     .direction = ROCE_TO_IB,
					     .drop = reason,
					     .form = MIRROR_FRAME});
	publish_taken(s, 1);
}

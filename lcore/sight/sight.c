/* SPDX-License-Identifier: Apache-2.0 */
#include "sight.h"

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <string.h>

#include "ends.h"
#include "lcore/burst.h"
#include "ring.h"

/* Where in an mbuf its packet's number lies. */
static int number_at = -1;

int sight_prepare(void)
{
	static const struct rte_mbuf_dynfield field = {
		.name = "causeway_sight", .size = sizeof(uint64_t), .align = __alignof__(uint64_t)};
	if (number_at < 0)
		number_at = rte_mbuf_dynfield_register(&field);
	return number_at < 0 ? -rte_errno : 0;
}

void sight_prepare_at(int offset)
{
	number_at = offset;
}

static uint64_t *number_of(struct rte_mbuf *m)
{
	return RTE_MBUF_DYNFIELD(m, number_at, uint64_t *);
}

/* Zero is nobody's number. */
static void number(struct worker *w, struct rte_mbuf *m)
{
	*number_of(m) = (uint64_t)(w->id + 1) << 48 | (++w->sighted & UINT64_C(0xffffffffffff));
}

/* One packet to be looked at; whose it is, is found out when somebody asks. */
struct seen {
	struct rte_mbuf *mbuf;
	struct sight_ib ib;
	const struct table_key *from, *to; /* of a send */
	uint16_t worker;
	enum sight_point point;
	enum direction direction;
	enum drop drop;
	enum sight_form form;
	uint8_t place;
};

static void find_ends(struct ends *e, const struct seen *s)
{
	const uint8_t *data = rte_pktmbuf_mtod(s->mbuf, const uint8_t *);
	bool area = (s->ib.flags & IB_RECV_GRH) && s->mbuf->data_len >= IB_GRH_LEN;
	if (s->form == SIGHT_SEND)
		ends_of_send(e, &s->ib, s->from, s->to);
	else if (s->form == SIGHT_MESSAGE)
		ends_of_message(e, &s->ib, area ? data : NULL);
	else
		ends_of_frame(e, data, s->mbuf->data_len);
}

/* What a whole burst has in common. */
static bool wants_such(const struct sight_filter *f, enum sight_point p, enum direction d, enum sight_form form,
		       enum drop drop)
{
	unsigned door = form == SIGHT_FRAME ? SIGHT_ROCE : SIGHT_IB;
	return (f->doors & door) && (f->directions >> d & 1) && (f->points >> p & 1) && (!f->drop || f->drop == drop);
}

static bool wants_all(const struct sight_filter *f)
{
	return !f->by_host && !f->by_group && !f->by_qpn;
}

static bool wanted(const struct sight_filter *f, const struct seen *s, struct ends *e)
{
	if (!wants_such(f, s->point, s->direction, s->form, s->drop))
		return false;
	if (wants_all(f))
		return true;
	if (e->addresses + e->qpns == 0)
		find_ends(e, s);
	return (!f->by_host || ends_have(e, f->host)) && (!f->by_group || ends_have(e, f->group)) &&
	       (!f->by_qpn || ends_have_qpn(e, f->qpn));
}

static void copy(struct sight *slot, uint32_t snap, const struct seen *s, uint64_t tsc)
{
	uint8_t *to = sight_data(slot);
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

/* Puts what is seen behind what is staged in each ring that wants it. */
static void stage(struct sights *all, const struct seen *s)
{
	struct ends e = {.tables = all->tables};
	for (unsigned i = 0; i < all->n; i++) {
		struct sight_ring *r = all->watcher[i].ring;
		if (!wanted(&all->watcher[i].filter, s, &e))
			continue;
		struct sight *slot = r->staged_missed ? NULL : sight_ring_slot(r);
		if (!slot) {
			r->staged_missed |= UINT64_C(1) << s->place;
			continue;
		}
		copy(slot, r->snap, s, rte_rdtsc());
		r->staged++;
	}
}

/* Begins a burst of such packets. False: nobody can have any of them, and they need not be looked at one by one. Who
 * wants all, and has no room for the first, misses all. */
static bool begin(struct sights *all, enum sight_point p, enum direction d, enum sight_form form, enum drop drop)
{
	bool somebody = false;
	for (unsigned i = 0; i < all->n; i++) {
		all->watcher[i].ring->staged = 0;
		all->watcher[i].ring->staged_missed = 0;
		if (!wants_such(&all->watcher[i].filter, p, d, form, drop))
			continue;
		if (wants_all(&all->watcher[i].filter) && !sight_ring_slot(all->watcher[i].ring))
			all->watcher[i].ring->staged_missed = UINT64_MAX;
		else
			somebody = true;
	}
	return somebody;
}

/* Lets out what is staged of the first n of a burst. */
static void let_out(struct sights *all, unsigned n)
{
	uint64_t places = n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
	for (unsigned i = 0; i < all->n; i++) {
		struct sight_ring *r = all->watcher[i].ring;
		uint64_t missed = r->missed + (uint64_t)__builtin_popcountll(r->staged_missed & places);
		uint32_t good = 0, staged = r->staged;
		for (r->staged = 0; good < staged; good++, r->staged++)
			if (sight_ring_slot(r)->place >= n)
				break;
		__atomic_store_n(&r->missed, missed, __ATOMIC_RELAXED);
		sight_ring_publish(r, good);
		r->staged_missed = 0;
	}
}

_Static_assert(BURST <= 64, "places are bits of a word");

static struct sights *sights_of(struct worker *w)
{
	return __atomic_load_n(&w->sights, __ATOMIC_ACQUIRE);
}

static struct sight_ib of_recv(const struct ib_recv *r)
{
	return (struct sight_ib){.qpn = r->qpn,
				 .peer = r->src_qpn,
				 .imm = r->imm,
				 .lid = r->slid,
				 .flags = r->flags,
				 .sl = r->sl,
				 .known = true};
}

static struct sight_ib of_send(const struct ib_send *s, const struct standin_entry *standin)
{
	struct sight_ib ib = {.qp = s->qp,
			      .qpn = standin->qpn,
			      .peer = s->dest_qpn,
			      .qkey = s->dest_qkey,
			      .imm = s->imm,
			      .flow_label = s->ah.flow_label,
			      .lid = s->ah.dlid,
			      .pkey_index = s->pkey_index,
			      .flags = s->flags,
			      .sl = s->ah.sl,
			      .tclass = s->ah.tclass,
			      .hop_limit = s->ah.hop_limit,
			      .source = s->ah.source,
			      .known = true};
	memcpy(ib.dgid, s->ah.dgid, sizeof ib.dgid);
	return ib;
}

void sight_stage(struct worker *w, enum sight_point p, enum direction d, enum drop reason, struct rte_mbuf **m,
		 unsigned n)
{
	struct sights *all = sights_of(w);
	if (!all)
		return;
	for (unsigned i = 0; i < n && p == SIGHT_OWN; i++)
		number(w, m[i]);
	if (!begin(all, p, d, SIGHT_FRAME, reason))
		return;
	for (unsigned i = 0; i < n; i++)
		stage(all, &(struct seen){.mbuf = m[i],
					  .worker = w->id,
					  .point = p,
					  .direction = d,
					  .drop = reason,
					  .form = SIGHT_FRAME,
					  .place = (uint8_t)i});
}

void sight_frames(struct worker *w, struct rte_mbuf **m, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		number(w, m[i]);
	sight_stage(w, SIGHT_RECEIVED, ROCE_TO_IB, PASS, m, n);
	sight_taken(w, n);
}

static void stage_message(struct worker *w, struct sights *all, enum sight_point p, enum drop reason,
			  const struct ib_recv *r, unsigned place)
{
	stage(all, &(struct seen){.mbuf = r->mbuf,
				  .ib = of_recv(r),
				  .worker = w->id,
				  .point = p,
				  .direction = IB_TO_ROCE,
				  .drop = reason,
				  .form = SIGHT_MESSAGE,
				  .place = (uint8_t)place});
}

void sight_messages(struct worker *w, const struct ib_recv *r, unsigned n)
{
	struct sights *all = sights_of(w);
	if (!all)
		return;
	for (unsigned i = 0; i < n; i++)
		number(w, r[i].mbuf);
	bool somebody = begin(all, SIGHT_RECEIVED, IB_TO_ROCE, SIGHT_MESSAGE, PASS);
	for (unsigned i = 0; i < n && somebody; i++)
		stage_message(w, all, SIGHT_RECEIVED, PASS, &r[i], i);
	let_out(all, n);
}

void sight_stage_sends(struct worker *w, const struct burst *b)
{
	struct sights *all = sights_of(w);
	if (!all)
		return;
	if (!begin(all, SIGHT_SENT, ROCE_TO_IB, SIGHT_SEND, PASS))
		return;
	for (unsigned i = 0; i < b->n; i++)
		stage(all, &(struct seen){.mbuf = b->send[i].mbuf,
					  .ib = of_send(&b->send[i], b->lookup.from_entry[i]),
					  .from = &b->lookup.from[i],
					  .to = &b->lookup.to[i],
					  .worker = w->id,
					  .point = SIGHT_SENT,
					  .direction = ROCE_TO_IB,
					  .form = SIGHT_SEND,
					  .place = (uint8_t)i});
}

void sight_taken(struct worker *w, unsigned n)
{
	struct sights *all = sights_of(w);
	if (all)
		let_out(all, n);
}

/* What the Ethernet door did not take is a frame already; what dies before that is as it came. What is dropped on
 * purpose dies before it was received. */
void sight_drop(struct worker *w, enum direction d, enum drop reason, struct rte_mbuf *m)
{
	struct sights *all = sights_of(w);
	if (!all)
		return;
	bool message = d == IB_TO_ROCE && reason != DROP_eth_full;
	if (reason == DROP_injected)
		number(w, m);
	enum sight_form form = message ? SIGHT_MESSAGE : SIGHT_FRAME;
	if (begin(all, SIGHT_DROPPED, d, form, reason))
		stage(all, &(struct seen){.mbuf = m,
					  .worker = w->id,
					  .point = SIGHT_DROPPED,
					  .direction = d,
					  .drop = reason,
					  .form = form});
	let_out(all, 1);
}

void sight_drop_message(struct worker *w, enum drop reason, const struct ib_recv *r)
{
	struct sights *all = sights_of(w);
	if (!all)
		return;
	if (begin(all, SIGHT_DROPPED, IB_TO_ROCE, SIGHT_MESSAGE, reason))
		stage_message(w, all, SIGHT_DROPPED, reason, r, 0);
	let_out(all, 1);
}

void sight_refused(struct sights *s, uint16_t worker, enum drop reason, struct rte_mbuf *m)
{
	if (begin(s, SIGHT_DROPPED, ROCE_TO_IB, SIGHT_FRAME, reason))
		stage(s, &(struct seen){.mbuf = m,
					.worker = worker,
					.point = SIGHT_DROPPED,
					.direction = ROCE_TO_IB,
					.drop = reason,
					.form = SIGHT_FRAME});
	let_out(s, 1);
}

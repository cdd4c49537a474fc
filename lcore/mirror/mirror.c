/* SPDX-License-Identifier: Apache-2.0 */
#include "mirror.h"

#include <rte_cycles.h>
#include <rte_mbuf.h>
#include <string.h>

#include "endpoints.h"
#include "../burst.h"
#include "descriptor.h"
#include "number.h"
#include "place.h"
#include "prefilter.h"
#include "ring.h"

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

/* The 40 bytes before the payload of a message; NULL: they have no network header. */
static const uint8_t *area_of(const struct candidate *s)
{
	bool area = (s->ib.flags & IB_RECV_GRH) && s->mbuf->data_len >= IB_GRH_LEN;
	return area ? rte_pktmbuf_mtod(s->mbuf, const uint8_t *) : NULL;
}

static void find_endpoints(struct endpoints *e, const struct datapath *dp, const struct candidate *s)
{
	const uint8_t *data = rte_pktmbuf_mtod(s->mbuf, const uint8_t *);
	if (s->form == MIRROR_SEND) {
		endpoints_of_send(e, &s->ib, s->from, s->to);
	} else if (s->form == MIRROR_MESSAGE) {
		endpoints_of_message(e, &s->ib, area_of(s));
	} else {
		e->from_key = segment_of_frame(dp, s->mbuf, data, s->mbuf->data_len)->from_key;
		endpoints_of_frame(e, data, s->mbuf->data_len);
	}
}

/* Whether a packet is of the filter's VLAN and Ethernet port: on InfiniBand, of a segment that is. */
static bool is_at_place(const struct mirror_filter *f, const struct datapath *dp, const struct candidate *s)
{
	if (s->form == MIRROR_FRAME)
		return is_frame_at(f, dp, s->mbuf);
	unsigned segments = segments_at(f, dp);
	if (s->form == MIRROR_SEND)
		return segments >> segment_of_key(s->from) & 1;
	return segments_of_message(dp->tables, s->ib.qpn, area_of(s)) & segments;
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
	return !f->by_host && !f->by_group && !f->by_qpn && !f->by_vlan && !f->by_port;
}

static bool wanted(const struct mirror_filter *f, const struct datapath *dp, const struct candidate *s,
		   struct endpoints *e)
{
	if ((f->by_vlan || f->by_port) && !is_at_place(f, dp, s))
		return false;
	if (!f->by_host && !f->by_group && !f->by_qpn)
		return true;
	if (e->addresses + e->qpns == 0)
		find_endpoints(e, dp, s);
	return (!f->by_host || endpoints_have(e, f->host)) && (!f->by_group || endpoints_have(e, f->group)) &&
	       (!f->by_qpn || endpoints_have_qpn(e, f->qpn));
}

static void copy(struct mirrored_packet *slot, const struct datapath *dp, uint32_t snap, const struct candidate *s)
{
	uint8_t *to = mirror_data(slot);
	slot->tsc = rte_rdtsc();
	slot->packet = *number_of(s->mbuf);
	slot->len = s->mbuf->pkt_len;
	slot->kept = RTE_MIN(s->mbuf->pkt_len, snap);
	slot->worker = s->worker;
	slot->direction = (uint8_t)s->direction;
	slot->point = (uint8_t)s->point;
	slot->drop = (uint8_t)s->drop;
	slot->form = (uint8_t)s->form;
	slot->port = s->form == MIRROR_FRAME ? (uint8_t)port_index(dp, s->mbuf) : 0;
	slot->place = s->place;
	slot->ib = s->ib;
	const uint8_t *from = rte_pktmbuf_read(s->mbuf, 0, slot->kept, to);
	if (from && from != to)
		memcpy(to, from, slot->kept);
}

/* Which packets of a burst each mirror may want, as bits by their place. */
struct selection {
	uint64_t any; /* mirror wants */
	uint64_t by[MAX_MIRRORS];
	bool filtered; /* words of the packets tell more */
	bool by_qpn;   /* their QPNs do, too */
};

/* Stages a packet in the ring of each mirror that may want it and whose filter it passes. */
static void stage(struct mirrors *all, const struct selection *selected, const struct candidate *s)
{
	struct endpoints e = {.tables = all->datapath->tables};
	for (unsigned i = 0; i < all->n; i++) {
		struct mirror_ring *r = all->mirror[i].ring;
		if (!(selected->by[i] >> s->place & 1) || !wanted(&all->mirror[i].filter, all->datapath, s, &e))
			continue;
		struct mirrored_packet *slot = r->staged_missed ? NULL : mirror_ring_slot(r);
		if (!slot) {
			r->staged_missed |= UINT64_C(1) << s->place;
			continue;
		}
		copy(slot, all->datapath, r->snap, s);
		r->staged++;
	}
}

/* The places below n. */
static uint64_t places(unsigned n)
{
	return n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
}

/* Begins a burst of n such packets: all of them for each mirror that can take some. False: no mirror can. A mirror that
 * wants all packets and has no room for the first misses all. */
static bool begin(struct mirrors *all, struct selection *s, enum mirror_point p, enum direction d,
		  enum mirror_form form, enum drop drop, unsigned n)
{
	memset(s, 0, sizeof *s);
	for (unsigned i = 0; i < all->n; i++) {
		const struct mirror_filter *f = &all->mirror[i].filter;
		all->mirror[i].ring->staged = 0;
		all->mirror[i].ring->staged_missed = 0;
		if (!wants_such(f, p, d, form, drop) || (p == MIRROR_SENT && all->mirror[i].absent[d]))
			continue;
		if (wants_all(f) && !mirror_ring_slot(all->mirror[i].ring)) {
			all->mirror[i].ring->staged_missed = UINT64_MAX;
			continue;
		}
		s->by[i] = places(n);
		s->filtered |= !wants_all(f);
		s->by_qpn |= f->by_qpn;
	}
	for (unsigned i = 0; i < all->n; i++)
		s->any |= s->by[i];
	return s->any != 0;
}

/* Takes out of a selection what the words of its n packets rule out. */
static void narrow(struct mirrors *all, struct selection *s, const struct mirror_words *w, unsigned n)
{
	s->any = 0;
	for (unsigned i = 0; i < all->n; i++) {
		const struct mirror_filter *f = &all->mirror[i].filter;
		if (s->by[i] && !wants_all(f))
			s->by[i] &= prefilter(&all->mirror[i].prefilter, f, all->datapath->tables, w, n);
		s->any |= s->by[i];
	}
}

/* Notes which mirrors' hosts have no part in a burst that was received: nor have they in what is sent of it. begun is
 * the selection before it was narrowed. Returns whether that is so of all mirrors. */
static bool note_absent(struct mirrors *all, enum direction d, const struct selection *begun, const struct selection *s)
{
	bool absent = true;
	for (unsigned i = 0; i < all->n; i++)
		absent &= all->mirror[i].absent[d] = all->mirror[i].filter.by_host && begun->by[i] && !s->by[i];
	return absent;
}

/* The next of the packets that are selected. */
static unsigned next_of(uint64_t *rest)
{
	uint64_t was = *rest;
	*rest = was & (was - 1);
	return (unsigned)__builtin_ctzll(was);
}

/* Publishes those staged of the first n of a burst. */
static void publish_taken(struct mirrors *all, unsigned n)
{
	for (unsigned i = 0; i < all->n; i++) {
		struct mirror_ring *r = all->mirror[i].ring;
		uint64_t missed = r->missed + (uint64_t)__builtin_popcountll(r->staged_missed & places(n));
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

/* Takes out of a selection what the frames themselves rule out. */
static void narrow_frames(struct mirrors *all, struct selection *s, struct rte_mbuf **m, unsigned n)
{
	struct mirror_words words;
	if (!s->filtered)
		return;
	words.with_qpns = s->by_qpn;
	words_of_frames(&words, m, n);
	narrow(all, s, &words, n);
}

static void stage_frames(struct mirrors *all, struct selection *s, const struct candidate *like, struct rte_mbuf **m)
{
	while (s->any) {
		struct candidate c = *like;
		c.place = (uint8_t)next_of(&s->any);
		c.mbuf = m[c.place];
		stage(all, s, &c);
	}
}

void mirror_stage(struct worker *w, enum mirror_point p, enum direction d, enum drop reason, struct rte_mbuf **m,
		  unsigned n)
{
	struct mirrors *all = mirrors_of(w);
	struct selection s;
	if (!all)
		return;
	if (p == MIRROR_OWN)
		number_frames(w, m, n);
	if (!begin(all, &s, p, d, MIRROR_FRAME, reason, n))
		return;
	narrow_frames(all, &s, m, n);
	stage_frames(all, &s, &(struct candidate){.worker = w->id, .point = p, .direction = d, .drop = reason}, m);
}

/* Packets of a burst that no mirror can want need no numbers, which are in a cache line that nothing else uses. */
void mirror_frames(struct worker *w, struct rte_mbuf **m, unsigned n)
{
	struct mirrors *all = mirrors_of(w);
	struct selection s, begun;
	if (!all)
		return;
	begin(all, &s, MIRROR_RECEIVED, ROCE_TO_IB, MIRROR_FRAME, PASS, n);
	begun = s;
	narrow_frames(all, &s, m, n);
	if (note_absent(all, ROCE_TO_IB, &begun, &s))
		return;
	number_frames(w, m, n);
	stage_frames(all, &s, &(struct candidate){.worker = w->id, .point = MIRROR_RECEIVED, .direction = ROCE_TO_IB},
		     m);
	publish_taken(all, n);
}

/* Selects among messages, as far as they themselves rule out. Returns whether some mirror may want what becomes of
 * them. */
static bool select_messages(struct mirrors *all, struct selection *s, enum mirror_point p, enum drop reason,
			    const struct ib_recv *r, unsigned n)
{
	struct mirror_words words;
	bool some = begin(all, s, p, IB_TO_ROCE, MIRROR_MESSAGE, reason, n);
	const struct selection begun = *s;
	if (some && s->filtered) {
		words.with_qpns = s->by_qpn;
		words_of_messages(&words, all, r, n);
		narrow(all, s, &words, n);
	}
	return p != MIRROR_RECEIVED || !note_absent(all, IB_TO_ROCE, &begun, s);
}

static void stage_messages(const struct worker *w, struct mirrors *all, struct selection *s, enum mirror_point p,
			   enum drop reason, const struct ib_recv *r, unsigned n)
{
	const struct tables *t = w->datapath->tables;
	while (s->any) {
		unsigned i = next_of(&s->any);
		stage(all, s,
		      &(struct candidate){.mbuf = r[i].mbuf,
					  .ib = mirror_ib_of_recv(t, &r[i]),
					  .worker = w->id,
					  .point = p,
					  .direction = IB_TO_ROCE,
					  .drop = reason,
					  .form = MIRROR_MESSAGE,
					  .place = (uint8_t)i});
	}
	publish_taken(all, n);
}

void mirror_messages(struct worker *w, const struct ib_recv *r, unsigned n)
{
	struct mirrors *all = mirrors_of(w);
	struct selection s;
	if (!all || !select_messages(all, &s, MIRROR_RECEIVED, PASS, r, n))
		return;
	number_messages(w, r, n);
	stage_messages(w, all, &s, MIRROR_RECEIVED, PASS, r, n);
}

void mirror_stage_sends(struct worker *w, const struct burst *b)
{
	struct mirrors *all = mirrors_of(w);
	struct mirror_words words;
	struct selection s;
	if (!all)
		return;
	if (b->began == LATENCY_WAITED) /* requeued packets are not of the burst that was received last */
		note_absent(all, ROCE_TO_IB, &(struct selection){0}, &(struct selection){0});
	if (begin(all, &s, MIRROR_SENT, ROCE_TO_IB, MIRROR_SEND, PASS, b->n) && s.filtered) {
		words.with_qpns = s.by_qpn;
		words_of_sends(&words, b);
		narrow(all, &s, &words, b->n);
	}
	while (s.any) {
		unsigned i = next_of(&s.any);
		stage(all, &s,
		      &(struct candidate){.mbuf = b->send[i].mbuf,
					  .ib = mirror_ib_of_send(&b->send[i], b->lookup.from_entry[i]),
					  .from = &b->lookup.from[i],
					  .to = &b->lookup.to[i],
					  .worker = w->id,
					  .point = MIRROR_SENT,
					  .direction = ROCE_TO_IB,
					  .form = MIRROR_SEND,
					  .place = (uint8_t)i});
	}
}

void mirror_taken(struct worker *w, unsigned n)
{
	struct mirrors *all = mirrors_of(w);
	if (all)
		publish_taken(all, n);
}

/* One packet, without a descriptor, that is dropped. */
static void stage_drop(struct mirrors *all, const struct candidate *c)
{
	struct selection s;
	bool begun = begin(all, &s, MIRROR_DROPPED, c->direction, c->form, c->drop, 1);
	if (begun && c->form == MIRROR_FRAME) {
		narrow_frames(all, &s, (struct rte_mbuf *[]){c->mbuf}, 1);
		stage_frames(all, &s, c, (struct rte_mbuf *[]){c->mbuf});
	} else if (begun) {
		stage(all, &s, c);
	}
	publish_taken(all, 1);
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
	stage_drop(all, &(struct candidate){.mbuf = m,
					    .worker = w->id,
					    .point = MIRROR_DROPPED,
					    .direction = d,
					    .drop = reason,
					    .form = message ? MIRROR_MESSAGE : MIRROR_FRAME});
}

void mirror_drop_message(struct worker *w, enum drop reason, const struct ib_recv *r)
{
	struct mirrors *all = mirrors_of(w);
	struct selection s;
	if (all && select_messages(all, &s, MIRROR_DROPPED, reason, r, 1))
		stage_messages(w, all, &s, MIRROR_DROPPED, reason, r, 1);
}

void mirror_punted_drop(struct mirrors *s, uint16_t worker, enum drop reason, struct rte_mbuf *m)
{
	stage_drop(s, &(struct candidate){.mbuf = m,
					  .worker = worker,
					  .point = MIRROR_DROPPED,
					  .direction = ROCE_TO_IB,
					  .drop = reason,
					  .form = MIRROR_FRAME});
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "pgm.h"

#include <rte_branch_prediction.h>
#include <string.h>

#include "sequence.h"

__extension__ typedef unsigned __int128 u128;

static uint32_t sets_of(const struct pgm_config *c)
{
	uint32_t n = 1;
	while (n * PGM_WAYS < c->streams)
		n *= 2;
	return n;
}

size_t pgm_bytes(const struct pgm_config *c)
{
	if (c->streams == 0 || c->streams > PGM_STREAMS_MOST)
		return 0;
	return sizeof(struct pgm) + sets_of(c) * sizeof(struct pgm_set);
}

struct pgm *pgm_init(void *memory, const struct pgm_config *c)
{
	struct pgm *p = memory;
	memset(p, 0, pgm_bytes(c));
	p->config = *c;
	p->mask = sets_of(c) - 1;
	return p;
}

uint32_t pgm_places(const struct pgm *p)
{
	return (p->mask + 1) * PGM_WAYS;
}

/* Never 0. */
static inline uint64_t where_of(uint32_t group, uint8_t direction)
{
	return (uint64_t)group << 32 | (uint64_t)(direction & 1) << 1 | 1;
}

static inline struct pgm_set *set_of(struct pgm *p, uint64_t tsi, uint64_t where)
{
	u128 x = (u128)(tsi ^ p->config.seed[0]) * (where ^ p->config.seed[1]);
	uint64_t h = ((uint64_t)x ^ (uint64_t)(x >> 64)) * UINT64_C(0x9e3779b97f4a7c15);
	return &p->set[h >> 32 & p->mask];
}

static inline int way_of(const struct pgm_set *t, uint64_t tsi, uint64_t where)
{
	for (int i = 0; i < PGM_WAYS; i++)
		if (t->tsi[i] == tsi && t->where[i] == where)
			return i;
	return -1;
}

/* From here until close_stream() readers retry. */
static inline void open_stream(struct pgm_stream *s)
{
	PGM_PUT(s->version, s->version + 1);
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void close_stream(struct pgm_stream *s)
{
	__atomic_store_n(&s->version, s->version + 1, __ATOMIC_RELEASE);
}

/* Everything but the version becomes zero. The stream is open. */
static void empty(struct pgm_stream *s)
{
	uint64_t *words = (uint64_t *)(void *)s;
	PGM_PUT(s->lead, 0);
	for (unsigned i = 1; i < sizeof *s / sizeof *words; i++)
		PGM_PUT(words[i], 0);
}

static void drop_stream(struct pgm *p, struct pgm_set *t, int way, uint64_t *why)
{
	t->where[way] = 0;
	open_stream(&t->stream[way]);
	empty(&t->stream[way]);
	close_stream(&t->stream[way]);
	PGM_PUT(*why, *why + 1);
	PGM_PUT(p->streams, p->streams - 1);
}

static inline bool silent(const struct pgm *p, const struct pgm_stream *s, uint64_t tsc)
{
	return p->config.idle && tsc > s->seen && tsc - s->seen > p->config.idle;
}

static void drop_silent(struct pgm *p, struct pgm_set *t, uint64_t tsc)
{
	for (int i = 0; i < PGM_WAYS; i++)
		if (t->where[i] && silent(p, &t->stream[i], tsc))
			drop_stream(p, t, i, &p->aged);
}

/* Checks a set now and then, so that idle streams are removed even when no stream needs their place. */
static inline void sweep(struct pgm *p, uint64_t tsc)
{
	uint32_t n = p->sweep++;
	if (unlikely(n % PGM_SWEEP == 0))
		drop_silent(p, &p->set[n / PGM_SWEEP & p->mask], tsc);
}

/* Which of two streams is evicted first: one of a single packet, then the one idle for longer. */
static bool goes_first(const struct pgm_stream *a, const struct pgm_stream *b)
{
	uint32_t again_a = a->flags & PGM_AGAIN, again_b = b->flags & PGM_AGAIN;
	return again_a != again_b ? again_a < again_b : a->seen < b->seen;
}

/* A free place in the set; evicts a stream if need be. */
static int make_room(struct pgm *p, struct pgm_set *t, uint64_t tsc)
{
	int first = 0;
	drop_silent(p, t, tsc);
	for (int i = 0; i < PGM_WAYS; i++) {
		if (t->where[i] == 0)
			return i;
		if (goes_first(&t->stream[i], &t->stream[first]))
			first = i;
	}
	drop_stream(p, t, first, &p->evicted);
	return first;
}

/* Leaves the new stream open. */
static struct pgm_stream *new_stream(struct pgm *p, struct pgm_set *t, const struct pgm_packet *k, uint64_t where,
				     uint64_t tsc)
{
	int way = make_room(p, t, tsc);
	struct pgm_stream *s = &t->stream[way];
	t->tsi[way] = k->tsi;
	t->where[way] = where;
	open_stream(s);
	PGM_PUT(s->tsi, k->tsi);
	PGM_PUT(s->where, where);
	PGM_PUT(s->since, tsc);
	PGM_PUT(s->dport, k->dport);
	PGM_PUT(p->begun, p->begun + 1);
	PGM_PUT(p->streams, p->streams + 1);
	return s;
}

/* The counters of each packet type. */
static const struct {
	uint8_t packets, sqns;
} counted[PGM_TYPES] = {
	[PGM_SPM] = {PGM_COUNT_spm, 0},     [PGM_POLL] = {PGM_COUNT_poll, 0},
	[PGM_POLR] = {PGM_COUNT_polr, 0},   [PGM_ODATA] = {PGM_COUNT_odata, 0},
	[PGM_RDATA] = {PGM_COUNT_rdata, 0}, [PGM_NAK] = {PGM_COUNT_nak, PGM_COUNT_nak_sqns},
	[PGM_NNAK] = {PGM_COUNT_nnak, 0},   [PGM_NCF] = {PGM_COUNT_ncf, PGM_COUNT_ncf_sqns},
	[PGM_SPMR] = {PGM_COUNT_spmr, 0},   [PGM_ACK] = {PGM_COUNT_ack, 0},
};

/* Fields that few packets have. */
static void note(struct pgm_pen w, const struct pgm_packet *k)
{
	struct pgm_stream *s = w.stream;
	if (k->options & ~s->options)
		PGM_PUT(s->options, s->options | k->options);
	if (k->unknown) {
		pgm_add(w, PGM_COUNT_unknown, k->unknown);
		PGM_PUT(s->unknown_type, k->unknown_type);
	}
	if (k->unsummed)
		pgm_add(w, PGM_COUNT_unsummed, 1);
	if (k->trailing)
		pgm_add(w, PGM_COUNT_trailing, 1);
	if (k->options & UINT32_C(1) << PGM_OPT_FIN)
		pgm_set_flags(w, PGM_FINISHED);
	if (k->options & UINT32_C(1) << PGM_OPT_RST)
		pgm_set_flags(w, PGM_RESET);
}

static void see_packet(struct pgm_pen w, const struct pgm_packet *k)
{
	pgm_add(w, counted[k->type].packets, 1);
	if (k->sqns && counted[k->type].sqns)
		pgm_add(w, counted[k->type].sqns, k->sqns);
	if (k->type == PGM_ODATA || k->type == PGM_RDATA)
		pgm_see_data(w, k);
	else if (k->type == PGM_SPM)
		pgm_see_spm(w, k);
	if (k->options | k->unknown | k->unsummed | k->trailing)
		note(w, k);
}

/* A malformed packet creates no stream: it is counted in one that exists. */
static void see_malformed(struct pgm *p, const struct pgm_packet *k, enum pgm_fault f, uint64_t where)
{
	struct pgm_totals *totals = &p->totals[where >> 1 & 1];
	PGM_PUT(totals->faults[f], totals->faults[f] + 1);
	if (k->tsi == 0)
		return;
	struct pgm_set *t = set_of(p, k->tsi, where);
	int way = way_of(t, k->tsi, where);
	if (way < 0)
		return;
	struct pgm_pen w = {&t->stream[way], totals};
	open_stream(w.stream);
	pgm_add(w, PGM_COUNT_malformed, 1);
	close_stream(w.stream);
}

void pgm_see(struct pgm *p, const uint8_t *payload, uint32_t len, uint32_t group, uint8_t direction, uint64_t tsc)
{
	struct pgm_packet k;
	uint64_t where = where_of(group, direction);
	sweep(p, tsc);
	enum pgm_fault f = pgm_parse(&k, payload, len, p->config.checksum);
	if (unlikely(f)) {
		see_malformed(p, &k, f, where);
		return;
	}
	struct pgm_set *t = set_of(p, k.tsi, where);
	int way = way_of(t, k.tsi, where);
	struct pgm_pen w = {NULL, &p->totals[direction & 1]};
	if (likely(way >= 0)) {
		w.stream = &t->stream[way];
		open_stream(w.stream);
		if (unlikely(!(w.stream->flags & PGM_AGAIN)))
			pgm_set_flags(w, PGM_AGAIN);
	} else {
		w.stream = new_stream(p, t, &k, where, tsc);
	}
	PGM_PUT(w.stream->seen, tsc);
	see_packet(w, &k);
	close_stream(w.stream);
}

/* The copy is made of whole words; a stream's version says whether they belong together. */
enum pgm_read pgm_read(const struct pgm *p, uint32_t place, struct pgm_stream *out)
{
	enum { TRIES = 10000 };
	const struct pgm_stream *s = &p->set[place / PGM_WAYS & p->mask].stream[place % PGM_WAYS];
	const uint64_t *from = (const uint64_t *)(const void *)s;
	uint64_t *to = (uint64_t *)(void *)out;
	for (int i = 0; i < TRIES; i++) {
		uint32_t version = __atomic_load_n(&s->version, __ATOMIC_ACQUIRE);
		if (version & 1)
			continue;
		for (unsigned j = 0; j < sizeof *s / sizeof *to; j++)
			to[j] = __atomic_load_n(&from[j], __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&s->version, __ATOMIC_RELAXED) == version)
			return out->where ? PGM_READ : PGM_NOTHING;
	}
	return PGM_BUSY;
}

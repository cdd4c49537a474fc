/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a number lies relative to the newest, lead, by serial arithmetic (RFC 1982):
 *
 *   far │ old                 │ window            │ next │ a gap before it  │ far
 *       lead - PGM_JUMP       lead - depth        lead   lead + 1           lead + PGM_JUMP
 *
 * An old or far packet changes nothing, unless several such packets are consecutive: then the source has restarted, and
 * the stream restarts, too. So one forged packet cannot move the sequence further than PGM_JUMP.
 */
#include "sequence.h"

static inline int32_t serial(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b);
}

static inline uint64_t *word_of(struct pgm_stream *s, uint32_t sqn)
{
	return &s->bits[sqn / 64 % (PGM_WINDOW / 64)];
}

static inline bool has_come(struct pgm_stream *s, uint32_t sqn)
{
	return *word_of(s, sqn) >> sqn % 64 & 1;
}

static inline void mark(struct pgm_stream *s, uint32_t sqn)
{
	uint64_t *word = word_of(s, sqn);
	PGM_PUT(*word, *word | UINT64_C(1) << sqn % 64);
}

/* Clears n numbers from sqn on, a word at a time. */
static void clear(struct pgm_stream *s, uint32_t sqn, uint32_t n)
{
	if (n > PGM_WINDOW)
		n = PGM_WINDOW;
	while (n > 0) {
		uint32_t some = 64 - sqn % 64;
		if (some > n)
			some = n;
		uint64_t *word = word_of(s, sqn), ones = some == 64 ? UINT64_MAX : (UINT64_C(1) << some) - 1;
		PGM_PUT(*word, *word & ~(ones << sqn % 64));
		sqn += some;
		n -= some;
	}
}

/* Makes sqn the newest, n further than it was. */
static inline void advance(struct pgm_stream *s, uint32_t sqn, uint32_t n)
{
	uint32_t depth = s->depth + n;
	PGM_PUT(s->lead, sqn);
	PGM_PUT(s->depth, depth < PGM_WINDOW ? depth : PGM_WINDOW);
}

/* Begins with sqn, of which depth says whether it has come itself. */
static void begin(struct pgm_stream *s, uint32_t sqn, uint32_t trail, uint32_t depth)
{
	PGM_PUT(s->lead, sqn);
	PGM_PUT(s->trail, trail);
	PGM_PUT(s->depth, depth);
	PGM_PUT(s->run.n, 0);
	PGM_PUT(s->flags, (s->flags | PGM_BEGUN) & ~(uint32_t)(PGM_FINISHED | PGM_RESET));
	if (depth)
		mark(s, sqn);
}

/* Anew: the SPMs' numbers too. */
static void restart(struct pgm_pen w, const struct pgm_packet *k)
{
	pgm_add(w, PGM_COUNT_restarts, 1);
	PGM_PUT(w.stream->flags, w.stream->flags & ~(uint32_t)PGM_SPM_SEEN);
	begin(w.stream, k->sqn, k->trail, 1);
}

/* Whether enough numbers that do not fit follow each other. */
static bool proven(struct pgm_run *r, uint32_t sqn)
{
	uint32_t n = r->n && sqn == r->next ? r->n + 1 : 1;
	PGM_PUT(r->next, sqn + 1);
	PGM_PUT(r->n, n);
	return n >= PGM_PROOF;
}

static inline void move_trail(struct pgm_stream *s, uint32_t trail)
{
	int32_t d = serial(trail, s->trail);
	if (d > 0 && d <= PGM_JUMP)
		PGM_PUT(s->trail, trail);
}

/* A number that is not near. Repairs are of old data by nature, and so prove nothing; OPT_SYN on original data is the
 * source's own word that it begins here (RFC 3208 §9.6). */
static void see_stray(struct pgm_pen w, const struct pgm_packet *k, enum pgm_count what)
{
	if (k->type != PGM_ODATA) {
		pgm_add(w, what, 1);
		return;
	}
	if (k->options & UINT32_C(1) << PGM_OPT_SYN || proven(&w.stream->run, k->sqn))
		restart(w, k);
	else
		pgm_add(w, what, 1);
}

/* Newer than all before, by d. */
static void see_newer(struct pgm_pen w, const struct pgm_packet *k, uint32_t d)
{
	struct pgm_stream *s = w.stream;
	if (d > 1) {
		if (k->type == PGM_ODATA && k->options & UINT32_C(1) << PGM_OPT_SYN) {
			restart(w, k);
			return;
		}
		pgm_add(w, PGM_COUNT_gaps, 1);
		pgm_add(w, PGM_COUNT_missed, d - 1);
		clear(s, s->lead + 1, d - 1);
	}
	advance(s, k->sqn, d);
	mark(s, k->sqn);
}

/* In the window. */
static void see_known(struct pgm_pen w, const struct pgm_packet *k)
{
	bool repair = k->type == PGM_RDATA;
	if (has_come(w.stream, k->sqn)) {
		pgm_add(w, repair ? PGM_COUNT_repeated : PGM_COUNT_duplicates, 1);
		return;
	}
	pgm_add(w, repair ? PGM_COUNT_repaired : PGM_COUNT_late, 1);
	mark(w.stream, k->sqn);
}

static void place(struct pgm_pen w, const struct pgm_packet *k)
{
	struct pgm_stream *s = w.stream;
	int32_t d = serial(k->sqn, s->lead);
	if (d > PGM_JUMP || d < -PGM_JUMP) {
		see_stray(w, k, PGM_COUNT_far);
		return;
	}
	if (d <= 0 && (uint32_t)-d >= s->depth) {
		see_stray(w, k, PGM_COUNT_old);
		return;
	}
	if (s->run.n)
		PGM_PUT(s->run.n, 0);
	if (d > 0)
		see_newer(w, k, (uint32_t)d);
	else
		see_known(w, k);
	move_trail(s, k->trail);
}

/* Parity packets carry a transmission group's number, not one of their own. */
void pgm_see_data(struct pgm_pen w, const struct pgm_packet *k)
{
	pgm_add(w, PGM_COUNT_bytes, k->bytes);
	if (k->parity) {
		pgm_add(w, PGM_COUNT_parity, 1);
		return;
	}
	if (serial(k->sqn, k->trail) < 0) {
		pgm_add(w, PGM_COUNT_window, 1);
		return;
	}
	if (w.stream->flags & PGM_BEGUN)
		place(w, k);
	else
		begin(w.stream, k->sqn, k->trail, 1);
}

/* Whether an SPM is newer than all before. */
static bool spm_is_news(struct pgm_pen w, const struct pgm_packet *k)
{
	struct pgm_stream *s = w.stream;
	int32_t d = serial(k->sqn, s->spm);
	if (!(s->flags & PGM_SPM_SEEN)) {
		pgm_set_flags(w, PGM_SPM_SEEN);
	} else if (d <= 0 || d > PGM_JUMP) {
		if (!proven(&s->spm_run, k->sqn)) {
			pgm_add(w, d > 0 || d < -PGM_JUMP ? PGM_COUNT_far : PGM_COUNT_spm_late, 1);
			return false;
		}
	} else if (d > 1) {
		pgm_add(w, PGM_COUNT_spm_missed, (uint32_t)d - 1);
	}
	PGM_PUT(s->spm_run.n, 0);
	PGM_PUT(s->spm, k->sqn);
	return true;
}

static void take_nla(struct pgm_stream *s, const struct pgm_packet *k)
{
	PGM_PUT(s->afi, k->afi);
	for (unsigned i = 0; i < sizeof s->nla; i++)
		PGM_PUT(s->nla[i], i < (k->afi == 1 ? 4u : 16u) ? k->nla[i] : 0);
}

/* An SPM says how far the source is: what lies between that and us has been lost, or will be late. A source that has
 * sent nothing yet has its lead just before its trail. */
void pgm_see_spm(struct pgm_pen w, const struct pgm_packet *k)
{
	struct pgm_stream *s = w.stream;
	if (!spm_is_news(w, k))
		return;
	if (serial(k->lead, k->trail) < -1) {
		pgm_add(w, PGM_COUNT_window, 1);
		return;
	}
	take_nla(s, k);
	if (!(s->flags & PGM_BEGUN)) {
		begin(s, k->lead, k->trail, 0);
		return;
	}
	move_trail(s, k->trail);
	int32_t d = serial(k->lead, s->lead);
	if (d <= 0 || d > PGM_JUMP)
		return;
	pgm_add(w, PGM_COUNT_gaps, 1);
	pgm_add(w, PGM_COUNT_missed, (uint32_t)d);
	clear(s, s->lead + 1, (uint32_t)d);
	advance(s, k->lead, (uint32_t)d);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The sequence numbers of one stream. The caller has made the stream's version odd. */
#ifndef CAUSEWAY_PGM_SEQUENCE_H
#define CAUSEWAY_PGM_SEQUENCE_H

#include "stream.h"

/* A stream that is being written, and where its direction is summed up. */
struct pgm_pen {
	struct pgm_stream *stream;
	struct pgm_totals *totals;
};

/* A word that others may be reading. */
#define PGM_PUT(word, value) __atomic_store_n(&(word), (value), __ATOMIC_RELAXED)

static inline void pgm_add(struct pgm_pen w, enum pgm_count c, uint64_t n)
{
	PGM_PUT(w.stream->counts[c], w.stream->counts[c] + n);
	PGM_PUT(w.totals->counts[c], w.totals->counts[c] + n);
}

static inline void pgm_set_flags(struct pgm_pen w, uint32_t flags)
{
	PGM_PUT(w.stream->flags, w.stream->flags | flags);
}

/* sequence.c: ODATA and RDATA. */
void pgm_see_data(struct pgm_pen w, const struct pgm_packet *k);

/* sequence.c: SPM. */
void pgm_see_spm(struct pgm_pen w, const struct pgm_packet *k);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers by which copies of one packet are known as such. They are in the packet's mbuf, and never zero. */
#ifndef CAUSEWAY_MIRROR_NUMBER_H
#define CAUSEWAY_MIRROR_NUMBER_H

#include <rte_mbuf_dyn.h>

#include "../worker.h"

/* Registers the mbuf field for a packet's number. Before the first mirror; 0 or a negative errno. */
int mirror_prepare(void);

/* The same without an EAL: offset is that of eight free bytes in an mbuf. */
void mirror_prepare_at(int offset);

/* The offset of a packet's number in its mbuf; negative: it has none yet. */
extern int number_at;

static inline uint64_t *number_of(struct rte_mbuf *m)
{
	return RTE_MBUF_DYNFIELD(m, number_at, uint64_t *);
}

static inline uint64_t numbered(const struct worker *w, uint64_t packets)
{
	return (uint64_t)(w->id + 1) << 48 | (packets & UINT64_C(0xffffffffffff));
}

static inline void number(struct worker *w, struct rte_mbuf *m)
{
	*number_of(m) = numbered(w, ++w->packets_numbered);
}

void number_frames(struct worker *w, struct rte_mbuf **m, unsigned n);
void number_messages(struct worker *w, const struct ib_recv *r, unsigned n);

#endif

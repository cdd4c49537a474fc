/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the copies of a message that several members bring, by a number that its sender gave it. The n-th time that a
 * member brings a number is a copy if another one has brought it n times: what the sender sends again, each fabric
 * carries again, and it passes once. Numbers are remembered until another one needs their place in the window.
 */
#include <rte_byteorder.h>
#include <rte_mbuf.h>
#include <string.h>

#include "multipath.h"

struct numbered {
	struct stream_key of;
	uint32_t number;
};

static bool number_imm(struct numbered *n, const struct ib_recv *r)
{
	n->number = r->imm;
	return r->flags & IB_RECV_IMM;
}

/* Header: ports 4, type 1, options 1, checksum 2, GSI 6, TSDU length 2; then the sequence number of all types that have
 * one. Each type counts for itself. */
static bool number_pgm(struct numbered *n, const struct ib_recv *r)
{
	enum { TYPE = 4, GSI = 8, SQN = 16, LEN = 20 };
	const uint8_t *p = rte_pktmbuf_mtod_offset(r->mbuf, const uint8_t *, IB_GRH_LEN);
	uint8_t *own = (uint8_t *)n->of.own;
	uint32_t sqn;

	if (r->mbuf->data_len < IB_GRH_LEN + LEN)
		return false;
	memcpy(own, p, TYPE);
	own[TYPE] = p[TYPE] & 0xf; /* options and checksum differ between messages */
	memcpy(own + 8, p + GSI, 6);
	memcpy(&sqn, p + SQN, 4);
	n->number = rte_be_to_cpu_32(sqn);
	return true;
}

static bool is(const struct stream *s, const struct stream_key *key)
{
	return s->used && memcmp(&s->key, key, sizeof(*key)) == 0;
}

/* Finds a stream, or puts it in the place of the one that was silent for longest. */
static struct stream *stream_of(struct end *e, const struct stream_key *k)
{
	uint64_t h = (k->from[0] ^ k->from[1] * 3 ^ k->own[0] * 5 ^ k->own[1] * 7 ^ k->to) * 0x9e3779b97f4a7c15;
	struct stream *set = e->stream[h >> 60], *oldest = &set[0];
	_Static_assert(DEDUP_SETS == 16, "four bits choose a set");

	for (unsigned i = 0; i < DEDUP_WAYS; i++) {
		if (is(&set[i], k))
			return &set[i];
		if (set[i].used < oldest->used)
			oldest = &set[i];
	}
	if (oldest->used)
		multipath_count(&e->replaced, 1);
	oldest->key = *k;
	memset(oldest->seen, 0, DEDUP_WINDOW * sizeof(*oldest->seen));
	return oldest;
}

bool multipath_seen(struct end *e, uint32_t to, unsigned member, uint32_t tell, const struct ib_recv *r)
{
	struct numbered n = {.of = {.to = to, .tell = tell}};

	if (!(tell == TELL_IMM ? number_imm(&n, r) : number_pgm(&n, r)))
		return false;
	memcpy(n.of.from, rte_pktmbuf_mtod_offset(r->mbuf, uint8_t *, 8), sizeof(n.of.from));
	struct stream *s = stream_of(e, &n.of);
	struct seen *seen = &s->seen[n.number % DEDUP_WINDOW];
	s->used = ++e->clock;
	if (seen->number != n.number)
		*seen = (struct seen){.number = n.number};
	uint8_t others = 0, mine = seen->times[member] + (seen->times[member] != UINT8_MAX);
	for (unsigned m = 0; m < MULTIPATH_PORTS; m++)
		if (m != member && seen->times[m] > others)
			others = seen->times[m];
	seen->times[member] = mine;
	return mine <= others;
}

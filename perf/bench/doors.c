/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A round is 64 messages: the door's calls, one after the other as a worker makes them, then the far side. The
 * time-stamp counter is read once a stretch, since the CPU runs ahead: over shorter ones, it would tell little of a
 * call. Rounds in which the CPU was taken away do not count.
 */
#include "doors.h"

#include <errno.h>
#include <rte_cycles.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <stdlib.h>
#include <string.h>

#include "ibside/door.h"
#include "ibside/fabric/door/rings.h"
#include "perf/nullverbs/nullverbs.h"

enum { ROUND = 64, WARM_ROUNDS = 1 << 9 };

uint64_t door_counts(void)
{
	return rte_get_tsc_hz();
}

/* What stays the same from burst to burst. */
struct round {
	struct ib_send send[ROUND];         /* what is sent to each peer */
	struct door_received in[ROUND];     /* what comes from the embedded subnet */
	uint8_t bytes[ROUND * (40 + 4096)]; /* payloads, on either way */
	struct door_sent sent[ROUND];
};

static struct round *round_new(const struct door_loop *l)
{
	struct round *r = calloc(1, sizeof *r);
	if (!r)
		return NULL;
	for (unsigned i = 0; i < ROUND; i++)
		r->send[i] = (struct ib_send){
			.ah = nullverbs_peer(i % DOOR_PEERS),
			.qp = l->null ? nullverbs_handle(l->null, i % l->qps) : 1 + i % l->qps,
			.dest_qpn = 0x48,
			.dest_qkey = 0x1234,
			.flags = IB_SEND_GRH,
		};
	for (unsigned i = 0; i < ROUND; i++)
		r->in[i] = (struct door_received){
			.offset = i * (IB_GRH_LEN + l->payload),
			.len = IB_GRH_LEN + l->payload,
			.qpn = 0x100 + i % l->qps,
			.src_qpn = 0x48,
			.flags = IB_RECV_GRH,
		};
	return r;
}

/* The far side of posting: the device carries out, or the subnet takes. Returns whether it met all that was posted. */
static bool take_away(const struct door_loop *l, struct round *r)
{
	unsigned n = l->null ? nullverbs_carry_out(l->null)
			     : door_take(l->end, r->sent, ROUND, r->bytes, IB_GRH_LEN + l->payload);
	return n == ROUND;
}

/* The far side of polling. */
static bool bring(const struct door_loop *l, struct round *r)
{
	unsigned why;
	unsigned n = l->null ? nullverbs_deliver(l->null, ROUND, l->payload, l->qps)
			     : door_deliver(l->end, r->in, ROUND, r->bytes, &why);
	return n == ROUND;
}

static uint64_t bells(const struct door_loop *l)
{
	if (!l->null)
		return 0;
	return l->polls ? nullverbs_recv_bells(l->null) : nullverbs_send_bells(l->null);
}

/* Adds a round's costs, unless something came between. */
static void count(struct door_loop *l, uint64_t call, uint64_t far, uint64_t most)
{
	l->cost.calls += ROUND / l->burst;
	if (call + far > most)
		return;
	l->cost.messages += ROUND;
	l->cost.call += call;
	l->cost.far += far;
}

static bool make_sends(const struct door_loop *l, struct round *r, struct ib_send *s)
{
	struct rte_mbuf *m[ROUND];

	if (rte_pktmbuf_alloc_bulk(l->pool, m, ROUND))
		return false;
	for (unsigned i = 0; i < ROUND; i++) {
		s[i] = r->send[i];
		s[i].mbuf = m[i];
		m[i]->data_len = (uint16_t)l->payload;
		m[i]->pkt_len = l->payload;
	}
	return true;
}

/* Completions come a round later. */
static int post_round(struct door_loop *l, struct round *r, uint64_t most)
{
	struct ib_send s[ROUND];
	unsigned took = 0;

	if (!make_sends(l, r, s))
		return -ENOBUFS;
	uint64_t t0 = rte_rdtsc();
	for (unsigned i = 0; i < ROUND; i += l->burst) {
		took += l->door->post(l->door->self, s + i, l->burst);
		l->door->free(l->door->self);
	}
	uint64_t t1 = rte_rdtsc();
	bool all = take_away(l, r);
	count(l, t1 - t0, rte_rdtsc() - t1, most);
	return took == ROUND && all ? 0 : -EIO;
}

/* What a worker does with the messages is not counted. */
static int poll_round(struct door_loop *l, struct round *r, uint64_t most)
{
	struct ib_recv in[ROUND];
	struct rte_mbuf *m[ROUND];
	unsigned got = 0;

	uint64_t t0 = rte_rdtsc();
	bool all = bring(l, r);
	uint64_t t1 = rte_rdtsc();
	for (unsigned i = 0; i < ROUND; i += l->burst) {
		got += l->door->poll(l->door->self, in + got, l->burst);
		l->door->free(l->door->self);
	}
	uint64_t t2 = rte_rdtsc();
	for (unsigned i = 0; i < got; i++)
		m[i] = in[i].mbuf;
	rte_pktmbuf_free_bulk(m, got);
	count(l, t2 - t1, t1 - t0, most);
	return all && got == ROUND ? 0 : -EIO;
}

static int rounds(struct door_loop *l, struct round *r, uint64_t counts)
{
	uint64_t most = rte_get_tsc_hz() / 20000, end = UINT64_MAX; /* 50 us */
	int err = 0;

	for (unsigned n = 0; !err && (n <= WARM_ROUNDS || rte_rdtsc() < end); n++) {
		if (n == WARM_ROUNDS) {
			l->cost = (struct door_cost){.bells = 0 - bells(l)};
			end = rte_rdtsc() + counts;
		}
		err = l->polls ? poll_round(l, r, most) : post_round(l, r, most);
	}
	l->cost.bells += bells(l);
	l->cost.dropped = l->null ? nullverbs_drops(l->null) : 0;
	return err;
}

static int run(void *arg)
{
	struct door_loop *l = arg;
	struct round *r = round_new(l);
	int err = r ? rounds(l, r, l->ns * (rte_get_tsc_hz() / 1000) / 1000000) : -ENOMEM;

	free(r);
	return err;
}

int door_loop_run(struct door_loop *l, bool polls, unsigned lcore, uint64_t ns)
{
	l->polls = polls;
	l->ns = ns;
	int err = rte_eal_remote_launch(run, l, lcore);
	return err ? err : rte_eal_wait_lcore(lcore);
}

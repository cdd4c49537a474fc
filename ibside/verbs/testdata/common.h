/* SPDX-License-Identifier: Apache-2.0 */
/* What the cases of cases.c and libmlx5/cases.c share: a worker, and messages to post. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "../manage.h"

#define WANT(cond)                                                                                                     \
	do {                                                                                                           \
		if (!(cond)) {                                                                                         \
			printf("%s:%d: %s: not so: %s\n%s", __FILE__, __LINE__, running, #cond, device_says());        \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

enum { DEPTH = 128, RECEIVES = 128, PAYLOAD = 1024 };

static const char *running;
static struct rte_mempool *pool;
static struct verbs_worker *w;
static struct verbs_qp *qp[4];
static struct ibv_ah *handle;

/* The device's: what it has found wrong; and the n oldest sends are carried out. */
static const char *device_says(void);
static void carry_out(unsigned n);

static struct verbs_counters *count(void)
{
	return &w->counters;
}

static struct rte_mbuf *message(unsigned len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

	WANT(m);
	memset(rte_pktmbuf_append(m, (uint16_t)len), 0x5a, len);
	return m;
}

/* To peer, from one of the four queue pairs. */
static struct ib_send to(unsigned from, uint8_t peer, unsigned len)
{
	return (struct ib_send){
		.mbuf = message(len),
		.ah = {.dgid = {0xfe, 0x80, [15] = peer}, .hop_limit = 64},
		.qp = qp[from]->handle,
		.dest_qpn = 0x48,
		.flags = IB_SEND_GRH,
	};
}

static void post(unsigned from, uint8_t peer, unsigned n, unsigned len)
{
	for (unsigned i = 0; i < n; i++) {
		struct ib_send s = to(from, peer, len);
		s.imm = i;
		s.flags |= IB_SEND_IMM;
		WANT(verbs_post(w, &s, 1) == 1);
	}
}

static unsigned answer(struct ibv_ah *ah)
{
	struct ah_entry *e;
	unsigned n = 0;

	for (; (e = verbs_ah_next_request(w)); n++)
		verbs_ah_answer(w, e, ah);
	verbs_free(w);
	return n;
}

/* Makes an address handle for peer 1, and resets the counters of the message that this took. */
static void warm(void)
{
	post(0, 1, 1, 1);
	WANT(answer(handle) == 1);
	carry_out(1);
	verbs_free(w);
	WANT(count()->sent == 1);
	*count() = (struct verbs_counters){0};
}

static uint64_t drops(void)
{
	struct verbs_counters c;
	uint64_t sum = 0;

	verbs_counters_read(w, &c);
	for (unsigned i = 0; i < SEND_DROPS; i++)
		sum += c.send_drops[i];
	return sum;
}

/* What a worker does in each round; the messages are freed. */
static void work_once(void)
{
	struct ib_recv r[VERBS_BURST];
	unsigned n = verbs_poll(w, r, VERBS_BURST);

	for (unsigned i = 0; i < n; i++)
		rte_pktmbuf_free(r[i].mbuf);
	verbs_free(w);
}

static unsigned sends_left, sends_lost, receives_left;

/* The worker ends. Its counters must balance. */
static void check_end(void)
{
	struct verbs_counters c;
	uint64_t sent, received;

	WANT(verbs_worker_stop(w) == 0);
	verbs_ah_release(w);
	verbs_counters_read(w, &c);
	WANT(sends_left == 0 || c.send_drops[SEND_DROP_shutdown] == sends_left);
	WANT(sends_lost == 0 || c.send_drops[SEND_DROP_qp_reset] == sends_lost);
	WANT(receives_left == 0 || c.recv_drops[RECV_DROP_shutdown] == receives_left);
	sends_left = sends_lost = receives_left = 0;
	sent = c.sent;
	received = c.delivered;
	for (unsigned i = 0; i < SEND_DROPS; i++)
		sent += c.send_drops[i];
	for (unsigned i = 0; i < RECV_DROPS; i++)
		received += c.recv_drops[i];
	WANT(c.posted == sent && c.received == received);
	verbs_worker_free(w);
}

static void make_pool(void)
{
	static char *args[] = {"cases", "--no-huge", "--no-pci",     "--no-shconf",
			       "-m",    "64",        "--lcores=0@0", "--log-level=error"};

	setvbuf(stdout, NULL, _IOLBF, 0); /* what is said is read even if this program is ended */
	if (rte_eal_init(sizeof(args) / sizeof(args[0]), args) < 0)
		exit(2);
	pool = rte_pktmbuf_pool_create("packets", 4095, 0, 0, RTE_PKTMBUF_HEADROOM + IB_GRH_LEN + PAYLOAD,
				       SOCKET_ID_ANY);
	running = "start";
	WANT(pool);
}

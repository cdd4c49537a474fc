/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two workers on the device of mlx5mem, one by libmlx5 and one that uses its queues directly, do the same: what they
 * write for the same sends is compared byte for byte, and what they read from the same completions field by field.
 */
#include <endian.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "../manage.h"
#include "../mlx5mem/mlx5mem.h"
#include "../queues.h"

#define WANT(cond)                                                                                                     \
	do {                                                                                                           \
		if (!(cond)) {                                                                                         \
			printf("%s:%d: seed %u: not so: %s\n%s", __FILE__, __LINE__, seed, #cond, mlx5mem_faults());   \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

enum { WAYS = 2, QPS = 6, DEPTH = 64, RECEIVES = 200, PEERS = 40, BLOCK = 64, UNIT = 16, QKEY = 0x1234 };

static unsigned seed;
static struct rte_mempool *pool;
static struct verbs_device *device;
static struct verbs_worker *w[WAYS];
static struct verbs_qp *qp[WAYS][QPS];
static struct mlx5dv_qp ring[WAYS][QPS];
static uint16_t compared[QPS]; /* blocks, since the last reset */
static struct ib_ah peer[PEERS];

static unsigned draw(unsigned n)
{
	return (unsigned)random() % n;
}

static void make_handles(struct verbs_worker *x, struct verbs_qp *q)
{
	struct ah_entry *e;
	struct ibv_ah *ah;

	for (unsigned i = 0; i < PEERS; i++)
		WANT(verbs_ah_find(x, q, &peer[i], i % 3));
	while ((e = verbs_ah_next_request(x))) {
		WANT(verbs_ah_create(x->dev, &e->key, 0, &ah) == 0);
		verbs_ah_answer(x, e, ah);
	}
	verbs_free(x);
}

static void look_at(unsigned way, unsigned i)
{
	struct mlx5dv_obj o = {.qp = {.in = qp[way][i]->qp, .out = &ring[way][i]}};

	WANT(mlx5dv_init_obj(&o, MLX5DV_OBJ_QP) == 0);
}

static void make(void)
{
	const struct verbs_sizes s = {.qps = QPS, .receives = RECEIVES, .sends = 256, .ah_entries = 1024};
	char names[64];

	WANT(verbs_device_open("mlx5_0", 1, &device, names, sizeof(names)) == 0);
	WANT(verbs_device_register(device, pool) == 0);
	for (unsigned i = 0; i < PEERS; i++)
		peer[i] = (struct ib_ah){
			.dgid = {0xfe, 0x80, [15] = (uint8_t)i},
			.dlid = (uint16_t)(0x100 + i),
			.sl = i % 16,
			.hop_limit = (uint8_t)i,
			.tclass = (uint8_t)(i * 7),
			.static_rate = i % 4 ? 0 : IBV_RATE_10_GBPS,
		};
	for (unsigned way = 0; way < WAYS; way++) {
		device->direct = way == 1 && verbs_direct_supported(device);
		WANT(verbs_worker_new(device, &s, &w[way]) == 0);
		WANT(w[way]->td && (w[way]->direct != NULL) == (way == 1));
		for (unsigned i = 0; i < QPS; i++) {
			WANT(verbs_qp_new(w[way], 1 << HANDLE_INDEX_BITS | (i + 1), QKEY, 0, DEPTH, &qp[way][i]) == 0);
			look_at(way, i);
		}
		make_handles(w[way], qp[way][0]);
	}
}

static uint8_t *block(unsigned way, unsigned i, uint16_t at)
{
	const struct mlx5dv_qp *r = &ring[way][i];

	return (uint8_t *)r->sq.buf + (size_t)(at & (r->sq.wqe_cnt - 1)) * BLOCK;
}

/* The first n bytes of a request, the queue pair's number left out. What comes behind them in its last unit is not
 * written. */
static void request(unsigned way, unsigned i, uint16_t at, uint8_t *to, unsigned n)
{
	enum { QPN = 4, QPN_BYTES = 3 };

	for (unsigned k = 0; k < n; k++)
		to[k] = block(way, i, (uint16_t)(at + k / BLOCK))[k % BLOCK];
	memset(to + QPN, 0, QPN_BYTES);
}

static unsigned bytes_of(unsigned i, uint16_t at, unsigned *units)
{
	const struct mlx5_wqe_ctrl_seg *c = (const void *)block(0, i, at);
	const struct mlx5_wqe_inl_data_seg *d = (const void *)block(0, i, (uint16_t)(at + 1));

	*units = be32toh(c->qpn_ds) & 0x3f;
	if (*units > BLOCK / UNIT && (d->byte_count & htobe32(MLX5_INLINE_SEG)))
		return BLOCK + sizeof(*d) + (be32toh(d->byte_count) & ~MLX5_INLINE_SEG);
	return *units * UNIT;
}

static void compare_rings(void)
{
	uint8_t a[4 * BLOCK], b[4 * BLOCK];
	unsigned units;

	for (unsigned i = 0; i < QPS; i++) {
		__be32 record = ring[0][i].dbrec[MLX5_SND_DBR];
		WANT(record == ring[1][i].dbrec[MLX5_SND_DBR]);
		while (compared[i] != (uint16_t)be32toh(record)) {
			unsigned n = bytes_of(i, compared[i], &units);
			WANT(n <= sizeof(a));
			request(0, i, compared[i], a, n);
			request(1, i, compared[i], b, n);
			WANT(memcmp(a, b, n) == 0);
			compared[i] = (uint16_t)(compared[i] + (units * UNIT + BLOCK - 1) / BLOCK);
		}
	}
}

static struct rte_mbuf *piece(unsigned len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

	WANT(m);
	uint8_t *p = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)len);
	for (unsigned i = 0; i < len; i++)
		p[i] = (uint8_t)random();
	return m;
}

/* Short and long, in up to four pieces, some of them empty. */
static struct rte_mbuf *message(void)
{
	unsigned most = draw(4) ? 80 : 1000;
	struct rte_mbuf *m = piece(draw(most));

	for (unsigned n = draw(8) ? 0 : draw(VERBS_MAX_SGE); n > 0; n--)
		rte_pktmbuf_chain(m, piece(draw(5) ? draw(most) : 0));
	return m;
}

static void compare_counters(void)
{
	struct verbs_counters c[WAYS];

	for (unsigned way = 0; way < WAYS; way++)
		verbs_counters_read(w[way], &c[way]);
	WANT(memcmp(&c[0], &c[1], sizeof(c[0])) == 0);
}

/* The same mbufs go both ways: each worker frees its own reference. */
static void post_same(void)
{
	struct ib_send s[VERBS_BURST];
	unsigned n = 1 + draw(VERBS_BURST);
	uint64_t bells[WAYS];

	for (unsigned i = 0; i < n; i++) {
		s[i] = (struct ib_send){
			.mbuf = message(),
			.ah = peer[draw(PEERS)],
			.qp = qp[0][draw(QPS)]->handle,
			.dest_qpn = draw(1 << 24),
			.dest_qkey = draw(9) ? QKEY : 0x80010000,
			.imm = (uint32_t)random(),
		};
		s[i].flags = (draw(2) ? IB_SEND_IMM : 0) | (draw(2) ? IB_SEND_SOLICITED : 0) |
			     (s[i].ah.dgid[15] % 3 ? IB_SEND_GRH : 0);
		for (struct rte_mbuf *m = s[i].mbuf; m; m = m->next)
			rte_mbuf_refcnt_update(m, WAYS - 1);
	}
	for (unsigned way = 0; way < WAYS; way++) {
		uint64_t before = mlx5mem_count().bells, lists = w[way]->counters.lists;
		verbs_post(w[way], s, n);
		bells[way] = mlx5mem_count().bells - before;
		WANT(!mlx5mem.traps || bells[way] == w[way]->counters.lists - lists);
	}
	compare_rings();
	compare_counters();
}

static void carry_out(void)
{
	mlx5mem_turn(MLX5MEM_ALL);
	for (unsigned round = 0; round < 4; round++)
		for (unsigned way = 0; way < WAYS; way++)
			verbs_free(w[way]);
	compare_counters();
	for (unsigned i = 0; i < QPS; i++)
		WANT(qp[0][i]->head == qp[1][i]->head && qp[0][i]->tail == qp[1][i]->tail);
}

static void compare_received(const struct ib_recv *a, const struct ib_recv *b, unsigned i)
{
	WANT(a->qpn == qp[0][i]->qpn && b->qpn == qp[1][i]->qpn);
	WANT(a->src_qpn == b->src_qpn && a->imm == b->imm && a->slid == b->slid && a->sl == b->sl &&
	     a->flags == b->flags);
	WANT(a->mbuf->pkt_len == b->mbuf->pkt_len && a->mbuf->data_len == b->mbuf->data_len);
	WANT(a->mbuf->pkt_len == a->mbuf->data_len && a->mbuf->data_off == b->mbuf->data_off);
	unsigned from = a->flags & IB_RECV_GRH ? 0 : IB_GRH_LEN;
	WANT(memcmp(rte_pktmbuf_mtod_offset(a->mbuf, uint8_t *, from),
		    rte_pktmbuf_mtod_offset(b->mbuf, uint8_t *, from), a->mbuf->pkt_len - from) == 0);
}

static void receive_same(void)
{
	struct ib_recv r[WAYS][VERBS_BURST];
	unsigned n = draw(VERBS_BURST), to[VERBS_BURST], got[WAYS];
	uint8_t data[1000], grh[IB_GRH_LEN];

	for (unsigned i = 0; i < n; i++) {
		struct mlx5mem_arrival a = {
			.src_qpn = draw(1 << 24), .qkey = QKEY, .imm = (uint32_t)random(), .data = data};
		a.len = draw(sizeof(data));
		a.slid = (uint16_t)random();
		a.sl = (uint8_t)draw(16);
		a.has_imm = draw(2);
		a.solicited = draw(2);
		a.grh = draw(2) ? grh : NULL;
		for (unsigned k = 0; k < sizeof(data); k++)
			data[k] = (uint8_t)random();
		memset(grh, (int)i, sizeof(grh));
		to[i] = draw(QPS);
		for (unsigned way = 0; way < WAYS; way++) {
			a.qpn = qp[way][to[i]]->qpn;
			WANT(mlx5mem_deliver(&a) == 1);
		}
	}
	for (unsigned way = 0; way < WAYS; way++) {
		got[way] = verbs_poll(w[way], r[way], VERBS_BURST);
		verbs_free(w[way]);
	}
	WANT(got[0] == n && got[1] == n);
	for (unsigned i = 0; i < n; i++) {
		compare_received(&r[0][i], &r[1][i], to[i]);
		rte_pktmbuf_free(r[0][i].mbuf);
		rte_pktmbuf_free(r[1][i].mbuf);
	}
	compare_counters();
}

static void bring_back(unsigned way, unsigned i)
{
	WANT(verbs_qp_take_error(qp[way][i]));
	verbs_qp_drain(w[way], qp[way][i]);
	struct ib_recv r;
	while (!verbs_qp_drained(w[way], qp[way][i])) {
		WANT(verbs_poll(w[way], &r, 1) == 0);
		verbs_free(w[way]);
	}
	WANT(verbs_qp_cycle(w[way], qp[way][i], 0) == 0);
	compared[i] = 0;
}

/* One send fails, and all behind it are flushed; or a message fails on arrival. Then the queue pair comes up again. */
static void fail_same(void)
{
	enum { SENDS = 6 };
	unsigned i = draw(QPS), skip = draw(SENDS);
	bool receive = draw(2);

	for (unsigned way = 0; way < WAYS; way++) {
		uint32_t qpn = qp[way][i]->qpn;
		struct ib_recv r;
		if (receive) {
			mlx5mem_fail_receive(qpn, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
			mlx5mem_deliver(&(struct mlx5mem_arrival){.qpn = qpn, .qkey = QKEY, .len = 1});
			WANT(verbs_poll(w[way], &r, 1) == 0);
		} else {
			mlx5mem_fail_send(qpn, skip, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
			for (unsigned k = 0; k < SENDS; k++) {
				struct ib_send s = {.mbuf = piece(k), .ah = peer[3 * k], .qp = qp[way][i]->handle};
				verbs_post(w[way], &s, 1);
			}
			mlx5mem_turn(MLX5MEM_ALL);
		}
		verbs_free(w[way]);
		bring_back(way, i);
	}
	compare_counters();
	for (unsigned way = 0; way < WAYS; way++)
		make_handles(w[way], qp[way][i]); /* that of the failed send was given up */
	compare_counters();
}

static bool is_told(unsigned way)
{
	struct pollfd p = {.fd = w[way]->ib_port.wake[0], .events = POLLIN};

	mlx5mem_turn(MLX5MEM_ALL); /* the device sees an arming then */
	return poll(&p, 1, 0) > 0;
}

static void arrive(unsigned way)
{
	WANT(mlx5mem_deliver(&(struct mlx5mem_arrival){.qpn = qp[way][0]->qpn, .qkey = QKEY}) == 1);
}

/* A worker that sleeps is told of a message, at once of one that it has not taken, and of a send that ends. Awake it is
 * told of nothing. */
static void sleep_same(void)
{
	struct ib_recv r[VERBS_BURST];

	for (unsigned way = 0; way < WAYS; way++) {
		struct ib_send s = {.mbuf = piece(0), .ah = peer[0], .qp = qp[way][0]->handle};
		arrive(way);
		WANT(!is_told(way));
		for (unsigned twice = 0; twice < 2; twice++) {
			verbs_arm(w[way]);
			WANT(is_told(way));
			verbs_disarm(w[way]);
		}
		WANT(verbs_poll(w[way], r, VERBS_BURST) == 1);
		rte_pktmbuf_free(r[0].mbuf);
		verbs_free(w[way]);
		verbs_arm(w[way]);
		WANT(!is_told(way));
		verbs_post(w[way], &s, 1);
		WANT(is_told(way));
		verbs_disarm(w[way]);
		arrive(way);
		WANT(is_told(way)); /* it was armed for messages, too */
		verbs_disarm(w[way]);
		arrive(way);
		WANT(!is_told(way));
		WANT(verbs_poll(w[way], r, VERBS_BURST) == 2);
		rte_pktmbuf_free(r[0].mbuf);
		rte_pktmbuf_free(r[1].mbuf);
		verbs_free(w[way]);
	}
	compare_rings();
	compare_counters();
}

static void end(void)
{
	struct verbs_counters c[WAYS];
	struct ibv_ah *ah;

	mlx5mem_turn(MLX5MEM_ALL);
	for (unsigned way = 0; way < WAYS; way++) {
		WANT(verbs_worker_stop(w[way]) == 0);
		verbs_ah_release(w[way]);
		while ((ah = verbs_ah_next_retired(w[way])))
			ibv_destroy_ah(ah);
		verbs_counters_read(w[way], &c[way]);
		uint64_t sends = c[way].sent, receives = c[way].delivered;
		for (unsigned i = 0; i < SEND_DROPS; i++)
			sends += c[way].send_drops[i];
		for (unsigned i = 0; i < RECV_DROPS; i++)
			receives += c[way].recv_drops[i];
		WANT(c[way].posted == sends && c[way].received == receives);
		verbs_worker_free(w[way]);
	}
	WANT(verbs_device_close(device) == 0);
	WANT(rte_mempool_in_use_count(pool) == 0 && mlx5mem_count().faults == 0 && mlx5mem_count().live == 0);
	printf("ok: %lu posted, %lu sent, %lu received\n", c[1].posted, c[1].sent, c[1].received);
}

/* ways SEED [without]: with traps, or without. */
int main(int argc, char **argv)
{
	static char *args[] = {"ways", "--no-huge", "--no-pci",     "--no-shconf",
			       "-m",   "64",        "--lcores=0@0", "--log-level=error"};
	enum { ROUNDS = 300 };

	mlx5mem_begin();
	seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	srandom(seed);
	if (argc > 2)
		mlx5mem.traps = false;
	if (rte_eal_init(sizeof(args) / sizeof(args[0]), args) < 0)
		return 2;
	pool = rte_pktmbuf_pool_create("packets", 4095, 0, 0, RTE_PKTMBUF_HEADROOM + IB_GRH_LEN + 4096, SOCKET_ID_ANY);
	WANT(pool);
	make();
	for (unsigned i = 0; i < ROUNDS; i++) {
		post_same();
		if (draw(3))
			carry_out();
		receive_same();
		if (draw(20) == 0) {
			carry_out();
			fail_same();
			sleep_same();
		}
	}
	end();
	return 0;
}

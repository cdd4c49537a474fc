/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a message costs a worker by libmlx5 and directly, in turn on the device of mlx5mem, whose time does not count:
 *
 *   bench QUEUE-PAIRS ▶ post NS NS RATIO poll NS NS RATIO bells BELLS
 *
 * A round is 64 messages of 64 bytes, each for a random queue pair and one of 64 peers: post and free, which takes the
 * completions of the round before; then 64 messages come in: poll, and free, which posts buffers again. Rounds in which
 * the thread was preempted do not count. The figures are the medians of the windows, and of their ratios.
 */
#include <stdio.h>
#include <stdlib.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "../manage.h"
#include "../mlx5mem/mlx5mem.h"
#include "../queues.h"

enum {
	WAYS = 2,
	ROUND = 64,
	MOST_QPS = 1024,
	PEERS = 64,
	PAYLOAD = 64,
	DEPTH = 128,
	WINDOWS = 15,
	ROUNDS = 150,
	QKEY = 0x1234
};

static struct rte_mempool *pool;
static struct verbs_device *device;
static struct verbs_worker *w[WAYS];
static struct verbs_qp *qp[WAYS][MOST_QPS];
static unsigned qps;

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	printf("%s\n%s", what, mlx5mem_faults());
	exit(1);
}

static unsigned draw(unsigned n)
{
	return (unsigned)random() % n;
}

static struct ib_ah peer(unsigned i)
{
	return (struct ib_ah){.dgid = {0xfe, 0x80, [15] = (uint8_t)i}, .dlid = (uint16_t)(0x100 + i), .hop_limit = 1};
}

static void make_worker(unsigned way)
{
	const struct verbs_sizes s = {.qps = qps, .receives = 8192, .sends = 8192, .ah_entries = 4096};
	struct ah_entry *e;
	struct ibv_ah *ah;

	device->direct = way == 1 && verbs_direct_supported(device);
	must(verbs_worker_new(device, &s, &w[way]) == 0, "no worker");
	for (unsigned i = 0; i < qps; i++)
		must(verbs_qp_new(w[way], 1u << HANDLE_INDEX_BITS | (i + 1), QKEY, 0, DEPTH, &qp[way][i]) == 0,
		     "no queue pair");
	for (unsigned i = 0; i < PEERS; i++) {
		struct ib_ah a = peer(i);
		must(verbs_ah_find(w[way], qp[way][i % qps], &a, true), "no entry");
		while ((e = verbs_ah_next_request(w[way]))) {
			must(verbs_ah_create(device, &e->key, 0, &ah) == 0, "no handle");
			verbs_ah_answer(w[way], e, ah);
		}
		verbs_free(w[way]);
	}
}

static uint64_t post(unsigned way)
{
	struct rte_mbuf *m[ROUND];
	struct ib_send s[ROUND];

	must(rte_pktmbuf_alloc_bulk(pool, m, ROUND) == 0, "no mbufs");
	for (unsigned i = 0; i < ROUND; i++) {
		rte_pktmbuf_append(m[i], PAYLOAD);
		s[i] = (struct ib_send){.mbuf = m[i],
					.ah = peer(draw(PEERS)),
					.qp = qp[way][draw(qps)]->handle,
					.dest_qpn = 0x48,
					.dest_qkey = QKEY,
					.flags = IB_SEND_GRH};
	}
	uint64_t t = rte_rdtsc();
	verbs_post(w[way], s, ROUND);
	verbs_free(w[way]);
	t = rte_rdtsc() - t;
	must(mlx5mem_turn(MLX5MEM_ALL) == ROUND, "not all was sent");
	return t;
}

static uint64_t poll(unsigned way)
{
	static const uint8_t grh[IB_GRH_LEN];
	struct mlx5mem_arrival a = {.src_qpn = 0x48, .qkey = QKEY, .len = PAYLOAD, .slid = 9, .grh = grh};
	struct ib_recv r[ROUND];

	for (unsigned i = 0; i < ROUND; i++) {
		a.qpn = qp[way][draw(qps)]->qpn;
		must(mlx5mem_deliver(&a) == 1, "not received");
	}
	uint64_t t = rte_rdtsc();
	unsigned n = verbs_poll(w[way], r, ROUND);
	verbs_free(w[way]);
	t = rte_rdtsc() - t;
	must(n == ROUND, "not all was polled");
	for (unsigned i = 0; i < n; i++)
		rte_pktmbuf_free(r[i].mbuf);
	return t;
}

/* The mean cycles of a round. */
static double window(unsigned way, uint64_t (*round)(unsigned))
{
	uint64_t sum = 0, n = 0, most = rte_get_tsc_hz() / 10000; /* 100 us */

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t t = round(way);
		sum += t < most ? t : 0;
		n += t < most;
	}
	return n ? (double)sum / (double)n : 0;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *all)
{
	qsort(all, WINDOWS, sizeof(*all), by_size);
	return all[WINDOWS / 2];
}

static void compare(const char *what, uint64_t (*round)(unsigned))
{
	double a[WINDOWS], b[WINDOWS], ratio[WINDOWS], ns = 1e9 / (double)rte_get_tsc_hz() / ROUND;

	for (int i = -1; i < WINDOWS; i++) { /* the first one fills the caches */
		double x = window(0, round), y = window(1, round);
		if (i < 0)
			continue;
		a[i] = x * ns;
		b[i] = y * ns;
		ratio[i] = y / x;
	}
	printf("%s %.1f %.1f %.3f ", what, median(a), median(b), median(ratio));
}

int main(int argc, char **argv)
{
	static char *args[] = {"bench", "--no-huge", "--no-pci",     "--no-shconf",
			       "-m",    "512",       "--lcores=0@0", "--log-level=error"};

	qps = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	mlx5mem.traps = false;
	must(qps >= 1 && qps <= MOST_QPS && rte_eal_init(sizeof(args) / sizeof(args[0]), args) >= 0, "no EAL");
	pool = rte_pktmbuf_pool_create("packets", 32767, 256, 0, RTE_PKTMBUF_HEADROOM + IB_GRH_LEN + 4096,
				       SOCKET_ID_ANY);
	char names[64];
	must(pool && verbs_device_open("mlx5_0", 1, &device, names, sizeof(names)) == 0, "no device");
	must(verbs_device_register(device, pool) == 0, "no region");
	for (unsigned way = 0; way < WAYS; way++)
		make_worker(way);
	must(!w[0]->direct && w[1]->direct, "not two ways");
	compare("post", post);
	compare("poll", poll);
	printf("bells %.3f\n", (double)w[1]->counters.lists / (double)w[1]->counters.posted);
	for (unsigned way = 0; way < WAYS; way++)
		must(w[way]->counters.delivered && w[way]->counters.sent + ROUND >= w[way]->counters.posted, "drops");
	must(mlx5mem_count().faults == 0, "faults");
	return 0;
}

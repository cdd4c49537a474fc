/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which cache lines two workers of the port write while messages pass, those of libmlx5 included: queues, doorbell
 * records and registers. On the device of mlx5mem; by the library, and directly:
 *
 *   lines ▶ library: 1319 and 1320 lines, 0 shared: ok
 *
 * While one worker makes its calls, the other stands still. All memory that the process can write is compared with a
 * copy from before; what has changed is the worker's. The device works in between. Mbufs, which pass from hand to hand,
 * do not count. Each worker has a thread, with a stack of its own. A store of what was there already is not seen: hence
 * rounds with random queue pairs and lengths.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>

#include "../manage.h"
#include "../mlx5mem/mlx5mem.h"
#include "../queues.h"

enum {
	LINE = 64,
	ROUND = 32,
	ROUNDS = 8,
	QPS = 32,
	DEPTH = 128,
	PAYLOAD = 1024,
	QKEY = 0x1234,
	RANGES = 512,
	LINES = 1 << 16
};

struct range {
	uint8_t *at;
	size_t len;
};

static struct rte_mempool *pool;
static struct verbs_device *device;
static struct verbs_worker *w[2];
static struct verbs_qp *qp[2][QPS];

/* In memory of its own, which is not looked at. */
static struct memory {
	struct range range[RANGES], hidden[RANGES];
	unsigned ranges, hiddens;
	uintptr_t line[2][LINES];
	unsigned lines[2];
	uint8_t copy[512 << 20];
} * mem;

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	printf("%s\n%s", what, mlx5mem_faults());
	exit(1);
}

static void hide(const void *at, size_t len)
{
	must(mem->hiddens < RANGES, "too many ranges to hide");
	mem->hidden[mem->hiddens++] = (struct range){(uint8_t *)(uintptr_t)at, len};
}

static void hide_part(struct rte_mempool *p, void *arg, struct rte_mempool_memhdr *part, unsigned index)
{
	(void)p, (void)arg, (void)index;
	hide(part->addr, part->len);
}

/* Mbufs, and what the pool keeps of those that are free. */
static void hide_pool(void)
{
	const struct rte_ring *free = pool->pool_data;

	rte_mempool_mem_iter(pool, hide_part, NULL);
	hide(pool->mz->addr, pool->mz->len);
	hide(free, rte_ring_get_memsize(free->size));
}

static bool hidden(const uint8_t *at)
{
	for (unsigned i = 0; i < mem->hiddens; i++)
		if ((size_t)(at - mem->hidden[i].at) < mem->hidden[i].len)
			return true;
	return false;
}

/* Copies all that the process can write, but for the stack of main, which is nobody's. */
static void copy_all(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	size_t used = 0;
	char text[512];
	unsigned long from, to;

	must(maps, "no maps");
	mem->ranges = 0;
	while (fgets(text, sizeof(text), maps)) {
		char rights[8];
		if (sscanf(text, "%lx-%lx %7s", &from, &to, rights) != 3 || strncmp(rights, "rw", 2) != 0)
			continue;
		if (strstr(text, "[stack]"))
			continue;
		if (from <= (uintptr_t)mem && (uintptr_t)mem < to)
			continue;
		must(mem->ranges < RANGES, "too many mappings");
		mem->range[mem->ranges++] = (struct range){(uint8_t *)from, to - from};
	}
	fclose(maps);
	for (unsigned i = 0; i < mem->ranges; i++) {
		must(used + mem->range[i].len <= sizeof(mem->copy), "too much memory to copy");
		memcpy(mem->copy + used, mem->range[i].at, mem->range[i].len);
		used += mem->range[i].len;
	}
}

static void note(unsigned i, const uint8_t *at)
{
	must(mem->lines[i] < LINES, "too many lines");
	mem->line[i][mem->lines[i]++] = (uintptr_t)at / LINE;
}

/* Notes the lines that have changed since copy_all() as this worker's. */
static void compare_all(unsigned i)
{
	const uint8_t *copy = mem->copy;

	for (unsigned r = 0; r < mem->ranges; copy += mem->range[r++].len) {
		enum { PAGE = 4096 };
		uint8_t *at = mem->range[r].at;
		for (size_t p = 0; p < mem->range[r].len; p += PAGE) {
			if (memcmp(at + p, copy + p, PAGE) == 0)
				continue;
			for (size_t l = p; l < p + PAGE; l += LINE)
				if (memcmp(at + l, copy + l, LINE) != 0 && !hidden(at + l))
					note(i, at + l);
		}
	}
}

static struct ib_ah peer(void)
{
	return (struct ib_ah){.dgid = {0xfe, 0x80, [15] = 1}, .dlid = 0x100, .hop_limit = 1};
}

static void make_worker(unsigned i)
{
	const struct verbs_sizes s = {.worker = i, .qps = QPS, .receives = 256, .sends = 256, .ah_entries = 64};
	struct ib_ah a = peer();
	struct ah_entry *e;
	struct ibv_ah *ah;

	must(verbs_worker_new(device, &s, &w[i]) == 0, "no worker");
	for (unsigned k = 0; k < QPS; k++)
		must(verbs_qp_new(w[i], 1u << HANDLE_INDEX_BITS | (k + 1), QKEY, 0, DEPTH, &qp[i][k]) == 0,
		     "no queue pair");
	must(verbs_ah_find(w[i], qp[i][0], &a, true), "no entry");
	while ((e = verbs_ah_next_request(w[i]))) {
		must(verbs_ah_create(device, &e->key, 0, &ah) == 0, "no handle");
		verbs_ah_answer(w[i], e, ah);
	}
	verbs_free(w[i]);
}

static void sends(unsigned i)
{
	struct ib_send s[ROUND];

	for (unsigned k = 0; k < ROUND; k++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
		must(m, "no mbuf");
		uint16_t len = (uint16_t)(1 + random() % PAYLOAD);
		memset(rte_pktmbuf_append(m, len), (int)random(), len);
		s[k] = (struct ib_send){.mbuf = m,
					.ah = peer(),
					.qp = qp[i][random() % QPS]->handle,
					.dest_qpn = (uint32_t)random() & 0xffffff,
					.dest_qkey = QKEY,
					.flags = IB_SEND_GRH};
	}
	copy_all();
	verbs_post(w[i], s, ROUND);
	compare_all(i);
	must(mlx5mem_turn(MLX5MEM_ALL) == ROUND, "not all was sent");
	copy_all();
	verbs_free(w[i]);
	compare_all(i);
}

static void receives(unsigned i)
{
	static const uint8_t grh[IB_GRH_LEN];
	struct ib_recv r[ROUND];

	for (unsigned k = 0; k < ROUND; k++) {
		struct mlx5mem_arrival a = {.qpn = qp[i][random() % QPS]->qpn,
					    .src_qpn = 0x48,
					    .qkey = QKEY,
					    .len = 1 + random() % PAYLOAD,
					    .grh = grh};
		must(mlx5mem_deliver(&a) == 1, "not received");
	}
	copy_all();
	unsigned n = verbs_poll(w[i], r, ROUND);
	verbs_free(w[i]);
	compare_all(i);
	must(n == ROUND, "not all was polled");
	for (unsigned k = 0; k < n; k++)
		rte_pktmbuf_free(r[k].mbuf);
}

static void *work(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg;

	for (unsigned k = 0; k < ROUNDS; k++) {
		sends(i);
		receives(i);
	}
	return NULL;
}

/* One worker after the other, whose thread has ended by then: one that only waits may still be on its way to sleep. */
static void run_worker(unsigned i)
{
	static uint8_t stack[2][1 << 20] __attribute__((aligned(1 << 12)));
	pthread_attr_t a;
	pthread_t thread;

	must(pthread_attr_init(&a) == 0 && pthread_attr_setstack(&a, stack[i], sizeof(stack[i])) == 0, "no stack");
	must(pthread_create(&thread, &a, work, (void *)(uintptr_t)i) == 0, "no thread");
	pthread_join(thread, NULL);
}

static int by_address(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return (x > y) - (x < y);
}

static unsigned sorted(unsigned i)
{
	uintptr_t *l = mem->line[i];
	unsigned n = 0;

	qsort(l, mem->lines[i], sizeof(*l), by_address);
	for (unsigned k = 0; k < mem->lines[i]; k++)
		if (n == 0 || l[n - 1] != l[k])
			l[n++] = l[k];
	return n;
}

/* Returns how many lines both have written, and names the first. */
static unsigned shared(unsigned n0, unsigned n1)
{
	unsigned both_wrote = 0;

	for (unsigned a = 0, b = 0; a < n0 && b < n1;) {
		uintptr_t x = mem->line[0][a], y = mem->line[1][b];
		if (x == y && both_wrote++ == 0)
			printf("line %#lx is written by both\n", (unsigned long)(x * LINE));
		a += x <= y;
		b += y <= x;
	}
	return both_wrote;
}

static void run_way(bool directly)
{
	char names[64];

	must(verbs_device_open("mlx5_0", 1, &device, names, sizeof(names)) == 0, "no device");
	must(verbs_device_register(device, pool) == 0, "not registered");
	device->direct = directly && verbs_direct_supported(device);
	must(device->direct == directly, "the device's queues cannot be used directly");
	mem->lines[0] = mem->lines[1] = 0;
	make_worker(0);
	make_worker(1);
	must((w[0]->queues == &verbs_direct) == directly && w[0]->td && w[1]->td, "not this way");
	run_worker(0);
	run_worker(1);
	unsigned n0 = sorted(0), n1 = sorted(1), n = shared(n0, n1);
	printf("%s: %u and %u lines, %u shared: %s\n", directly ? "directly" : "library", n0, n1, n,
	       n == 0 ? "ok" : "not so");
	must(n == 0 && n0 > ROUND && n1 > ROUND, "two writers of a line, or too few lines");
	for (unsigned i = 0; i < 2; i++) {
		must(verbs_worker_stop(w[i]) == 0, "not stopped");
		verbs_worker_free(w[i]);
	}
}

int main(void)
{
	static char *args[] = {"lines", "--no-huge", "--no-pci",     "--no-shconf",
			       "-m",    "16",        "--lcores=0@0", "--log-level=error"};

	must(mlx5mem_begin(), "no device of memory");
	mem = mmap(NULL, sizeof(*mem), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mem == MAP_FAILED || rte_eal_init(sizeof(args) / sizeof(args[0]), args) < 0)
		return 2;
	pool = rte_pktmbuf_pool_create("packets", 4095, 0, 0, RTE_PKTMBUF_HEADROOM + IB_GRH_LEN + PAYLOAD,
				       SOCKET_ID_ANY);
	must(pool, "no pool");
	hide_pool();
	mlx5mem.traps = false; /* a caught store is carried out by the device's own memory */
	run_way(false);
	run_way(true);
	return 0;
}

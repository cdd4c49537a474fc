/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floors: what receiving and sending cost on this rig, and what it costs to read every byte besides.
 *
 *   roce_to_ib:  rx_burst ─▶ [read] ─▶ made a frame again, as the door's post does it ─▶ tx_burst
 *   ib_to_roce:  the door's poll ─▶ [read] ─▶ tx_burst
 */
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <string.h>

#include "loops.h"

enum { BURST = 64 };

/* Defines a function that reads len bytes by vectors of that size, two at once, and the rest of them by words; at most
 * 7 bytes are missed. Out of line, so that both floors have the same. */
#define READER(name, size)                                                                                             \
	__attribute__((noinline)) static uint64_t name(const uint8_t *p, uint32_t len)                                 \
	{                                                                                                              \
		typedef uint64_t vector __attribute__((vector_size(size)));                                            \
		vector a = {0}, b = {0}, x, y;                                                                         \
		uint64_t sum = 0, word;                                                                                \
		uint32_t i = 0;                                                                                        \
		for (; i + 2 * sizeof x <= len; i += 2 * sizeof x) {                                                   \
			memcpy(&x, p + i, sizeof x);                                                                   \
			memcpy(&y, p + i + sizeof x, sizeof y);                                                        \
			a ^= x;                                                                                        \
			b ^= y;                                                                                        \
		}                                                                                                      \
		a ^= b;                                                                                                \
		for (; i + sizeof word <= len; i += sizeof word) {                                                     \
			memcpy(&word, p + i, sizeof word);                                                             \
			sum ^= word;                                                                                   \
		}                                                                                                      \
		for (uint32_t j = 0; j < sizeof a / sizeof word; j++)                                                  \
			sum ^= a[j];                                                                                   \
		return sum;                                                                                            \
	}

READER(read_narrow, 16)

/* Words, of which the compiler makes what it likes; a length of 16 bits lets it. */
__attribute__((noinline)) static uint64_t read_words(const uint8_t *p, uint16_t len)
{
	uint64_t sum = 0, word;
	for (uint32_t i = 0; i + sizeof word <= len; i += sizeof word) {
		memcpy(&word, p + i, sizeof word);
		sum += word;
	}
	return sum;
}

#ifdef __x86_64__
bool can_read_wide(void)
{
	return __builtin_cpu_supports("avx512f");
}

#pragma GCC push_options
#pragma GCC target("avx512f")
READER(read_wide, 64)
#pragma GCC pop_options
#else
bool can_read_wide(void)
{
	return false;
}

#define read_wide read_narrow
#endif

static inline void read_all(struct loop *l, struct rte_mbuf **m, unsigned n)
{
	if (l->reading == READ_NOTHING)
		return;
	uint64_t sum = 0;
	for (unsigned i = 0; i < n; i++) {
		const uint8_t *p = rte_pktmbuf_mtod(m[i], const uint8_t *);
		switch (l->reading) {
		case READ_NOTHING:
			break;
		case READ_WORDS:
			sum ^= read_words(p, m[i]->data_len);
			break;
		case READ_NARROW:
			sum ^= read_narrow(p, m[i]->data_len);
			break;
		case READ_WIDE:
			sum ^= read_wide(p, m[i]->data_len);
			break;
		}
	}
	l->sink = sum;
}

int floor_roce_to_ib(void *arg)
{
	struct loop *l = arg;
	struct rte_mbuf *m[BURST];
	while (!l->stop) {
		unsigned n = rte_eth_rx_burst(l->port, 0, m, BURST);
		read_all(l, m, n);
		null_frames(l->door, m, n);
		l->done += rte_eth_tx_burst(l->port, 0, m, (uint16_t)n);
	}
	return 0;
}

int floor_ib_to_roce(void *arg)
{
	struct loop *l = arg;
	struct rte_mbuf *m[BURST];
	struct ib_recv r[BURST];
	while (!l->stop) {
		unsigned n = l->door->door.poll(l->door->door.self, r, BURST);
		for (unsigned i = 0; i < n; i++)
			m[i] = r[i].mbuf;
		read_all(l, m, n);
		l->done += rte_eth_tx_burst(l->port, 0, m, (uint16_t)n);
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floors: what receiving and sending cost on this rig, without and with reading every byte.
 *
 *   roce_to_ib:  rx_burst ─▶ [read] ─▶ made a frame again, as the IB port's post does ─▶ tx_burst
 *   ib_to_roce:  the IB port's poll ─▶ [read] ─▶ tx_burst
 */
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <string.h>

#include "loops.h"
#include "../../tables/x86.h"

enum { BURST = 64 };

/* By words, which the compiler may vectorise; a 16-bit length lets it. */
__attribute__((noinline)) static uint64_t read_words(const uint8_t *p, uint16_t len)
{
	uint64_t sum = 0, word;
	for (uint32_t i = 0; i + sizeof word <= len; i += sizeof word) {
		memcpy(&word, p + i, sizeof word);
		sum += word;
	}
	return sum;
}

#ifdef CAUSEWAY_X86
bool can_read_wide(void)
{
	return __builtin_cpu_supports("avx512f");
}

/* By vectors of 64 bytes, two at once, and the rest by words; up to 7 bytes at the end are not read. */
__attribute__((noinline, target("avx512f"))) static uint64_t read_wide(const uint8_t *p, uint32_t len)
{
	typedef uint64_t vector __attribute__((vector_size(64)));
	vector a = {0}, b = {0}, x, y;
	uint64_t sum = 0, word;
	uint32_t i = 0;
	for (; i + 2 * sizeof x <= len; i += 2 * sizeof x) {
		memcpy(&x, p + i, sizeof x);
		memcpy(&y, p + i + sizeof x, sizeof y);
		a ^= x;
		b ^= y;
	}
	a ^= b;
	for (; i + sizeof word <= len; i += sizeof word) {
		memcpy(&word, p + i, sizeof word);
		sum ^= word;
	}
	for (uint32_t j = 0; j < sizeof a / sizeof word; j++)
		sum ^= a[j];
	return sum;
}
#else
bool can_read_wide(void)
{
	return false;
}

static uint64_t read_wide(const uint8_t *p, uint32_t len)
{
	return read_words(p, (uint16_t)len);
}
#endif

static inline void read_all(struct loop *l, struct rte_mbuf **m, unsigned n)
{
	if (l->reading == READ_NOTHING)
		return;
	uint64_t sum = 0;
	for (unsigned i = 0; i < n; i++) {
		const uint8_t *p = rte_pktmbuf_mtod(m[i], const uint8_t *);
		sum ^= l->reading == READ_WIDE ? read_wide(p, m[i]->data_len) : read_words(p, m[i]->data_len);
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
		null_frames(l->ib_port, m, n);
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
		unsigned n = l->ib_port->ib_port.poll(l->ib_port->ib_port.self, r, BURST);
		for (unsigned i = 0; i < n; i++)
			m[i] = r[i].mbuf;
		read_all(l, m, n);
		l->done += rte_eth_tx_burst(l->port, 0, m, (uint16_t)n);
	}
	return 0;
}
